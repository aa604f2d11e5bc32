//! What an experiment needs from models and judges, so that it can also run on an exact table.

use treasure_core::{
    Denoiser, Limits, Problem, Result as CoreResult, Reward, Schedule, TokenId, View,
};
use treasure_text::Start;

use crate::{Result, plan::Plan, store::ModelHash};

/// A complete sequence as people read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Prompt and continuation.
    pub text: String,
    /// The text after the prompt, up to the first end-of-text.
    pub continuation: String,
    /// The generated ids, up to the first end-of-text.
    pub tokens: Vec<TokenId>,
}

/// Models and judges, by the names a plan uses.
pub trait World: Send + Sync {
    /// The denoiser of the plan.
    fn denoiser(&self) -> &dyn Denoiser;

    /// A prompt ready to be continued.
    fn start(&self, plan: &Plan, prompt: &str) -> Result<Start>;

    /// A reward on the sequences of a start.
    fn reward<'a>(&'a self, spec: &str, start: &Start) -> Result<Box<dyn Reward + 'a>>;

    /// A complete sequence as text.
    fn read(&self, start: &Start, tokens: &[TokenId]) -> Result<Reading>;

    /// A judge's numbers for whole texts.
    fn judge(&self, spec: &str, texts: &[&str]) -> Result<Vec<f64>>;

    /// exp of the mean NLL of each text's continuation, given the prompt.
    fn perplexity(&self, spec: &str, prompt: &str, texts: &[&str]) -> Result<Vec<f64>>;

    /// A token as text, for the trees of the report.
    fn token_text(&self, token: TokenId) -> Option<String>;

    /// A search from a start, without limits.
    fn problem<'a>(
        &'a self,
        start: &Start,
        schedule: &'a dyn Schedule,
        reward: &'a dyn Reward,
    ) -> Result<Problem<'a>> {
        let (state, bans) = (start.state.clone(), start.bans.clone());
        Ok(Problem::new(state, schedule, self.denoiser(), reward, bans, Limits::default())?)
    }

    /// Content hashes of every model and judge the plan names.
    fn hashes(&self, plan: &Plan) -> Result<Vec<ModelHash>>;
}

/// The reward of methods that need none: everything is worth 0 and looks the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct Indifferent;

impl Reward for Indifferent {
    fn name(&self) -> &str {
        "none"
    }

    fn view(&self, _: &[TokenId]) -> CoreResult<View> {
        Ok(View::Tokens([].into()))
    }

    fn score(&self, batch: &[&View]) -> CoreResult<Vec<f64>> {
        Ok(vec![0.0; batch.len()])
    }
}
