//! A request in the making, on a session.

use std::ops::ControlFlow;

use serde_json::{Map, Value};
use treasure_core::Run;
use treasure_rewards::{Explained, TextReward};

use crate::{Frame, Job, Plan, Request, Result, Sample, Session, Watch};

/// A search in the making: a request in a session.
///
/// ```
/// let session = treasure::Session::pocket()?;
/// let ask = session.prompt("The old dog").reward("contains:rain").length(4).seed(7);
/// let ask = ask.method("bon").set("particles", 2);
/// // What it comes to, before anything is loaded.
/// let plan = ask.plan()?;
/// assert_eq!((plan.method.name(), plan.length, plan.seed), ("bon", 4, 7));
/// # Ok::<(), treasure::Error>(())
/// ```
pub struct Ask<'s> {
    session: &'s Session,
    request: Request,
}

impl<'s> Ask<'s> {
    pub(crate) fn new(session: &'s Session, mut request: Request) -> Self {
        if request.model.is_none() && session.has_model("own") {
            request.model = Some("own".into());
        }
        Self { session, request }
    }

    /// What to aim for, as a specification.
    #[must_use]
    pub fn reward(mut self, spec: impl Into<String>) -> Self {
        self.request.reward = Some(spec.into());
        self
    }

    /// What to aim for, as a function from texts to numbers.
    #[must_use]
    pub fn reward_fn(
        mut self,
        name: &str,
        score: impl Fn(&[&str]) -> Vec<f64> + Send + Sync + 'static,
    ) -> Self {
        self.request.reward = Some(format!("own:{name}"));
        self.session.add_reward(FnReward { name: name.to_owned(), score });
        self
    }

    /// The continuation must match this regular expression, whole, whatever the reward.
    #[must_use]
    pub fn matches(mut self, regex: impl Into<String>) -> Self {
        self.request.matches = Some(regex.into());
        self
    }

    /// A judge that the search does not see.
    #[must_use]
    pub fn judge(mut self, spec: impl Into<String>) -> Self {
        self.request.judge.push(spec.into());
        self
    }

    /// The seed of all randomness.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.request.seed = Some(seed);
        self
    }

    /// Tokens to generate.
    #[must_use]
    pub fn length(mut self, tokens: usize) -> Self {
        self.request.length = Some(tokens);
        self
    }

    /// How many outputs [`Ask::run_all`] makes.
    #[must_use]
    pub fn samples(mut self, samples: usize) -> Self {
        self.request.samples = Some(samples);
        self
    }

    /// How to search, by name.
    #[must_use]
    pub fn method(mut self, name: impl Into<String>) -> Self {
        self.request.method = Some(name.into());
        self
    }

    /// Writes the prompt by the checkpoint's chat template, as what a user says.
    #[must_use]
    pub fn chat(mut self) -> Self {
        self.request.chat = Some(true);
        self
    }

    /// What the system message says, in chat.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.request.system = Some(text.into());
        self
    }

    /// Any field or option, by the name that JSON and the command line use. A value of the wrong type
    /// shows when the request becomes a plan.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<Value>) -> Self {
        let mut fields = match serde_json::to_value(&self.request) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        fields.insert(name.to_owned(), value.into());
        fields.retain(|_, value| !value.is_null());
        match Request::from_value(fields.into()) {
            Ok(request) => self.request = request,
            // Kept as an option that no method has, so that the plan refuses it by name.
            Err(error) => {
                self.request.options.insert(name.to_owned(), error.to_string().into());
            }
        }
        self
    }

    /// The request so far.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The plan: every default filled, every check done that needs no weights.
    pub fn plan(&self) -> Result<Plan> {
        Plan::new(&self.request)
    }

    /// The job of a sample; a conversation is written out.
    fn job(&self, plan: &Plan, sample: usize) -> Result<Job> {
        let said = self.request.prompt.clone().unwrap_or_default();
        let prompt = match &self.request.messages {
            Some(messages) => self.session.conversation(plan, messages)?,
            None => self.session.said(plan, said)?,
        };
        Ok(Job { prompt, sample, ..Job::default() })
    }

    /// Runs the search.
    pub fn run(self) -> Result<Sample> {
        let plan = self.plan()?;
        self.session.run(&plan, &self.job(&plan, 0)?, Watch::default())
    }

    /// Runs the search and shows every step of the text; `Break` stops it and keeps the best.
    pub fn watch(self, mut show: impl FnMut(&Frame) -> ControlFlow<()> + Send) -> Result<Sample> {
        let watch = Watch { frames: Some(&mut show), ..Watch::default() };
        let plan = self.plan()?;
        self.session.run(&plan, &self.job(&plan, 0)?, watch)
    }

    /// Hands the run to the caller, who drives it step by step and may stop at any time.
    pub fn drive(self, mut drive: impl FnMut(&mut Run<'_, '_>) -> Result<()>) -> Result<Sample> {
        let plan = self.plan()?;
        let parts = self.session.parts(&plan)?;
        parts.make(&self.job(&plan, 0)?, Watch::default(), None, &mut drive)
    }

    /// Runs all samples, several at a time, and hands them back in order.
    pub fn run_all(self) -> Result<Vec<Sample>> {
        let plan = self.plan()?;
        let jobs: Vec<Job> =
            (0..plan.samples).map(|sample| self.job(&plan, sample)).collect::<Result<_>>()?;
        self.session.collect(&plan, &jobs)
    }

    /// The same search from many prompts, several at a time, in order.
    pub fn prompts<'p>(self, prompts: impl IntoIterator<Item = &'p str>) -> Result<Vec<Sample>> {
        let plan = self.plan()?;
        let mut jobs = Vec::new();
        for (prompt_index, prompt) in prompts.into_iter().enumerate() {
            let prompt = self.session.said(&plan, prompt.to_owned())?;
            for sample in 0..plan.samples {
                let prompt = prompt.clone();
                jobs.push(Job { prompt, prompt_index, sample, ..Job::default() });
            }
        }
        self.session.collect(&plan, &jobs)
    }
}

/// A function as a reward.
struct FnReward<F> {
    name: String,
    score: F,
}

impl<F: Fn(&[&str]) -> Vec<f64> + Send + Sync> TextReward for FnReward<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> treasure_rewards::Result<Vec<f64>> {
        Ok((self.score)(texts))
    }

    fn explain(&self, texts: &[&str]) -> treasure_rewards::Result<Vec<Explained>> {
        Ok(self.score(texts)?.into_iter().map(Explained::plain).collect())
    }
}
