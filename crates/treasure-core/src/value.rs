//! How children are valued before the selection.

mod appraise;
mod completions;
mod destination;
mod posterior;
mod previous;
mod resubstitute;
mod screen;

pub use appraise::Taste;
pub use completions::{SampledCompletions, log_mean_exp, sample_completions};
pub use destination::Destination;
pub use posterior::Posterior;
pub use previous::PreviousArgmax;
pub(crate) use resubstitute::completions as resubstituted;
pub use resubstitute::{FinalReward, Resubstitute};
pub use screen::Screened;

use crate::{
    Context, Flow, Needs, PruneReason,
    population::{Child, Node, Proposals, Worth},
};

/// What became of a child: its worth, or why it was not scored at all.
pub type Valued = Result<Worth, PruneReason>;

/// A way to value children. Complete children always have their exact reward, except where
/// [`Value::exact_at_the_end`] says otherwise.
pub trait Value: Send + Sync {
    /// What must be read about the parents.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Whether the values of the last population are exact rewards.
    fn exact_at_the_end(&self) -> bool {
        true
    }

    /// One verdict per child, in order.
    fn value(
        &self,
        cx: &mut Context<'_, '_>,
        parents: &[Node],
        proposals: &mut Proposals,
    ) -> Flow<Vec<Valued>>;
}

/// One forward pass for each child that has masks, at the time of its own expansion, which reuses it.
fn encode_children(cx: &Context<'_, '_>, proposals: &mut Proposals) -> Flow<()> {
    let open = |child: &&mut Child| child.seq.n_masked() > 0;
    let states: Vec<_> = (proposals.children.iter_mut())
        .filter(open)
        .map(|child| (child.seq.clone(), child.next_t.unwrap_or(child.t)))
        .collect();
    let encoded = cx.problem.encode(&states)?;
    for (child, encoded) in proposals.children.iter_mut().filter(open).zip(encoded) {
        child.encoded = Some(encoded);
    }
    Ok(())
}

/// Rewards that are compared as they are.
fn plain(rewards: Vec<f64>) -> Vec<Valued> {
    rewards.into_iter().map(|reward| Ok(Worth::plain(reward))).collect()
}
