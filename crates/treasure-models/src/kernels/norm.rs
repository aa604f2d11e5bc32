//! Layer and RMS norms of single rows, with lanes summed in one fixed order.

use super::{
    isa::{MulAdd, per_isa},
    math::lane_sum,
};
use crate::stack::{Norm, NormKind};

/// `(1 + scale) · normalised + shift` for one sequence of a time-conditioned network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift<'a> {
    /// Added last.
    pub shift: &'a [f32],
    /// Factor minus one.
    pub scale: &'a [f32],
}

#[inline(always)]
fn normalise_row<F: MulAdd>(norm: &Norm, shift: Option<Shift<'_>>, from: &[f32], to: &mut [f32]) {
    let n = from.len() as f32;
    let (mean, spread) = match norm.kind {
        NormKind::Layer => {
            let mean = lane_sum::<F>(from, |x| x) / n;
            (mean, lane_sum::<F>(from, |x| (x - mean) * (x - mean)) / n)
        }
        NormKind::Rms => (0.0, lane_sum::<F>(from, |x| x * x) / n),
    };
    let inverse = 1.0 / (spread + norm.eps).sqrt();
    let terms = to.iter_mut().zip(from).zip(&norm.weight);
    match &norm.bias {
        Some(bias) => {
            for (((to, &x), &w), &b) in terms.zip(bias) {
                *to = F::mul_add((x - mean) * inverse, w, b);
            }
        }
        None => terms.for_each(|((to, &x), &w)| *to = (x - mean) * inverse * w),
    }
    if let Some(Shift { shift, scale }) = shift {
        for ((to, &shift), &scale) in to.iter_mut().zip(shift).zip(scale) {
            *to = F::mul_add(*to, 1.0 + scale, shift);
        }
    }
}

per_isa! {
    /// Normalises the row `from` into `to`, then modulates it.
    pub(crate) fn normalise(norm: &Norm, shift: Option<Shift<'_>>, from: &[f32], to: &mut [f32]) = normalise_row;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Isa;

    #[test]
    fn norms_agree_with_f64_at_odd_widths() {
        for isa in Isa::available() {
            for width in [1, 2, 15, 16, 17, 48, 100, 769] {
                for kind in [NormKind::Layer, NormKind::Rms] {
                    let x: Vec<f32> =
                        (0..width).map(|i| ((i * 29 + 7) % 31) as f32 / 7.0 - 2.0).collect();
                    let weight: Vec<f32> =
                        (0..width).map(|i| 1.0 + (i % 5) as f32 / 10.0).collect();
                    let bias =
                        Some((0..width).map(|i| (i % 3) as f32 / 10.0).collect::<Vec<f32>>());
                    let norm = Norm { kind, weight, bias, eps: 1e-5 };
                    let mut y = vec![0.0; width];
                    normalise(isa, &norm, None, &x, &mut y);
                    let n = width as f64;
                    let wide = x.iter().map(|&x| f64::from(x));
                    let mean =
                        if kind == NormKind::Layer { wide.clone().sum::<f64>() / n } else { 0.0 };
                    let spread = wide.clone().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
                    for (i, x) in wide.enumerate() {
                        let want = (x - mean) / (spread + 1e-5).sqrt() * f64::from(norm.weight[i])
                            + f64::from(norm.bias.as_ref().unwrap()[i]);
                        assert!(
                            (f64::from(y[i]) - want).abs() < 3e-6,
                            "{isa:?} {kind:?} width {width}"
                        );
                    }
                }
            }
        }
    }
}
