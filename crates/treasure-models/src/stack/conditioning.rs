//! The vector a time-conditioned network reads: made once per noise level, in plain arithmetic.

/// A small matrix with a bias, held as it is.
#[derive(Clone, Debug)]
pub struct Dense {
    /// `[outputs, inputs]`, row by row.
    pub weights: Vec<f32>,
    /// One per output.
    pub bias: Vec<f32>,
}

impl Dense {
    /// The number of outputs.
    pub fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// The number of inputs.
    pub fn inputs(&self) -> usize {
        self.weights.len() / self.bias.len().max(1)
    }

    /// `W x + b` with f64 sums.
    pub fn apply(&self, x: &[f32]) -> Vec<f32> {
        let product = |(row, &b): (&[f32], &f32)| {
            let sum: f64 = row.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
            (sum + f64::from(b)) as f32
        };
        self.weights.chunks_exact(self.inputs().max(1)).zip(&self.bias).map(product).collect()
    }
}

/// `SiLU(second(SiLU(first(sinusoid(σ)))))`: mdlm's conditioning vector. The sinusoid is `[cos | sin]` of
/// `σ · exp(−ln(10000) · i / half)`.
#[derive(Clone, Debug)]
pub struct Conditioning {
    /// `[conditioning width, sinusoid width]`.
    pub first: Dense,
    /// `[conditioning width, conditioning width]`.
    pub second: Dense,
}

impl Conditioning {
    /// The conditioning vector at noise level σ: a few thousand operations.
    pub fn vector(&self, sigma: f32) -> Vec<f32> {
        let half = self.first.inputs() / 2;
        let angle = |i: usize| sigma * (-(10000f32.ln()) * i as f32 / half as f32).exp();
        let mut wave: Vec<f32> = (0..half).map(|i| f64::from(angle(i)).cos() as f32).collect();
        wave.extend((0..half).map(|i| f64::from(angle(i)).sin() as f32));
        wave.resize(self.first.inputs(), 0.0);
        silu(&self.second.apply(&silu(&self.first.apply(&wave))))
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        [&self.first, &self.second].map(|d| 4 * (d.weights.len() + d.bias.len())).iter().sum()
    }
}

fn silu(x: &[f32]) -> Vec<f32> {
    x.iter().map(|x| x / (1.0 + (-x).exp())).collect()
}
