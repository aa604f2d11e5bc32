//! How children are valued before the selection.

mod completions;
mod posterior;
mod previous;
mod resubstitute;
mod screen;

pub use completions::{SampledCompletions, log_mean_exp, sample_completions};
pub use posterior::Posterior;
pub use previous::PreviousArgmax;
pub use resubstitute::{FinalReward, Resubstitute};
pub use screen::Screened;

use crate::{
    Flow,
    population::{Child, Node, Proposals, Run, Step},
};

/// When a child's own prediction would be made: from the child and the slot of its parent.
pub type NextTime<'t> = dyn Fn(&Run<'_, '_>, &Child, usize) -> f64 + 't;

/// A way to value children. Complete children always have their exact reward, except where
/// [`Value::exact_at_the_end`] says otherwise.
pub trait Value {
    /// Whether the parent's likeliest tokens are needed.
    fn needs_argmax(&self) -> bool {
        false
    }

    /// Whether the values of the last population are exact rewards.
    fn exact_at_the_end(&self) -> bool {
        true
    }

    /// One value per child, in order.
    fn value(
        &self,
        step: &Step,
        run: &mut Run<'_, '_>,
        parents: &[Node],
        proposals: &mut Proposals,
        next_time: &NextTime<'_>,
    ) -> Flow<Vec<f64>>;
}
