//! MDLM's diffusion transformer. A time-agnostic checkpoint sees a constant σ = 0, so its adaLN shifts,
//! scales and gates are constants and are folded into the weights; a time-conditioned one keeps them.
//! Source: kuleshov-group/mdlm `models/dit.py`.

use std::sync::Arc;

use super::{LanguageModel, Shift};
use crate::{
    Result,
    config::Config,
    stack::{
        Activation, Attention, Block, Conditioning, Embed, FeedForward, Head, Matrix, Modulation,
        Norm, NormKind, Rotary, Stack, Tokens, Visibility,
    },
    tensors::Tensors,
};

/// `F.layer_norm`'s default.
const EPS: f32 = 1e-5;
/// The sinusoid's width, whatever the conditioning width.
const SINUSOID: usize = 256;
/// Smallest survival probability of the log-linear schedule.
const LOG_LINEAR_EPS: f64 = 1e-3;

/// The noise level of a diffusion time under the log-linear schedule: `σ(t) = −ln(1 − (1 − ε) t)`.
pub(crate) fn sigma_at(t: f64) -> f64 {
    -(-(1.0 - LOG_LINEAR_EPS) * t).ln_1p()
}

struct Dit<'a> {
    t: &'a mut Tensors,
    root: &'static str,
    width: usize,
    heads: usize,
    head_dim: usize,
    cond: usize,
    /// The conditioning vector of σ = 0, for time-agnostic checkpoints.
    constant: Option<Vec<f32>>,
    rotary: Arc<Rotary>,
}

pub(super) fn build(config: &Config, t: &mut Tensors) -> Result<LanguageModel> {
    let root = if t.has("vocab_embed.embedding") { "" } else { "backbone." };
    let width = config.size("hidden_dim")?;
    let heads = config.size("n_heads")?;
    let head_dim = config.head_dim(width, heads)?;
    let cond = config.size("cond_dim")?;
    let vocabulary = config.size("vocab_size")?;
    let timed = config.flag("time_conditioning", false)?;
    let conditioning = Conditioning {
        first: t.dense(&format!("{root}sigma_map.mlp.0"), cond, SINUSOID)?,
        second: t.dense(&format!("{root}sigma_map.mlp.2"), cond, cond)?,
    };
    let constant =
        (!timed).then(|| if t.checking() { Vec::new() } else { conditioning.vector(0.0) });
    let stored = format!("{root}rotary_emb.inv_freq");
    let rotary = if t.has(&stored) {
        Rotary::from_inverse_frequencies(t.values(&stored, &[head_dim / 2])?)
    } else {
        Rotary::new(head_dim, 10000.0)
    };
    let tokens = t.matrix(&format!("{root}vocab_embed.embedding"), vocabulary, width);
    let mut dit = Dit { t, root, width, heads, head_dim, cond, constant, rotary: Arc::new(rotary) };
    let blocks = (0..config.layers("n_blocks")?).map(|i| dit.block(i)).collect::<Result<_>>()?;
    let (final_norm, final_modulation) = dit.last_norm()?;
    let decoder = t.linear(&format!("{root}output_layer.linear"), vocabulary, width, true)?;
    let stack = Stack {
        width,
        embed: Embed { tokens: Tokens::Own(tokens), positions: None, constant: None, norm: None },
        blocks,
        final_norm: Some(final_norm),
        conditioning: timed.then_some(conditioning),
        final_modulation,
    };
    Ok(LanguageModel {
        stack,
        head: Head { transform: None, decoder },
        max_len: config.size_if("model_length")?.unwrap_or(1024),
        rows: vocabulary,
        vocabulary,
        // The mask is the last id and no tokenizer knows it.
        mask_id: config.token("mask_token_id")?.or(Some(vocabulary as u32 - 1)),
        bos_id: config.token("bos_token_id")?,
        eos_id: config.token("eos_token_id")?,
        shift: Shift::None,
        timed,
    })
}

