//! From token ids to vectors.

use super::{Matrix, Norm};

/// Which row of the position table a token reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionRule {
    /// Row `first + i` for the `i`-th token.
    From(usize),
    /// RoBERTa: the padding id reads row `pad`; other tokens count up from `pad + 1`.
    CountNonPad(u32),
}

impl PositionRule {
    /// The row of every token of a sequence.
    pub fn rows(self, tokens: &[u32]) -> impl Iterator<Item = usize> {
        let mut counted = 0;
        tokens.iter().enumerate().map(move |(i, &token)| match self {
            Self::From(first) => first + i,
            Self::CountNonPad(pad) if token == pad => pad as usize,
            Self::CountNonPad(pad) => {
                counted += 1;
                pad as usize + counted
            }
        })
    }

    /// The row of the first token that is not padding.
    pub fn first(self) -> usize {
        match self {
            Self::From(first) => first,
            Self::CountNonPad(pad) => pad as usize + 1,
        }
    }
}

/// The rows that token ids read.
#[derive(Debug)]
pub enum Tokens<T = Matrix> {
    /// A table of their own.
    Own(T),
    /// The rows of the vocabulary head's decoder: one matrix for both.
    Decoder,
}

/// Token ids to the residual stream: `norm(tokens[id] + constant + positions[…])`.
#[derive(Debug)]
pub struct Embed<T = Matrix> {
    /// One row per token id.
    pub tokens: Tokens<T>,
    /// Learned positions and which row a token reads.
    pub positions: Option<(T, PositionRule)>,
    /// Added to every token: BERT's row for token type 0.
    pub constant: Option<Vec<f32>>,
    /// Applied to the sum.
    pub norm: Option<Norm>,
}

impl<T> Embed<T> {
    /// The same with its tables in another form.
    pub fn try_map<U, E>(self, table: &mut impl FnMut(T) -> Result<U, E>) -> Result<Embed<U>, E> {
        Ok(Embed {
            tokens: match self.tokens {
                Tokens::Own(own) => Tokens::Own(table(own)?),
                Tokens::Decoder => Tokens::Decoder,
            },
            positions: match self.positions {
                Some((positions, rule)) => Some((table(positions)?, rule)),
                None => None,
            },
            constant: self.constant,
            norm: self.norm,
        })
    }
}
