//! What the search asks of a reward: `r(x)` of the paper, on complete sequences.

use crate::{Result, TokenId};

/// What a reward sees of a complete sequence. Equal views have equal rewards, so they are scored once:
/// tokens behind the first EOS or outside a text window do not enter the view.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum View {
    /// The token ids themselves.
    Tokens(Box<[TokenId]>),
    /// Text, for rewards with their own tokenizer.
    Text(Box<str>),
}

/// A reward on complete sequences; higher is better.
pub trait Reward: Send + Sync {
    /// A short name for messages.
    fn name(&self) -> &str;

    /// What this reward sees of a sequence. The default is the tokens.
    fn view(&self, tokens: &[TokenId]) -> Result<View> {
        Ok(View::Tokens(tokens.into()))
    }

    /// One number per view, in order, each independent of the rest of the batch.
    fn score(&self, batch: &[&View]) -> Result<Vec<f64>>;
}
