//! What a run has spent, remembers and found.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::{
    Cost, Encoding, Finished, MaskedSeq, View,
    legal::Outlook,
    memo::{Hashed, Memo},
};

/// A state and its time, where that matters.
pub(super) type StateKey = Hashed<(Arc<MaskedSeq>, u64)>;

/// States as a constraint sees them.
pub(super) type Outlooks = FxHashMap<Arc<StateKey>, Outlook>;

/// One run's.
#[derive(Debug)]
pub(super) struct Ledger {
    pub cost: Cost,
    pub encodings: Memo<StateKey, Encoding>,
    pub rewards: Memo<Hashed<View>, f64>,
    pub proxies: Memo<Hashed<View>, f64>,
    /// What the last question under a constraint was answered from.
    pub outlooks: Outlooks,
    pub best: Option<Finished>,
    pub at_target: Option<Finished>,
}

impl Ledger {
    /// Nothing spent, remembered or found.
    pub fn new(encoding_bytes: usize, reward_bytes: usize) -> Self {
        Self {
            cost: Cost::default(),
            encodings: Memo::new(encoding_bytes),
            rewards: Memo::new(reward_bytes),
            proxies: Memo::new(reward_bytes),
            outlooks: Outlooks::default(),
            best: None,
            at_target: None,
        }
    }
}
