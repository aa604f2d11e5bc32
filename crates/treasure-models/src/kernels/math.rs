//! Vectorised exponentials and activations: polynomials with a relative error below 3e-7.
//!
//! Coefficients are our own weighted least-squares (Lawson) minimax fits; the tests hold them against f64.

use super::isa::{MulAdd, per_isa};
use crate::stack::Activation;

/// `exp(x)`; exactly 0 below −87, so that masked scores weigh nothing.
#[inline(always)]
pub(crate) fn exp<F: MulAdd>(x: f32) -> f32 {
    // x = n ln 2 + r with |r| ≤ ln 2 / 2; adding 1.5 · 2²³ rounds to the nearest integer.
    const MAGIC: f32 = 12_582_912.0;
    let clamped = x.clamp(-87.0, 88.0);
    let shifted = F::mul_add(clamped, std::f32::consts::LOG2_E, MAGIC);
    let n = shifted - MAGIC;
    let r = F::mul_add(n, -0.693_145_75, clamped);
    let r = F::mul_add(n, -1.428_606_8e-6, r);
    let p = F::mul_add(r, 0.001_381_460_2, 0.008_368_716);
    let p = F::mul_add(p, r, 0.041_668_39);
    let p = F::mul_add(p, r, 0.166_665_2);
    let p = F::mul_add(p, r, 0.499_999_93);
    let p = F::mul_add(p, r, 1.0);
    let p = F::mul_add(p, r, 1.0);
    // 2ⁿ by its bits: the low bits of `shifted` hold n as an integer.
    let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    if x < -87.0 { 0.0 } else { p * scale }
}

#[inline(always)]
fn sigmoid<F: MulAdd>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<F>(-x))
}

/// `x · Φ(x)` through `erfc(z) = exp(−z²) · t · P(t)`, `t = 1 / (1 + 0.4 z)`.
#[inline(always)]
fn gelu<F: MulAdd>(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / F::mul_add(0.4, z, 1.0);
    let p = F::mul_add(t, 0.041_253_01, -0.140_319_15);
    let p = F::mul_add(p, t, 0.083_987_21);
    let p = F::mul_add(p, t, 0.087_964_304);
    let p = F::mul_add(p, t, 0.079_756_595);
    let p = F::mul_add(p, t, 0.193_393_13);
    let p = F::mul_add(p, t, 0.201_887_62);
    let p = F::mul_add(p, t, 0.226_443_11);
    let p = F::mul_add(p, t, 0.225_634_23);
    let tail = 0.5 * p * t * exp::<F>(-z * z);
    x * if x < 0.0 { tail } else { 1.0 - tail }
}

#[inline(always)]
fn gelu_tanh<F: MulAdd>(x: f32) -> f32 {
    // 0.5 (1 + tanh u) = sigmoid(2u)
    let inner = F::mul_add(0.044_715 * x * x, x, x);
    x * sigmoid::<F>(1.595_769 * inner)
}

#[inline(always)]
fn tanh<F: MulAdd>(x: f32) -> f32 {
    // Near 0 the quotient would lose digits; the series is exact to f32 there.
    let e = exp::<F>(-2.0 * x.abs());
    let large = ((1.0 - e) / (1.0 + e)).copysign(x);
    let s = x * x;
    let small = x * F::mul_add(
        F::mul_add(F::mul_add(s, -0.053_968_254, 0.133_333_33), s, -0.333_333_33),
        s,
        1.0,
    );
    if x.abs() < 0.15 { small } else { large }
}

#[inline(always)]
pub(crate) fn activate_all<F: MulAdd>(activation: Activation, values: &mut [f32]) {
    match activation {
        Activation::Gelu => values.iter_mut().for_each(|x| *x = gelu::<F>(*x)),
        Activation::GeluTanh => values.iter_mut().for_each(|x| *x = gelu_tanh::<F>(*x)),
        Activation::Silu => values.iter_mut().for_each(|x| *x *= sigmoid::<F>(*x)),
        // Not `max`, which would turn NaN into 0 and hide it.
        Activation::Relu => values.iter_mut().for_each(|x| *x = if *x < 0.0 { 0.0 } else { *x }),
        Activation::Tanh => values.iter_mut().for_each(|x| *x = tanh::<F>(*x)),
    }
}

per_isa! {
    /// Applies an activation to every number.
    pub(crate) fn activate(activation: Activation, values: &mut [f32]) = activate_all;
}

