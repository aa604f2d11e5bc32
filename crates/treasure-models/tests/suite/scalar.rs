//! A slow and simple executor, written against the public interface alone: plain loops in f64, one sequence at
//! a time, the defaults of [`Forward`] for everything it may leave out. It proves the seam and is what the fast
//! one is compared with.

use treasure_models::{
    Result,
    exec::{Executor, Facts, Forward, Precision, Sequence, Storage},
    stack::{
        Activation, Attention, Block, FeedForward, Matrix, Network, Norm, NormKind, Reader, Stack,
        Tokens, Visibility,
    },
};

/// Runs networks in plain f64 loops.
#[derive(Debug)]
pub struct Scalar;

/// Weights as they are.
#[derive(Debug)]
struct Plain {
    inputs: usize,
    weights: Vec<f32>,
    bias: Option<Vec<f32>>,
}

impl Plain {
    fn take(mut matrix: Matrix) -> Result<Self> {
        let inputs = matrix.inputs();
        let mut weights = vec![0.0; matrix.outputs() * inputs];
        matrix.read(0, &mut weights)?;
        Ok(Self { inputs, weights, bias: matrix.take_bias() })
    }

    fn row(&self, index: usize) -> Vec<f64> {
        self.weights[index * self.inputs..][..self.inputs].iter().map(|&x| x.into()).collect()
    }

    /// `W x + b`.
    fn apply(&self, x: &[f64]) -> Vec<f64> {
        let rows = self.weights.chunks_exact(self.inputs).enumerate();
        rows.map(|(r, row)| {
            let sum: f64 = row.iter().zip(x).map(|(&w, &x)| f64::from(w) * x).sum();
            sum + self.bias.as_ref().map_or(0.0, |b| f64::from(b[r]))
        })
        .collect()
    }
}

/// A network in plain numbers.
#[derive(Debug)]
struct ScalarNetwork {
    stack: Stack<Plain>,
    reader: Reader<Plain>,
}

impl Executor for Scalar {
    fn facts(&self) -> Facts {
        Facts { name: "scalar".to_owned(), precision: Precision::F32, row_invariant: true }
    }

    fn load(&self, network: Network, _: Storage) -> Result<Box<dyn Forward>> {
        let (stack, reader) = network.into_parts();
        let stack = stack.try_map(&mut Plain::take, &mut Plain::take)?;
        let reader = reader.try_map(&mut Plain::take)?;
        Ok(Box::new(ScalarNetwork { stack, reader }))
    }
}

impl Forward for ScalarNetwork {
    fn hidden(&self, batch: &[Sequence<'_>]) -> Result<Vec<f32>> {
        let mut rows = Vec::new();
        for sequence in batch {
            let all = self.run(sequence.tokens, sequence.sigma);
            rows.extend(sequence.kept().flat_map(|at| all[at].iter().map(|&x| x as f32)));
        }
        Ok(rows)
    }

    fn width(&self) -> usize {
        self.stack.width
    }

    fn logits(&self, rows: &[f32]) -> Result<Vec<f32>> {
        let row = |row: &[f32]| {
            let mut x: Vec<f64> = row.iter().map(|&x| x.into()).collect();
            match &self.reader {
                Reader::Vocabulary(head) => {
                    if let Some(t) = &head.transform {
                        x = t.dense.apply(&x).iter().map(|&x| activate(t.activation, x)).collect();
                        x = normalised(t.norm.as_ref(), &x);
                    }
                    head.decoder.apply(&x)
                }
                Reader::Classes(classify) => {
                    if let Some((dense, activation)) = &classify.dense {
                        x = dense.apply(&x).iter().map(|&x| activate(*activation, x)).collect();
                    }
                    classify.classifier.apply(&x)
                }
            }
        };
        Ok(rows.chunks_exact(self.stack.width).flat_map(row).map(|x| x as f32).collect())
    }

    fn bytes(&self) -> usize {
        let of = |plain: &Plain| 4 * plain.weights.len();
        self.stack.blocks.iter().flat_map(Block::matrices).map(of).sum()
    }
}

impl ScalarNetwork {
    fn token(&self, token: u32) -> Vec<f64> {
        match &self.stack.embed.tokens {
            Tokens::Own(table) => table.row(token as usize),
            Tokens::Decoder => self.reader.first_and_last().1.row(token as usize),
        }
    }

    fn embed(&self, tokens: &[u32]) -> Vec<Vec<f64>> {
        let embed = &self.stack.embed;
        let mut rows: Vec<Vec<f64>> = tokens.iter().map(|&token| self.token(token)).collect();
        if let Some((table, rule)) = &embed.positions {
            for (x, at) in rows.iter_mut().zip(rule.rows(tokens)) {
                x.iter_mut().zip(table.row(at)).for_each(|(x, p)| *x += p);
            }
        }
        for x in &mut rows {
            let constant = embed.constant.iter().flatten();
            x.iter_mut().zip(constant).for_each(|(x, &c)| *x += f64::from(c));
            *x = normalised(embed.norm.as_ref(), x);
        }
        rows
    }

