//! How much runs at once; no result depends on it.

use std::num::NonZeroUsize;

use clap::Args;
use treasure::SessionOptions;

/// How much runs at once.
#[derive(Args, Clone, Debug)]
pub struct Sizes {
    /// Most states in one model batch; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = super::count("batch_size"), help_heading = "Model")]
    pub batch_size: Option<NonZeroUsize>,
    /// Most texts in one reward batch; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = super::count("reward_batch"), help_heading = "Reward")]
    pub reward_batch: Option<NonZeroUsize>,
}

impl Sizes {
    /// The options of a session that runs so many searches at once.
    pub fn options(&self, in_flight: usize) -> SessionOptions {
        SessionOptions {
            in_flight,
            reward_batch: self.reward_batch.map(NonZeroUsize::get),
            batch_size: self.batch_size.map(NonZeroUsize::get),
            ..SessionOptions::default()
        }
    }
}
