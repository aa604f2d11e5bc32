//! A stack and what reads it, checked once: whoever holds a [`Network`] may rely on every shape.

use super::{Matrix, Norm, PositionRule, Reader, Stack, Tokens};
use crate::{Error, Result};

/// A network whose parts fit together.
#[derive(Debug)]
pub struct Network {
    stack: Stack,
    reader: Reader,
}

/// What a batch for a network is checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Numbers in a hidden row.
    pub width: usize,
    /// Token ids are below this.
    pub tokens: usize,
    /// Rows of the table of learned positions, and which one a token reads.
    pub positions: Option<(usize, PositionRule)>,
    /// Logits of a row: the vocabulary or the labels.
    pub outputs: usize,
    /// Whether the reader is a vocabulary head.
    pub vocabulary: bool,
    /// Whether every layer is causal.
    pub causal: bool,
}

fn same(part: impl std::fmt::Display, expected: usize, got: usize) -> Result<()> {
    if expected == got { Ok(()) } else { Err(Error::expected(part, expected, got)) }
}

fn shape(part: &str, matrix: &Matrix, outputs: usize, inputs: usize) -> Result<()> {
    same(format!("{part} outputs"), outputs, matrix.outputs())?;
    same(format!("{part} inputs"), inputs, matrix.inputs())?;
    same(format!("{part} bias"), outputs, matrix.bias().map_or(outputs, <[f32]>::len))
}

fn norm(part: &str, norm: Option<&Norm>, width: usize) -> Result<()> {
    let Some(norm) = norm else { return Ok(()) };
    same(format!("{part} weight"), width, norm.weight.len())?;
    same(format!("{part} bias"), width, norm.bias.as_ref().map_or(width, Vec::len))
}

impl Network {
    /// Checks every shape.
    pub fn new(stack: Stack, reader: Reader) -> Result<Self> {
        check_stack(&stack)?;
        check_reader(&reader, stack.width)?;
        if let (Tokens::Decoder, Reader::Classes(_)) = (&stack.embed.tokens, &reader) {
            return Err(Error::expected(
                "token table",
                "one of its own",
                "the decoder of a classifier",
            ));
        }
        Ok(Self { stack, reader })
    }

    /// The stack.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// What reads its hidden rows.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Both, taken apart.
    pub fn into_parts(self) -> (Stack, Reader) {
        (self.stack, self.reader)
    }

    /// What a batch is checked against.
    pub fn outline(&self) -> Outline {
        let outputs = self.reader.first_and_last().1.outputs();
        let positions = &self.stack.embed.positions;
        Outline {
            width: self.stack.width,
            tokens: match &self.stack.embed.tokens {
                Tokens::Own(table) => table.outputs(),
                Tokens::Decoder => outputs,
            },
            positions: positions.as_ref().map(|(table, rule)| (table.outputs(), *rule)),
            outputs,
            vocabulary: matches!(self.reader, Reader::Vocabulary(_)),
            causal: self.stack.is_causal(),
        }
    }
}

fn check_stack(stack: &Stack) -> Result<()> {
    let width = stack.width;
    if width == 0 {
        return Err(Error::expected("width", "at least 1", width));
    }
    let embed = &stack.embed;
    if let Tokens::Own(table) = &embed.tokens {
        same("token embedding width", width, table.inputs())?;
    }
    if let Some((table, _)) = &embed.positions {
        same("position embedding width", width, table.inputs())?;
    }
    same("token type embedding", width, embed.constant.as_ref().map_or(width, Vec::len))?;
    norm("embedding norm", embed.norm.as_ref(), width)?;
    norm("final norm", stack.final_norm.as_ref(), width)?;
    let conditioning = stack.conditioning.as_ref().map(|c| c.second.outputs());
    if let Some(c) = &stack.conditioning {
        same("conditioning second inputs", c.first.outputs(), c.second.inputs())?;
    }
    let modulated =
        |part: String, matrix: Option<&Matrix>, parts: usize| match (matrix, conditioning) {
            (Some(matrix), Some(inputs)) => shape(&part, matrix, parts * width, inputs),
            (Some(_), None) => Err(Error::expected(part, "a conditioning vector", "none")),
            (None, _) => Ok(()),
        };
    modulated("final modulation".to_owned(), stack.final_modulation.as_ref(), 2)?;
    for (i, block) in stack.blocks.iter().enumerate() {
        let a = &block.attention;
        let part = |name: &str| format!("block {i} {name}");
        if a.kv_heads == 0 || a.heads == 0 || !a.heads.is_multiple_of(a.kv_heads) {
            let got = format!("{} over {}", a.heads, a.kv_heads);
            return Err(Error::expected(part("attention"), "heads a multiple of key heads", got));
        }
        if a.head_dim == 0 {
            return Err(Error::expected(part("attention"), "at least 1 component per head", 0));
        }
        shape(&part("attention.q"), &a.q, a.heads * a.head_dim, width)?;
        shape(&part("attention.k"), &a.k, a.kv_heads * a.head_dim, width)?;
        shape(&part("attention.v"), &a.v, a.kv_heads * a.head_dim, width)?;
        shape(&part("attention.o"), &a.o, width, a.heads * a.head_dim)?;
        if let Some(rotary) = &a.rotary
            && 2 * rotary.half() > a.head_dim
        {
            let expected = format!("at most the head's {}", a.head_dim);
            return Err(Error::expected(part("attention.rotary"), expected, 2 * rotary.half()));
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
            return Err(Error::expected(part("modulation"), "a pre-norm block", "post-norm"));
        }
    }
    Ok(())
}

fn check_reader(reader: &Reader, width: usize) -> Result<()> {
    let (first, last) = reader.first_and_last();
    let middle = if std::ptr::eq(first, last) { width } else { first.outputs() };
    shape("head", first, first.outputs(), width)?;
    shape("logits", last, last.outputs(), middle)?;
    norm("head norm", reader.norm(), middle)
}
