//! What a search spent.

use serde::{Deserialize, Serialize};

/// Work done, beside the requests answered without work; the sums are the paper's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Sequences run through the denoiser.
    pub nfe: u64,
    /// Forward passes asked for and answered from memory: an equal state, or one without masks.
    pub nfe_hits: u64,
    /// Views scored by the reward.
    pub reward_calls: u64,
    /// Scores asked for and answered from memory.
    pub reward_cache_hits: u64,
    /// Views scored by the cheap proxy of a screened search; absent without one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub proxy_calls: u64,
    /// Scores that a bound on the reward made needless; absent without any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reward_skips: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Cost {
    /// The paper's NFE: every forward pass asked for.
    pub fn nfe_requests(&self) -> u64 {
        self.nfe + self.nfe_hits
    }

    /// The paper's reward calls: every score asked for.
    pub fn reward_requests(&self) -> u64 {
        self.reward_calls + self.reward_cache_hits
    }
}
