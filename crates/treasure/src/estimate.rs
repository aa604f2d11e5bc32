//! What a plan will take, before anything is allocated: calls by the method's nominal cost, and memory.
//!
//! The calls are those of one text without any saving. The memory is what a step holds at once, by rough
//! but stated sizes, beside the weights; a plan that cannot fit this machine is refused.

use std::fmt;

use treasure_core::Method;

use crate::{Error, Result, machine};

/// What a sequence takes beside its tokens: its place in a population, its value, its hash.
const SEQUENCE: u64 = 512;
/// What a token takes in a sequence, its completion and the text that is scored.
const TOKEN: u64 = 16;
/// What the memories of predictions and of scored texts may hold.
const MEMORIES: u64 = (256 + 64) << 20;

/// What one text takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Sequences through the denoiser.
    pub model_calls: u64,
    /// Texts to be scored.
    pub reward_calls: u64,
    /// Bytes at once, beside the weights.
    pub bytes: u64,
}

impl Estimate {
    /// What a method takes for so many masks, with a denoiser whose prediction of a state is so large.
    pub(crate) fn new(method: &Method, masks: usize, prediction: u64) -> Self {
        let search = method.search();
        let (nominal, at_once) = (search.nominal_cost(masks), search.at_once(masks));
        let sequence = SEQUENCE.saturating_add(TOKEN.saturating_mul(masks as u64));
        let sequences = at_once.sequences.saturating_mul(sequence);
        let predictions = at_once.states.saturating_mul(prediction);
        let remembered = nominal.nfe.saturating_mul(prediction).min(MEMORIES);
        Self {
            model_calls: nominal.nfe,
            reward_calls: nominal.reward_calls,
            bytes: sequences.saturating_add(predictions.max(remembered)),
        }
    }

    /// Refuses what cannot fit this machine.
    pub(crate) fn check(&self, method: &Method) -> Result<()> {
        match machine::memory() {
            Some(memory) if self.bytes > memory => {
                let hint = match fitting(method, memory as f64 / self.bytes as f64) {
                    Some((option, fits)) => format!("take {option} {fits} or less"),
                    None => "take a shorter length or a narrower search".into(),
                };
                Err(Error::request(format!(
                    "memory: expected at most the {} of this machine, got a search of about {}",
                    Bytes(memory),
                    Bytes(self.bytes)
                ))
                .with_hint(hint))
            }
            _ => Ok(()),
        }
    }

    /// How many such searches fit this machine beside each other.
    pub(crate) fn fit(&self) -> usize {
        let fits = machine::memory().map(|memory| memory / self.bytes.max(1));
        fits.map_or(usize::MAX, |fits| usize::try_from(fits).unwrap_or(usize::MAX)).max(1)
    }
}

/// The option that makes a method as wide as it is, and what share of it would fit.
fn fitting(method: &Method, share: f64) -> Option<(&'static str, u64)> {
    let options = method.options();
    let mut known = ["particles", "tree_width", "iterations", "tries", "chains"].into_iter();
    let (option, given) = known
        .find_map(|option| Some((option, options.get(option)?.as_u64().filter(|n| *n > 1)?)))?;
    Some((option, ((given as f64 * share) as u64).max(1)))
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model_calls, reward_calls, bytes } = *self;
        let memory = Bytes(bytes);
        write!(f, "about {model_calls} model and {reward_calls} reward calls in {memory}")
    }
}

/// A size, for people.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1_000_000 => f.write_str("1 MB"),
            1_000_000..1_000_000_000 => write!(f, "{:.0} MB", bytes / 1e6),
            _ => write!(f, "{:.1} GB", bytes / 1e9),
        }
    }
}
