//! A transformer described as data: what every supported family has in common, and how they differ.
//!
//! A loader fills a [`Stack`] (and a [`Head`] or [`Classify`]); an executor of [`crate::exec`] runs it. Nothing here computes, and
//! nothing here knows the name of an architecture.

mod block;
mod check;
mod embed;
mod head;
mod linear;
mod rotary;

pub use block::{
    Activation, Attention, Block, FeedForward, Modulation, Norm, NormKind, Visibility,
};
pub use check::StackError;
pub use embed::{Conditioning, Embed, PositionRule, Table};
pub use head::{Classify, Head, HeadTransform};
pub use linear::{Layout, Linear, PANEL, Storage};
pub use rotary::{Llama3Scaling, Rotary, RotaryTable};

/// A transformer from token ids to hidden states.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Token ids to the residual stream.
    pub embed: Embed,
    /// The layers, first to last.
    pub blocks: Vec<Block>,
    /// The norm before the head; none for post-norm families.
    pub final_norm: Option<Norm>,
    /// For time-conditioned networks: the vector every [`Modulation`] reads.
    pub conditioning: Option<Conditioning>,
    /// For time-conditioned networks: `[shift | scale]` (2 × width rows) of the final norm.
    pub final_modulation: Option<Linear>,
}

impl Stack {
    /// The width of the residual stream.
    pub fn width(&self) -> usize {
        self.embed.tokens.width()
    }

    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        self.embed.bytes()
            + self.blocks.iter().map(Block::bytes).sum::<usize>()
            + self.final_norm.as_ref().map_or(0, Norm::bytes)
            + self.conditioning.as_ref().map_or(0, Conditioning::bytes)
            + self.final_modulation.as_ref().map_or(0, Linear::bytes)
    }
}