/// Sums in lanes: number `i` goes to lane `i % 16`, lanes are added in one fixed order.
#[inline(always)]
pub(crate) fn lane_sum<F: MulAdd>(values: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; 16];
    let chunks = values.chunks_exact(16);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += term(x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += term(x);
    }
    fold_lanes(lanes, |a, b| a + b)
}

/// Combines sixteen lanes in one fixed order.
#[inline(always)]
pub(crate) fn fold_lanes(mut lanes: [f32; 16], combine: impl Fn(f32, f32) -> f32) -> f32 {
    for width in [8, 4, 2, 1] {
        for i in 0..width {
            lanes[i] = combine(lanes[i], lanes[i + width]);
        }
    }
    lanes[0]
}

/// The largest number; −∞ if there is none.
#[inline(always)]
pub(crate) fn lane_max(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; 16];
    let chunks = values.chunks_exact(16);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = larger(*lane, x);
    }
    fold_lanes(lanes, larger)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Isa;

    #[inline(always)]
    fn exp_all<F: MulAdd>(values: &mut [f32]) {
        values.iter_mut().for_each(|x| *x = exp::<F>(*x));
    }

    per_isa! { fn exponentials(values: &mut [f32]) = exp_all; }

    fn grid() -> Vec<f32> {
        (-90_000..90_000).map(|i| i as f32 * 1e-3 + 3.7e-5).collect()
    }

    /// Φ(x) by the complementary error function of a long continued fraction or series in f64.
    fn normal_cdf(x: f64) -> f64 {
        let z = x.abs() / std::f64::consts::SQRT_2;
        let erfc = if z < 3.0 {
            let (mut term, mut sum) = (z, z);
            for n in 1..200 {
                term *= -z * z / n as f64;
                sum += term / (2 * n + 1) as f64;
            }
            1.0 - sum * 2.0 / std::f64::consts::PI.sqrt()
        } else {
            let tail = (1..200).rev().fold(z, |f, n| z + n as f64 / 2.0 / f);
            (-z * z).exp() / tail / std::f64::consts::PI.sqrt()
        };
        if x < 0.0 { erfc / 2.0 } else { 1.0 - erfc / 2.0 }
    }

    #[test]
    fn exponentials_are_within_3e_7_of_f64_and_vanish_far_below_zero() {
        for isa in Isa::available() {
            let mut y: Vec<f32> = grid();
            exponentials(isa, &mut y);
            for (x, y) in grid().iter().zip(&y) {
                let exact = f64::from(*x).exp();
                if *x < -87.0 {
                    assert_eq!(*y, 0.0);
                } else if *x < 88.0 {
                    assert!((f64::from(*y) / exact - 1.0).abs() < 3e-7, "{isa:?} exp({x}) = {y}");
                }
            }
            let mut minus_infinity = [f32::NEG_INFINITY];
            exponentials(isa, &mut minus_infinity);
            assert_eq!(minus_infinity[0], 0.0);
        }
    }

    #[test]
    fn no_activation_turns_what_is_no_number_into_one() {
        for isa in Isa::available() {
            for activation in ALL {
                let mut values = [f32::NAN; 19];
                activate(isa, activation, &mut values);
                assert!(values.iter().all(|x| x.is_nan()), "{isa:?} {activation:?}");
            }
        }
    }

    const ALL: [Activation; 5] = [
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Silu,
        Activation::Relu,
        Activation::Tanh,
    ];

    #[test]
    fn activations_are_within_5e_7_of_f64() {
        let exact = |activation, x: f64| match activation {
            Activation::Gelu => x * normal_cdf(x),
            Activation::GeluTanh => {
                let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
                0.5 * x * (1.0 + u.tanh())
            }
            Activation::Silu => x / (1.0 + (-x).exp()),
            Activation::Relu => x.max(0.0),
            Activation::Tanh => x.tanh(),
        };
        for isa in Isa::available() {
            for activation in ALL {
                let xs: Vec<f32> = (-12_000..12_000).map(|i| i as f32 * 1e-3 + 1.3e-5).collect();
                let mut ys = xs.clone();
                activate(isa, activation, &mut ys);
                for (x, y) in xs.iter().zip(&ys) {
                    let want = exact(activation, f64::from(*x));
                    let bound = 5e-7 * want.abs().max(0.3);
                    assert!(
                        (f64::from(*y) - want).abs() < bound,
                        "{isa:?} {activation:?}({x}) = {y}, want {want}"
                    );
                }
            }
        }
    }
}
