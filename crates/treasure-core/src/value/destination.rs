//! Destination value: the reward of the very completion that a child's tokens were taken from (TreeG's
//! "sample current, destination"). What was scored and what is committed agree; no forward pass.

use super::{Value, Valued, plain};
use crate::{
    Context, Error, Flow,
    population::{Node, Proposals},
};

/// The reward of the completion a child was taken from, which [`crate::propose::Destinations`] notes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Destination;

impl Value for Destination {
    fn value(
        &self,
        cx: &mut Context<'_, '_>,
        _: &[Node],
        proposals: &mut Proposals,
    ) -> Flow<Vec<Valued>> {
        let mut completions = Vec::with_capacity(proposals.children.len());
        for child in &proposals.children {
            let whole = child.seq.complete().or(child.completion.as_deref());
            let Some(tokens) = whole else {
                return Err(Error::Invalid {
                    what: "destination",
                    expected: "the completion that every child was taken from".into(),
                    got: "a child without one".into(),
                }
                .into());
            };
            completions.push(tokens.to_vec());
        }
        Ok(plain(cx.problem.score(&completions)?))
    }
}