impl Dit<'_> {
    fn norm(&mut self, name: &str) -> Result<Norm> {
        self.t.norm(NormKind::Layer, name, self.width, false, EPS)
    }

    /// The constant modulation `W c + b`, cut into parts of `width`; empty parts while checking.
    fn fold(&mut self, name: &str, parts: usize, c: &[f32]) -> Result<Vec<Vec<f32>>> {
        let dense = self.t.dense(name, parts * self.width, self.cond)?;
        if self.t.checking() {
            return Ok(vec![Vec::new(); parts]);
        }
        Ok(dense.apply(c).chunks_exact(self.width).map(<[f32]>::to_vec).collect())
    }

    fn block(&mut self, i: usize) -> Result<Block> {
        let Self { width, heads, head_dim, .. } = *self;
        let name = format!("{}blocks.{i}", self.root);
        let (norm1, norm2) =
            (self.norm(&format!("{name}.norm1"))?, self.norm(&format!("{name}.norm2"))?);
        // Rows of qkv: all queries, all keys, all values, heads contiguous in each.
        let qkv = format!("{name}.attn_qkv.weight");
        let mut part = |i: usize| self.t.rows_of(&qkv, [3 * width, width], i * width, width);
        let (q, k, v) = (part(0), part(1), part(2));
        let up_name = format!("{name}.mlp.0.weight");
        let hidden = self.t.shape(&up_name).and_then(|shape| shape.first().copied());
        let hidden = hidden.unwrap_or(4 * width);
        let up = self.t.linear(&format!("{name}.mlp.0"), hidden, width, true)?;
        let (out, down) = (format!("{name}.attn_out.weight"), format!("{name}.mlp.2"));
        let ada = format!("{name}.adaLN_modulation");
        let (norm1, o, norm2, down, modulation) = match self.constant.clone() {
            Some(c) => {
                let parts = self.fold(&ada, 6, &c)?;
                let [shift1, scale1, gate1, shift2, scale2, gate2] = &parts[..] else {
                    return Err(crate::Error::new(format!("{ada}: expected six parts")));
                };
                let o = self.t.scaled(&out, width, width, gate1.clone());
                let bias = self.t.values(&format!("{down}.bias"), &[width])?;
                let bias = bias.iter().zip(gate2).map(|(b, gate)| b * gate).collect();
                let down = self.t.scaled(&format!("{down}.weight"), width, hidden, gate2.clone());
                let (norm1, norm2) =
                    (norm1.modulated(shift1, scale1), norm2.modulated(shift2, scale2));
                (norm1, o, norm2, down.with_bias(bias), None)
            }
            None => {
                let modulation = self.t.linear(&ada, 6 * width, self.cond, true)?;
                let o = self.t.matrix(&out, width, width);
                let down = self.t.linear(&down, width, hidden, true)?;
                (norm1, o, norm2, down, Some(Modulation(modulation)))
            }
        };
        Ok(Block {
            attn_norm: Some(norm1),
            attention: Attention {
                heads,
                kv_heads: heads,
                head_dim,
                q,
                k,
                v,
                o,
                rotary: Some(Arc::clone(&self.rotary)),
                visibility: Visibility::Full,
            },
            ff_norm: Some(norm2),
            feed_forward: FeedForward { gate: None, up, activation: Activation::GeluTanh, down },
            post_norm: false,
            modulation,
        })
    }

    fn last_norm(&mut self) -> Result<(Norm, Option<Matrix>)> {
        let norm = self.norm(&format!("{}output_layer.norm_final", self.root))?;
        let ada = format!("{}output_layer.adaLN_modulation", self.root);
        match self.constant.clone() {
            Some(c) => {
                let parts = self.fold(&ada, 2, &c)?;
                Ok((norm.modulated(&parts[0], &parts[1]), None))
            }
            None => Ok((norm, Some(self.t.linear(&ada, 2 * self.width, self.cond, true)?))),
        }
    }
}
