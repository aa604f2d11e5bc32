//! How rewards are built: whose conventions, batches, memory, time limits, servers.

use std::{collections::HashMap, sync::Arc, time::Duration};

use treasure_models::LoadOptions;
use treasure_text::Conventions;

use crate::{Interrupt, RUN_CACHE_BYTES, Spec, TextOptions, TextReward, spec::Leaf};

/// Tokens a classifier sees in the reference protocol, special ones included.
pub(crate) const FK_CLASSIFIER_TOKENS: usize = 50;
/// Tokens the sentiment classifier sees there.
pub(crate) const FK_SENTIMENT_TOKENS: usize = 512;
/// Tokens a scorer sees there, BOS not counted.
pub(crate) const FK_SCORER_TOKENS: usize = 19;

impl TextOptions {
    /// How text is prepared for a reward: the reference protocol cleaned up spaces and read the first 100
    /// generated tokens for classifiers, 50 for the scorer.
    pub fn under(conventions: Conventions, spec: &Spec) -> Self {
        let scores = |leaf: &Leaf| matches!(leaf, Leaf::Perplexity | Leaf::Scorer { .. });
        match conventions {
            Conventions::Plain => Self::default(),
            Conventions::Fk => {
                let only_scorers = spec.leaves().iter().all(|(_, leaf)| scores(leaf));
                Self { clean_up: true, trim: Some(if only_scorers { 50 } else { 100 }) }
            }
        }
    }
}

/// How rewards are built.
#[derive(Clone)]
pub struct RewardOptions {
    /// Whose conventions they follow: whole texts and −mean NLL, or the reference protocol's, where
    /// classifiers see 50 tokens with the two special ones (sentiment 512) and scorers 19 tokens of the
    /// stripped text at −ln 2 · mean NLL.
    pub conventions: Conventions,
    /// Texts per batch, instead of each reward's own size.
    pub batch: Option<usize>,
    /// What the run's memory of scored texts may hold, per reward.
    pub cache_bytes: usize,
    /// How models are loaded.
    pub load: LoadOptions,
    /// How servers are treated.
    pub remote: RemoteOptions,
    /// How long a program may take for a line.
    pub exec_timeout: Duration,
    /// What stops rewards that wait for a server or a program.
    pub interrupt: Interrupt,
    /// Rewards that the caller handed in, for `own:NAME`.
    pub own: HashMap<String, Arc<dyn TextReward>>,
}

impl std::fmt::Debug for RewardOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RewardOptions")
            .field("conventions", &self.conventions)
            .field("batch", &self.batch)
            .field("cache_bytes", &self.cache_bytes)
            .field("load", &self.load)
            .field("remote", &self.remote)
            .field("own", &self.own.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Default for RewardOptions {
    fn default() -> Self {
        Self {
            conventions: Conventions::Plain,
            batch: None,
            cache_bytes: RUN_CACHE_BYTES,
            load: LoadOptions::default(),
            remote: RemoteOptions::from_env(),
            exec_timeout: Duration::from_secs(60),
            interrupt: Interrupt::NEVER,
            own: HashMap::new(),
        }
    }
}

/// How servers are treated.
#[derive(Clone)]
pub struct RemoteOptions {
    /// How long one exchange may take.
    pub timeout: Duration,
    /// How often an exchange is tried while the server is overloaded or failing.
    pub attempts: u32,
    /// The pause before the second try; it doubles from try to try, up to 8 seconds.
    pub first_pause: Duration,
    /// The largest answer that is read.
    pub max_answer_bytes: u64,
    /// How many texts go into one request, unless the server asks for fewer.
    pub batch: usize,
    /// How many requests one server gets at a time.
    pub requests_per_server: usize,
    /// Sent as a bearer token to every address the user named.
    pub api_key: Option<String>,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            attempts: 5,
            first_pause: Duration::from_millis(250),
            max_answer_bytes: 64 << 20,
            batch: 32,
            requests_per_server: 2,
            api_key: None,
        }
    }
}

impl RemoteOptions {
    /// The defaults, with the bearer token in `TREASURE_API_KEY` if there is one.
    pub fn from_env() -> Self {
        let key = std::env::var("TREASURE_API_KEY").ok().filter(|key| !key.is_empty());
        Self { api_key: key, ..Self::default() }
    }
}

impl std::fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteOptions")
            .field("timeout", &self.timeout)
            .field("attempts", &self.attempts)
            .field("batch", &self.batch)
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .finish_non_exhaustive()
    }
}
