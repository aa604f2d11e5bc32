//! How children are valued before the selection.

mod appraise;
mod completions;
mod posterior;
mod previous;
mod resubstitute;
mod screen;

pub use appraise::Taste;
pub use completions::{SampledCompletions, log_mean_exp, sample_completions};
pub use posterior::Posterior;
pub use previous::PreviousArgmax;
pub use resubstitute::{FinalReward, Resubstitute};
pub use screen::Screened;

use crate::{
    Context, Flow, Needs, PruneReason,
    population::{Node, Proposals, Worth},
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

/// Rewards that are compared as they are.
fn plain(rewards: Vec<f64>) -> Vec<Valued> {
    rewards.into_iter().map(|reward| Ok(Worth::plain(reward))).collect()
}
