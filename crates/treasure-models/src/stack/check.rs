//! Shapes that must agree before a stack may run, so that executors never have to ask.

use super::{Linear, Norm, Stack, Visibility};
use crate::kernels::MAX_HEAD_DIM;

/// Two parts of a network that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part}: expected {expected}, got {got}")]
pub struct StackError {
    /// Which part, for example `block 3 attention.q outputs`.
    pub part: String,
    /// What the rest of the network asks for.
    pub expected: String,
    /// What it is.
    pub got: String,
}

fn same(part: impl Into<String>, expected: usize, got: usize) -> Result<(), StackError> {
    if expected == got {
        return Ok(());
    }
    Err(StackError { part: part.into(), expected: expected.to_string(), got: got.to_string() })
}

fn shape(part: &str, linear: &Linear, outputs: usize, inputs: usize) -> Result<(), StackError> {
    same(format!("{part} outputs"), outputs, linear.outputs())?;
    same(format!("{part} inputs"), inputs, linear.inputs())
}

fn norm(part: &str, norm: Option<&Norm>, width: usize) -> Result<(), StackError> {
    let Some(norm) = norm else { return Ok(()) };
    same(format!("{part} weight"), width, norm.weight.len())?;
    same(format!("{part} bias"), width, norm.bias.as_ref().map_or(width, Vec::len))
}

impl Stack {
    /// Checks every shape. Executors refuse a stack that does not pass.
    pub fn check(&self) -> Result<(), StackError> {
        let width = self.width();
        if let Some((table, _)) = &self.embed.positions {
            same("position embedding width", width, table.width())?;
        }
        same("token type embedding", width, self.embed.constant.as_ref().map_or(width, Vec::len))?;
        norm("embedding norm", self.embed.norm.as_ref(), width)?;
        norm("final norm", self.final_norm.as_ref(), width)?;
        let conditioning = self.conditioning.as_ref().map(|c| c.second.outputs());
        if let Some(c) = &self.conditioning {
            same("conditioning second inputs", c.first.outputs(), c.second.inputs())?;
        }
        let modulated =
            |part: String, linear: Option<&Linear>, parts: usize| match (linear, conditioning) {
                (Some(linear), Some(inputs)) => shape(&part, linear, parts * width, inputs),
                (Some(_), None) => Err(StackError {
                    part,
                    expected: "a conditioning vector".into(),
                    got: "none".into(),
                }),
                (None, _) => Ok(()),
            };
        modulated("final modulation".into(), self.final_modulation.as_ref(), 2)?;
        for (i, block) in self.blocks.iter().enumerate() {
            let a = &block.attention;
            let part = |name: &str| format!("block {i} {name}");
            if a.kv_heads == 0 || a.heads == 0 || !a.heads.is_multiple_of(a.kv_heads) {
                let got = format!("{} over {}", a.heads, a.kv_heads);
                let expected = "heads a multiple of key heads".into();
                return Err(StackError { part: part("attention"), expected, got });
            }
            if a.head_dim == 0 || a.head_dim > MAX_HEAD_DIM {
                let expected = format!("1 to {MAX_HEAD_DIM} components per head");
                return Err(StackError {
                    part: part("attention"),
                    expected,
                    got: a.head_dim.to_string(),
                });
            }
            shape(&part("attention.q"), &a.q, a.heads * a.head_dim, width)?;
            shape(&part("attention.k"), &a.k, a.kv_heads * a.head_dim, width)?;
            shape(&part("attention.v"), &a.v, a.kv_heads * a.head_dim, width)?;
            shape(&part("attention.o"), &a.o, width, a.heads * a.head_dim)?;
            if let Some(rotary) = &a.rotary {
                let fits = 2 * rotary.half() <= a.head_dim;
                same(
                    part("attention.rotary"),
                    a.head_dim,
                    if fits { a.head_dim } else { 2 * rotary.half() },
                )?;
            }
            let ff = &block.feed_forward;
            shape(&part("feed_forward.up"), &ff.up, ff.up.outputs(), width)?;
            if let Some(gate) = &ff.gate {
                shape(&part("feed_forward.gate"), gate, ff.up.outputs(), width)?;
            }
            shape(&part("feed_forward.down"), &ff.down, width, ff.up.outputs())?;
            norm(&part("attention norm"), block.attn_norm.as_ref(), width)?;
            norm(&part("feed-forward norm"), block.ff_norm.as_ref(), width)?;
            modulated(part("modulation"), block.modulation.as_ref().map(|m| &m.0), 6)?;
            if block.modulation.is_some() && block.post_norm {
                let part = part("modulation");
                return Err(StackError {
                    part,
                    expected: "a pre-norm block".into(),
                    got: "post-norm".into(),
                });
            }
        }
        Ok(())
    }

    /// Whether every block is causal, so that shared prefixes can be computed once.
    pub fn is_causal(&self) -> bool {
        self.blocks.iter().all(|b| b.attention.visibility == Visibility::Causal)
    }
}
