//! A plain candle forward pass over a [`Stack`], one sequence at a time: slow, short and easy to check.
//!
//! It is one of the things the fast executor is tested against. Weights are widened to f32.

use candle_core::{D, DType, Device, IndexOp, Result, Tensor};

use treasure_models::stack::{
    Activation, Attention, Block, Classify, Head, Linear, Norm, NormKind, PositionRule, Stack,
    Table, Visibility,
};

/// A stack and its weights as candle tensors.
pub struct Reference<'a> {
    stack: &'a Stack,
    device: Device,
    blocks: Vec<BlockTensors>,
}

struct BlockTensors {
    q: Matrix,
    k: Matrix,
    v: Matrix,
    o: Matrix,
    gate: Option<Matrix>,
    up: Matrix,
    down: Matrix,
    modulation: Option<Matrix>,
}

struct Matrix {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Matrix {
    fn new(linear: &Linear, device: &Device) -> Result<Self> {
        let (rows, width) = (linear.outputs(), linear.inputs());
        let mut values = vec![0.0; rows * width];
        for (row, to) in values.chunks_exact_mut(width.max(1)).enumerate() {
            linear.unpack_row(row, to);
        }
        let weight = Tensor::from_vec(values, (rows, width), device)?;
        let bias = linear.bias().map(|bias| Tensor::new(bias, device)).transpose()?;
        Ok(Self { weight, bias })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = x.matmul(&self.weight.t()?)?;
        match &self.bias {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }
}

impl<'a> Reference<'a> {
    /// Widens the weights of a stack onto a device.
    pub fn new(stack: &'a Stack, device: &Device) -> Result<Self> {
        let blocks = stack
            .blocks
            .iter()
            .map(|block| {
                let matrix = |linear: &Linear| Matrix::new(linear, device);
                Ok(BlockTensors {
                    q: matrix(&block.attention.q)?,
                    k: matrix(&block.attention.k)?,
                    v: matrix(&block.attention.v)?,
                    o: matrix(&block.attention.o)?,
                    gate: block.feed_forward.gate.as_ref().map(matrix).transpose()?,
                    up: matrix(&block.feed_forward.up)?,
                    down: matrix(&block.feed_forward.down)?,
                    modulation: block.modulation.as_ref().map(|m| matrix(&m.0)).transpose()?,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self { stack, device: device.clone(), blocks })
    }

    /// The hidden states of a sequence after the final norm, `[len, width]`.
    pub fn hidden(&self, ids: &[u32], sigma: f32) -> Result<Tensor> {
        let mut x = self.embed(ids)?;
        let conditioning = match &self.stack.conditioning {
            Some(conditioning) => {
                Some(Tensor::new(conditioning.vector(sigma), &self.device)?.unsqueeze(0)?)
            }
            None => None,
        };
        for (block, tensors) in self.stack.blocks.iter().zip(&self.blocks) {
            x = self.block(block, tensors, &x, conditioning.as_ref())?;
        }
        if let Some(norm) = &self.stack.final_norm {
            x = self.norm(norm, &x)?;
        }
        if let (Some(linear), Some(c)) = (&self.stack.final_modulation, &conditioning) {
            let parts = Matrix::new(linear, &self.device)?.forward(c)?.chunk(2, 1)?;
            x = modulate(&x, &parts[0], &parts[1])?;
        }
        Ok(x)
    }

    /// The logits of hidden rows, `[rows, vocabulary]`.
    pub fn logits(&self, head: &Head, hidden: &Tensor) -> Result<Tensor> {
        let mut x = hidden.clone();
        if let Some(transform) = &head.transform {
            x = Matrix::new(&transform.dense, &self.device)?.forward(&x)?;
            x = activate(transform.activation, &x)?;
            if let Some(norm) = &transform.norm {
                x = self.norm(norm, &x)?;
            }
        }
        Matrix::new(&head.decoder, &self.device)?.forward(&x)
    }

    /// The label logits of a sequence's hidden states, `[labels]`.
    pub fn classify(&self, classify: &Classify, hidden: &Tensor) -> Result<Tensor> {
        let mut x = hidden.i(0..1)?;
        if let Some((dense, activation)) = &classify.dense {
            x = activate(*activation, &Matrix::new(dense, &self.device)?.forward(&x)?)?;
        }
        Matrix::new(&classify.classifier, &self.device)?.forward(&x)?.squeeze(0)
    }

    fn embed(&self, ids: &[u32]) -> Result<Tensor> {
        let embed = &self.stack.embed;
        let width = self.stack.width();
        let rows = |table: &Table, indices: &mut dyn Iterator<Item = usize>| {
            let mut values = vec![0.0; ids.len() * width];
            for (index, row) in indices.zip(values.chunks_exact_mut(width)) {
                table.read(index, row);
            }
            Tensor::from_vec(values, (ids.len(), width), &self.device)
        };
        let mut x = rows(&embed.tokens, &mut ids.iter().map(|&id| id as usize))?;
        if let Some((table, rule)) = &embed.positions {
            let mut seen = 0;
            let mut indices = ids.iter().enumerate().map(|(i, &id)| match *rule {
                PositionRule::From(first) => first + i,
                PositionRule::CountNonPad(pad) if id == pad => pad as usize,
                PositionRule::CountNonPad(pad) => {
                    seen += 1;
                    pad as usize + seen
                }
            });
            x = (x + rows(table, &mut indices)?)?;
        }
        if let Some(constant) = &embed.constant {
            x = x.broadcast_add(&Tensor::new(&constant[..], &self.device)?)?;
        }
        embed.norm.as_ref().map_or(Ok(x.clone()), |norm| self.norm(norm, &x))
    }

    fn norm(&self, norm: &Norm, x: &Tensor) -> Result<Tensor> {
        let x = match norm.kind {
            NormKind::Layer => x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?,
            NormKind::Rms => x.clone(),
        };
        let square = x.sqr()?.mean_keepdim(D::Minus1)?;
        let x = x.broadcast_div(&(square + f64::from(norm.eps))?.sqrt()?)?;
        let x = x.broadcast_mul(&Tensor::new(&norm.weight[..], &self.device)?)?;
        match &norm.bias {
            Some(bias) => x.broadcast_add(&Tensor::new(&bias[..], &self.device)?),
            None => Ok(x),
        }
    }

    fn block(
        &self,
        block: &Block,
        tensors: &BlockTensors,
        x: &Tensor,
        conditioning: Option<&Tensor>,
    ) -> Result<Tensor> {
        let parts = match (&tensors.modulation, conditioning) {
            (Some(modulation), Some(c)) => Some(modulation.forward(c)?.chunk(6, 1)?),
            _ => None,
        };
        let normed = |norm: &Option<Norm>, x: &Tensor, first: usize| {
            let y = norm.as_ref().map_or(Ok(x.clone()), |norm| self.norm(norm, x))?;
            match &parts {
                Some(parts) => modulate(&y, &parts[first], &parts[first + 1]),
                None => Ok(y),
            }
        };
        let gated = |y: Tensor, gate: usize| match &parts {
            Some(parts) => y.broadcast_mul(&parts[gate]),
            None => Ok(y),
        };
        if block.post_norm {
            let y = self.attention(&block.attention, tensors, x)?;
            let x = normed(&block.attn_norm, &(x + y)?, 0)?;
            let y = feed_forward(block, tensors, &x)?;
            return normed(&block.ff_norm, &(x + y)?, 0);
        }
        let y = self.attention(&block.attention, tensors, &normed(&block.attn_norm, x, 0)?)?;
        let x = (x + gated(y, 2)?)?;
        let y = feed_forward(block, tensors, &normed(&block.ff_norm, &x, 3)?)?;
        x + gated(y, 5)?
    }

    fn attention(&self, a: &Attention, tensors: &BlockTensors, x: &Tensor) -> Result<Tensor> {
        let len = x.dim(0)?;
        // [heads, len, head_dim]
        let split = |y: Tensor, heads: usize| {
            y.reshape((len, heads, a.head_dim))?.transpose(0, 1)?.contiguous()
        };
        let mut q = split(tensors.q.forward(x)?, a.heads)?;
        let mut k = split(tensors.k.forward(x)?, a.kv_heads)?;
        let v = split(tensors.v.forward(x)?, a.kv_heads)?;
        if let Some(rotary) = &a.rotary {
            let table = rotary.table(len);
            let (mut cos, mut sin) = (Vec::new(), Vec::new());
            for position in 0..len {
                let (c, s) = table.at(position);
                cos.extend_from_slice(c);
                sin.extend_from_slice(s);
            }
            let shape = (len, rotary.half());
            let cos = Tensor::from_vec(cos, shape, &self.device)?;
            let sin = Tensor::from_vec(sin, shape, &self.device)?;
            q = rotate(&q, &cos, &sin)?;
            k = rotate(&k, &cos, &sin)?;
        }
        let group = a.heads / a.kv_heads;
        let repeat = |y: Tensor| {
            let shape = (a.kv_heads, group, len, a.head_dim);
            y.unsqueeze(1)?.broadcast_as(shape)?.contiguous()?.reshape((a.heads, len, a.head_dim))
        };
        let (k, v) = (repeat(k)?, repeat(v)?);
        let scores = (q.matmul(&k.t()?)? / (a.head_dim as f64).sqrt())?;
        let mask: Vec<f32> = (0..len * len)
            .map(|i| {
                let (query, key) = (i / len, i % len);
                let seen = match a.visibility {
                    Visibility::Full => true,
                    Visibility::Causal => key <= query,
                    Visibility::Window(far) => query.abs_diff(key) <= far,
                };
                if seen { 0.0 } else { f32::NEG_INFINITY }
            })
            .collect();
        let scores = scores.broadcast_add(&Tensor::from_vec(mask, (len, len), &self.device)?)?;
        let scores = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
        let weights = scores.broadcast_div(&scores.sum_keepdim(D::Minus1)?)?;
        let mixed = weights.matmul(&v)?.transpose(0, 1)?.contiguous()?;
        tensors.o.forward(&mixed.reshape((len, a.heads * a.head_dim))?)
    }
}

fn feed_forward(block: &Block, tensors: &BlockTensors, x: &Tensor) -> Result<Tensor> {
    let activation = block.feed_forward.activation;
    let up = tensors.up.forward(x)?;
    let inner = match &tensors.gate {
        Some(gate) => (activate(activation, &gate.forward(x)?)? * up)?,
        None => activate(activation, &up)?,
    };
    tensors.down.forward(&inner)
}

fn modulate(x: &Tensor, shift: &Tensor, scale: &Tensor) -> Result<Tensor> {
    x.broadcast_mul(&(scale + 1.0)?)?.broadcast_add(shift)
}

/// Rotates the first `2 · half` components of `[heads, len, head_dim]` in halves.
fn rotate(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    let (half, dim) = (cos.dim(1)?, x.dim(2)?);
    let (a, b) = (x.narrow(2, 0, half)?, x.narrow(2, half, half)?);
    let first = (a.broadcast_mul(cos)? - b.broadcast_mul(sin)?)?;
    let second = (b.broadcast_mul(cos)? + a.broadcast_mul(sin)?)?;
    if dim == 2 * half {
        return Tensor::cat(&[first, second], 2);
    }
    let rest = x.narrow(2, 2 * half, dim - 2 * half)?;
    Tensor::cat(&[first, second, rest], 2)
}

fn activate(activation: Activation, x: &Tensor) -> Result<Tensor> {
    debug_assert_eq!(x.dtype(), DType::F32);
    match activation {
        Activation::Gelu => x.gelu_erf(),
        Activation::GeluTanh => x.gelu(),
        Activation::Silu => x.silu(),
        Activation::Relu => x.relu(),
        Activation::Tanh => x.tanh(),
    }
}
