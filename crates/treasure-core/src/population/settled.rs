//! Early exit: a search whose predictions agree step after step has little to learn from the next one.

use crate::{
    TokenId,
    population::{Node, Proposals},
    select::Selection,
};

/// Watches whether the masks of the best member are predicted as they were filled in a step before.
#[derive(Debug)]
pub(super) struct Settled {
    /// Steps in a row that must agree.
    after: usize,
    agreed: usize,
    /// How the best member was filled in when it was chosen.
    filled: Option<Vec<TokenId>>,
}

impl Settled {
    pub(super) fn new(after: usize) -> Self {
        Self { after, agreed: 0, filled: None }
    }

    /// Whether the best member's predictions have been those of the step before for long enough: then its completion
    /// has been scored.
    pub(super) fn is_reached(&mut self, parents: &[Node], proposals: &Proposals) -> bool {
        let best = parents.first().zip(proposals.parents.first());
        let agree = best.zip(self.filled.as_ref()).is_some_and(|((node, expanded), filled)| {
            let mut predicted = node.seq.masked().zip(&expanded.argmax);
            predicted.all(|(position, token)| filled[position] == *token)
        });
        self.agreed = if agree { self.agreed + 1 } else { 0 };
        self.agreed >= self.after
    }

    /// Remembers how the best of the members that live on was filled in.
    pub(super) fn remember(
        &mut self,
        parents: &[Node],
        proposals: &Proposals,
        selection: &Selection,
    ) {
        self.filled = selection.kept.first().map(|kept| {
            let parent = proposals.children[kept.child].parent;
            let argmax = proposals.parents[parent].argmax.iter().copied();
            parents[parent].seq.complete_with(argmax)
        });
    }
}
