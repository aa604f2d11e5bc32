//! How fast and where masks are revealed: in blocks from left to right, and several at a step.
//!
//! As LLaDA's `block_length` and `steps` say it: a block is finished before the next one begins, the
//! steps are shared out evenly among the blocks, and the tokens of a block evenly among its steps, the
//! first steps taking what is left over (`get_num_transfer_tokens` of ML-GSAI/LLaDA).

use crate::{Error, MaskedSeq, Result, options::at_least_one};

/// Blocks and steps; by default one block and a token a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Positions of a block.
    pub block: Option<usize>,
    /// Steps in all.
    pub steps: Option<usize>,
}

/// What a step may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Only masks before this position are open.
    pub end: usize,
    /// How many tokens it places.
    pub tokens: usize,
}

impl Pace {
    /// Refuses blocks of no position and a search of no step.
    pub fn check(&self) -> Result<()> {
        at_least_one("block", self.block.unwrap_or(1))?;
        at_least_one("steps", self.steps.unwrap_or(1))
    }

    /// Refuses what cannot be shared out evenly over a stretch of positions, and says what can.
    pub fn fits(&self, positions: usize) -> Result<()> {
        self.check()?;
        let invalid = |what, expected, got: usize| {
            Err(Error::Invalid { what, expected, got: got.to_string() })
        };
        let block = self.block.unwrap_or(positions).clamp(1, positions.max(1));
        if self.steps.is_some() && !positions.is_multiple_of(block) {
            let near = near(block, |size| positions.is_multiple_of(size));
            let expected = format!("a number that divides the length {positions}, such as {near}");
            return invalid("block", expected, block);
        }
        let blocks = positions.div_ceil(block);
        match self.steps {
            Some(steps) if !steps.is_multiple_of(blocks) => {
                let near = near(steps, |steps| steps.is_multiple_of(blocks));
                let expected = format!("a multiple of the {blocks} blocks, such as {near}");
                invalid("steps", expected, steps)
            }
            _ => Ok(()),
        }
    }

    /// How many steps it takes to place so many tokens.
    pub fn steps(&self, tokens: usize) -> usize {
        self.steps.unwrap_or(tokens)
    }

    /// The positions from the first mask to the last, and where they begin.
    fn stretch(start: &MaskedSeq) -> (usize, usize) {
        let first = start.masked().next().unwrap_or(0);
        let last = start.masked().last().map_or(first, |last| last + 1);
        (first, last - first)
    }

    /// Refuses what does not fit a start state.
    pub fn fits_start(&self, start: &MaskedSeq) -> Result<()> {
        self.fits(Self::stretch(start).1)
    }

    /// Where the block ends in which the first mask of a state stands.
    pub fn open_until(&self, start: &MaskedSeq, state: &MaskedSeq) -> usize {
        match (self.block, state.masked().next()) {
            (Some(block), Some(mask)) => {
                let (first, _) = Self::stretch(start);
                // A block may be longer than any text.
                let blocks = (mask - first.min(mask)) / block + 1;
                first.saturating_add(blocks.saturating_mul(block))
            }
            _ => state.len(),
        }
    }

    /// What the step of this number may do.
    pub fn stage(&self, start: &MaskedSeq, mut step: usize) -> Stage {
        let (first, positions) = Self::stretch(start);
        let block = self.block.unwrap_or(positions).clamp(1, positions.max(1));
        let blocks = positions.div_ceil(block);
        for number in 0..blocks {
            let range = first + number * block..first + (number + 1) * block;
            let tokens = start.masked().filter(|position| range.contains(position)).count();
            let steps = self.steps.map_or(tokens, |steps| steps / blocks);
            if step < steps {
                let tokens = tokens / steps + usize::from(step < tokens % steps);
                return Stage { end: range.end, tokens };
            }
            step -= steps;
        }
        Stage { end: start.len(), tokens: start.n_masked() }
    }
}

/// The numbers nearest to one, below and above, that serve.
fn near(number: usize, serves: impl Fn(usize) -> bool) -> String {
    let below = (1..number).rev().find(|&other| serves(other));
    let above = (number + 1..number.saturating_mul(2).saturating_add(1024)).find(|&n| serves(n));
    let found: Vec<String> = below.into_iter().chain(above).map(|n| n.to_string()).collect();
    found.join(" or ")
}
