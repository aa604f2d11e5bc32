//! A transformer described as data: what every supported family has in common, and how they differ.
//!
//! A loader fills a [`Stack`] and what reads it, [`Network::new`] checks once that the parts fit together, and an
//! executor of [`crate::exec`] takes the weights over in the form it multiplies. Matrices are [`Matrix`]: a
//! shape and a way to read rows, not numbers in memory. Nothing here runs a network or knows the name of an
//! architecture; what is computed (a rotation's table, a conditioning vector) is a fact of the description.

mod block;
mod conditioning;
mod embed;
mod head;
mod matrix;
mod network;
mod rotary;

pub use block::{
    Activation, Attention, Block, FeedForward, Modulation, Norm, NormKind, Visibility,
};
pub use conditioning::{Conditioning, Dense};
pub use embed::{Embed, PositionRule, Tokens};
pub use head::{Classify, Head, HeadTransform, Reader};
pub use matrix::{Matrix, RowSource};
pub use network::{Network, Outline};
pub use rotary::{Llama3Scaling, Rotary, RotaryTable};

/// A transformer from token ids to hidden states. `M` is what a matrix is, `T` what a lookup table is: for
/// loaders both are [`Matrix`], for an executor whatever it multiplies and reads.
#[derive(Debug)]
pub struct Stack<M = Matrix, T = M> {
    /// The width of the residual stream.
    pub width: usize,
    /// Token ids to the residual stream.
    pub embed: Embed<T>,
    /// The layers, first to last.
    pub blocks: Vec<Block<M>>,
    /// The norm before the head; none for post-norm families.
    pub final_norm: Option<Norm>,
    /// For time-conditioned networks: the vector every [`Modulation`] reads.
    pub conditioning: Option<Conditioning>,
    /// For time-conditioned networks: `[shift | scale]` (2 × width rows) of the final norm.
    pub final_modulation: Option<M>,
}

impl<M, T> Stack<M, T> {
    /// The same network with its matrices and tables in another form, taken over one after another.
    pub fn try_map<N, U, E>(
        self,
        matrix: &mut impl FnMut(M) -> Result<N, E>,
        table: &mut impl FnMut(T) -> Result<U, E>,
    ) -> Result<Stack<N, U>, E> {
        Ok(Stack {
            width: self.width,
            embed: self.embed.try_map(table)?,
            blocks: self
                .blocks
                .into_iter()
                .map(|block| block.try_map(matrix))
                .collect::<Result<_, _>>()?,
            final_norm: self.final_norm,
            conditioning: self.conditioning,
            final_modulation: self.final_modulation.map(matrix).transpose()?,
        })
    }

    /// Every norm of the layers and around them.
    pub fn norms(&self) -> impl Iterator<Item = &Norm> {
        let of_blocks = self.blocks.iter().flat_map(|b| b.attn_norm.iter().chain(&b.ff_norm));
        self.embed.norm.iter().chain(of_blocks).chain(&self.final_norm)
    }

    /// Whether every block is causal, so that shared prefixes can be computed once.
    pub fn is_causal(&self) -> bool {
        self.blocks.iter().all(|block| block.attention.visibility == Visibility::Causal)
    }
}
