//! Rewards built for tests, and errors as a user would see them.

use std::{sync::Arc, time::Duration};

use treasure_core::Hint as _;
use treasure_rewards::{
    Composite, RemoteOptions, Result, RewardOptions, Rewards, Spec, TextReward,
};

/// Options with pauses short enough for tests.
pub fn quick() -> RewardOptions {
    RewardOptions {
        remote: RemoteOptions {
            first_pause: Duration::from_millis(1),
            timeout: Duration::from_secs(20),
            ..RemoteOptions::default()
        },
        ..RewardOptions::default()
    }
}

pub fn build_with(spec: &str, options: RewardOptions) -> Result<Arc<Composite>> {
    let spec: Spec = spec.parse()?;
    let resolver = treasure_models::Resolver::new().offline();
    let store = Arc::new(treasure_models::ModelStore::new(resolver));
    Rewards::new(store, options).build(&spec)
}

pub fn build(spec: &str) -> Arc<Composite> {
    build_with(spec, quick()).expect("a valid reward")
}

pub fn score(spec: &str, texts: &[&str]) -> Vec<f64> {
    build(spec).score(texts).expect("a score")
}

/// What went wrong, as a user would see it.
pub fn failure(spec: &str, texts: &[&str]) -> String {
    match build_with(spec, quick()) {
        Err(error) => whole(&error),
        Ok(reward) => whole(&reward.score(texts).expect_err("an error")),
    }
}

/// An error with its causes and its hint.
pub fn whole(error: &treasure_rewards::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    if let Some(hint) = error.hint() {
        text.push_str(&format!("\nhint: {hint}"));
    }
    text
}

pub fn close(left: f64, right: f64) {
    assert!((left - right).abs() < 1e-9, "{left} is not {right}");
}