    /// All rows of one sequence after the final norm.
    fn run(&self, tokens: &[u32], sigma: f32) -> Vec<Vec<f64>> {
        let Stack { width, blocks, final_norm, conditioning, final_modulation, .. } = &self.stack;
        let condition = conditioning.as_ref().map(|c| wide(&c.vector(sigma)));
        // Without a modulation: no shift, no scale, a gate of one.
        let parts = |matrix: Option<&Plain>, n: usize| -> Vec<Vec<f64>> {
            match (matrix, &condition) {
                (Some(m), Some(c)) => m.apply(c).chunks(*width).map(<[f64]>::to_vec).collect(),
                _ => (0..n).map(|i| vec![f64::from(u8::from(i % 3 == 2)); *width]).collect(),
            }
        };
        let mut rows = self.embed(tokens);
        for block in blocks {
            let m = parts(block.modulation.as_ref().map(|m| &m.0), 6);
            let before = |norm: &Option<Norm>, x: &[f64], i: usize| match block.post_norm {
                true => x.to_vec(),
                false => shifted(normalised(norm.as_ref(), x), &m[i], &m[i + 1]),
            };
            let after = |norm: &Option<Norm>, x: &mut Vec<f64>| {
                if block.post_norm {
                    *x = normalised(norm.as_ref(), x);
                }
            };
            let inputs: Vec<Vec<f64>> =
                rows.iter().map(|x| before(&block.attn_norm, x, 0)).collect();
            for (x, more) in rows.iter_mut().zip(attention(&block.attention, &inputs)) {
                add(x, &more, &m[2]);
                after(&block.attn_norm, x);
                let more = feed_forward(&block.feed_forward, &before(&block.ff_norm, x, 3));
                add(x, &more, &m[5]);
                after(&block.ff_norm, x);
            }
        }
        let m = parts(final_modulation.as_ref(), 2);
        let last = |x: &Vec<f64>| match final_norm {
            Some(norm) => shifted(normalised(Some(norm), x), &m[0], &m[1]),
            None => x.clone(),
        };
        rows.iter().map(last).collect()
    }
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| x.into()).collect()
}

fn add(x: &mut [f64], more: &[f64], gate: &[f64]) {
    x.iter_mut().zip(more).zip(gate).for_each(|((x, m), g)| *x += m * g);
}

fn shifted(x: Vec<f64>, shift: &[f64], scale: &[f64]) -> Vec<f64> {
    let both = shift.iter().zip(scale);
    x.iter().zip(both).map(|(x, (shift, scale))| x * (1.0 + scale) + shift).collect()
}

fn normalised(norm: Option<&Norm>, x: &[f64]) -> Vec<f64> {
    let Some(norm) = norm else { return x.to_vec() };
    let n = x.len() as f64;
    let mean = if norm.kind == NormKind::Layer { x.iter().sum::<f64>() / n } else { 0.0 };
    let spread = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    let bias = |i: usize| norm.bias.as_ref().map_or(0.0, |b| f64::from(b[i]));
    let scale = 1.0 / (spread + f64::from(norm.eps)).sqrt();
    (0..x.len()).map(|i| (x[i] - mean) * scale * f64::from(norm.weight[i]) + bias(i)).collect()
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Gelu => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Relu => x.max(0.0),
        Activation::Tanh => x.tanh(),
    }
}

/// The error function: its Maclaurin series near 0, a continued fraction far out.
fn erf(z: f64) -> f64 {
    let root = std::f64::consts::PI.sqrt();
    if z.abs() < 3.0 {
        let (mut term, mut sum) = (z, z);
        for n in 1..160 {
            term *= -z * z / n as f64;
            sum += term / (2 * n + 1) as f64;
        }
        return sum * 2.0 / root;
    }
    let tail = (1..200).rev().fold(z.abs(), |f, n| z.abs() + n as f64 / 2.0 / f);
    (1.0 - (-z * z).exp() / tail / root).copysign(z)
}

fn attention(a: &Attention<Plain>, rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let d = a.head_dim;
    let rotated = |x: &mut Vec<f64>, position: usize| {
        let Some(rotary) = &a.rotary else { return };
        let half = rotary.half();
        for head in x.chunks_mut(d) {
            for (i, frequency) in rotary.inverse_frequencies().iter().enumerate() {
                let (s, c) = f64::from(position as f32 * frequency).sin_cos();
                let (x, y) = (head[i], head[i + half]);
                (head[i], head[i + half]) = (x * c - y * s, y * c + x * s);
            }
        }
    };
    let run = |matrix: &Plain, turn: bool| -> Vec<Vec<f64>> {
        let mut all: Vec<Vec<f64>> = rows.iter().map(|x| matrix.apply(x)).collect();
        if turn {
            all.iter_mut().enumerate().for_each(|(i, x)| rotated(x, i));
        }
        all
    };
    let (q, k, v) = (run(&a.q, true), run(&a.k, true), run(&a.v, false));
    let mut result = Vec::new();
    for (i, query) in q.iter().enumerate() {
        let mut context = vec![0.0; a.heads * d];
        for head in 0..a.heads {
            let kv = head / (a.heads / a.kv_heads);
            let seen = |j: &usize| match a.visibility {
                Visibility::Full => true,
                Visibility::Causal => *j <= i,
                Visibility::Window(far) => j.abs_diff(i) <= far,
            };
            let seen: Vec<usize> = (0..rows.len()).filter(seen).collect();
            let score = |j: usize| -> f64 {
                let dot: f64 = (0..d).map(|c| query[head * d + c] * k[j][kv * d + c]).sum();
                dot / (d as f64).sqrt()
            };
            let scores: Vec<f64> = seen.iter().map(|&j| score(j)).collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for c in 0..d {
                let mix: f64 = seen.iter().zip(&weights).map(|(&j, w)| w * v[j][kv * d + c]).sum();
                context[head * d + c] = mix / sum;
            }
        }
        result.push(a.o.apply(&context));
    }
    result
}

fn feed_forward(ff: &FeedForward<Plain>, x: &[f64]) -> Vec<f64> {
    let up = ff.up.apply(x);
    let inner: Vec<f64> = match &ff.gate {
        Some(gate) => {
            let gate = gate.apply(x);
            gate.iter().zip(up).map(|(&g, u)| activate(ff.activation, g) * u).collect()
        }
        None => up.into_iter().map(|u| activate(ff.activation, u)).collect(),
    };
    ff.down.apply(&inner)
}
