//! Several methods on the same prompts, model, seed and budget.
//!
//! A limit such as `max_nfe` is the budget of all, else the first method sets it. Every method that has
//! a width (particles, iterations, the width of a tree) runs at widths 1 and 3 to see what it costs; its
//! width is then what the budget pays for. Widths and budget stand in each row's plan, so a run can be
//! repeated exactly.

use std::{
    fmt,
    str::FromStr,
    sync::atomic::{AtomicBool, Ordering},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use treasure_core::Method;

use crate::{
    Entry, Error, Job, Plan, Request, Result, Sample, Session, Tell, Watch, held_out_judge, nearest,
};

/// What the methods have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Match {
    /// The same number of sequences run through the model.
    Nfe,
    /// The same number of texts scored.
    RewardCalls,
    /// The same wall-clock time (the widths then depend on the machine).
    Seconds,
}

impl Match {
    /// The names users type.
    pub const NAMES: [&str; 3] = ["nfe", "reward-calls", "seconds"];

    /// What a sample spent of it.
    pub fn spent(self, sample: &Sample) -> f64 {
        match self {
            Self::Nfe => sample.cost.nfe as f64,
            Self::RewardCalls => sample.cost.reward_calls as f64,
            Self::Seconds => sample.cost.seconds,
        }
    }

    fn limit(self, request: &Request) -> Option<f64> {
        match self {
            Self::Nfe => request.max_nfe.map(|limit| limit as f64),
            Self::RewardCalls => request.max_reward_calls.map(|limit| limit as f64),
            Self::Seconds => request.max_seconds,
        }
    }
}

impl FromStr for Match {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name.replace('_', "-").as_str() {
            "nfe" => Ok(Self::Nfe),
            "reward-calls" => Ok(Self::RewardCalls),
            "seconds" => Ok(Self::Seconds),
            _ => {
                let names = Self::NAMES.join(", ");
                Err(Error::request(format!("match: expected one of {names}, got {name:?}")))
            }
        }
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nfe => "model calls (NFE)",
            Self::RewardCalls => "reward calls",
            Self::Seconds => "seconds",
        })
    }
}

/// What is compared.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// What all methods are asked for; options go to the methods that have them.
    pub request: Request,
    /// The methods; without a limit the first one sets the budget.
    pub methods: Vec<String>,
    /// What they have in common; what a limit is given for if left out, else model calls.
    pub matched: Option<Match>,
    /// The prompts.
    pub entries: Vec<Entry>,
    /// Whether the shipped judge that no search is paid for is asked, where none is named.
    pub held_out: bool,
}

/// The rows of one method.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Its name.
    pub method: String,
    /// How wide it was, for people.
    pub width: String,
    /// Prompt by prompt, sample by sample.
    pub rows: Vec<Sample>,
}

impl Compared {
    /// The mean of a number over the rows that have it, and its standard error.
    pub fn mean(&self, of: impl Fn(&Sample) -> Option<f64>) -> (f64, f64) {
        let values: Vec<f64> = self.rows.iter().filter_map(of).collect();
        let n = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        (mean, (squares / (n - 1.0).max(1.0) / n).sqrt())
    }
}

/// More particles than this would not fit in memory or in anybody's patience.
const MOST: f64 = 100_000.0;

impl Comparison {
    /// What is matched, and the budget of all methods where a limit says it.
    pub fn budget(&self) -> (Match, Option<f64>) {
        let all = [Match::Nfe, Match::RewardCalls, Match::Seconds];
        let limited = all.into_iter().find(|one| one.limit(&self.request).is_some());
        let matched = self.matched.or(limited).unwrap_or(Match::Nfe);
        (matched, matched.limit(&self.request))
    }

    /// The plan of the first method, after refusing what cannot be compared.
    pub fn check(&self) -> Result<Plan> {
        for (index, name) in self.methods.iter().enumerate() {
            if self.methods[..index].contains(name) {
                return Err(Error::request(format!("methods: {name} is there twice"))
                    .with_hint("name each method once"));
            }
            if !Method::NAMES.contains(&name.as_str()) {
                let near = nearest(name, Method::NAMES.iter().copied());
                let hint = match near {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("methods: {}", Method::NAMES.join(", ")),
                };
                return Err(
                    Error::request(format!("methods: there is no {name:?}")).with_hint(hint)
                );
            }
        }
        let Some(first) = self.methods.first() else {
            return Err(Error::request("methods: expected at least one, got none"));
        };
        if self.request.screen.is_some() {
            return Err(Error::request("screen: methods are compared on exact scores")
                .with_hint("leave it out, or generate with it"));
        }
        for option in self.request.options.keys() {
            let users = Method::with_option(option);
            if !users.is_empty() && !users.iter().any(|user| self.has(user)) {
                let message = format!("{option}: no method that is compared has a use for it");
                return Err(Error::request(message)
                    .with_hint(format!("leave it out, or compare with {}", users.join(" or "))));
            }
        }
        if self.entries.iter().any(|entry| entry.template.is_some()) {
            return Err(Error::request("prompt: methods are compared on prompts, got a template"));
        }
        Plan::new(&self.request(first, Map::new()))
    }

    fn has(&self, method: &str) -> bool {
        self.methods.iter().any(|own| own == method)
    }

    /// The request of one method, with the width that its budget pays for.
    fn request(&self, method: &str, width: Map<String, Value>) -> Request {
        let mut request = Request { method: Some(method.to_owned()), ..self.request.clone() };
        if self.held_out && request.judge.is_empty() && treasure_pocket::model("scorer").is_some() {
            let judge = held_out_judge(request.reward.as_deref().unwrap_or("perplexity"));
            request.judge.extend(judge.map(str::to_owned));
        }
        request.options.retain(|option, _| {
            let users = Method::with_option(option);
            users.is_empty() || users.contains(&method)
        });
        request.options.extend(width);
        request
    }

    /// The option of a method that a budget may set: none if the user set one, or if there is none.
    fn free_width(&self, method: &str) -> Option<&'static str> {
        let mut widths = self.methods.iter().filter_map(|method| Method::width_option(method));
        match widths.any(|option| self.request.options.contains_key(option)) {
            true => None,
            false => Method::width_option(method),
        }
    }
}

impl Session {
    /// Runs several methods at one budget, one sample at a time so that a method's seconds are its own;
    /// `each` sees every row. A comparison that was cancelled ends early, with the rows it has.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use treasure::{Comparison, Entry, Request, Session};
    ///
    /// let (length, reward) = (Some(4), Some("length:3..6".into()));
    /// let asked = Comparison {
    ///     request: Request { length, reward, max_nfe: Some(12), ..Request::default() },
    ///     methods: vec!["treasure".into(), "fhs".into()],
    ///     entries: vec![Entry::prompt("The lake")],
    ///     ..Comparison::default()
    /// };
    /// let see = &mut |_: &_| ControlFlow::Continue(());
    /// let all = Session::pocket()?.compare(&asked, None, see, &mut |_| Ok(()))?;
    /// assert!(all.iter().all(|one| one.rows[0].cost.nfe <= 12));
    /// # Ok::<(), treasure::Error>(())
    /// ```
    pub fn compare(
        &self,
        asked: &Comparison,
        cancel: Option<&AtomicBool>,
        see: &mut Tell<'_>,
        each: &mut dyn FnMut(&Sample) -> Result<()>,
    ) -> Result<Vec<Compared>> {
        asked.check()?;
        let mut one = |plan: &Plan, place: usize, sample: usize| {
            if cancel.is_some_and(|cancel| cancel.load(Ordering::SeqCst)) {
                return Ok(None);
            }
            let Some(entry) = asked.entries.get(place) else { return Ok(None) };
            let prompt = entry.prompt.clone().unwrap_or_default();
            let extra = entry.extra.clone();
            let job = Job { plan: 0, prompt, prompt_index: place, sample, extra };
            let mut tell = |event: &treasure_core::Event| see(event);
            let watch = Watch { events: Some(&mut tell), cancel, ..Watch::default() };
            match self.run(plan, &job, watch) {
                Err(error) if error.is_interrupted() => Ok(None),
                made => made.map(|made| Some(made).filter(|made| !made.is_interrupted())),
            }
        };
        let (matched, limit) = asked.budget();
        let mut budget = limit;
        let mut all: Vec<Compared> = Vec::new();
        for method in &asked.methods {
            let mut width = Map::new();
            if let (Some(budget), Some(knob)) = (budget, asked.free_width(method)) {
                let mut spent = |wide: u64| -> Result<Option<f64>> {
                    let request = Request {
                        max_nfe: None,
                        max_reward_calls: None,
                        max_seconds: None,
                        judge: Vec::new(),
                        ..asked.request(method, Map::from_iter([(knob.into(), wide.into())]))
                    };
                    let made = one(&Plan::new(&request)?, 0, 0)?;
                    Ok(made.map(|made| matched.spent(&made)))
                };
                let (Some(one), Some(three)) = (spent(1)?, spent(3)?) else { return Ok(all) };
                // Some of the cost may not depend on the width, and time is noisy.
                let more = ((three - one) / 2.0).max(one / 20.0).max(1e-9);
                let paid = 1.0 + (budget - one) / more;
                // A limit is not to be exceeded, another method's cost is to be met.
                let paid = if limit.is_some() { paid.floor() } else { paid.round() };
                width.insert(knob.into(), (paid.clamp(1.0, MOST) as u64).into());
            }
            let plan = Plan::new(&asked.request(method, width))?;
            let mut rows = Vec::new();
            let samples = (0..asked.entries.len())
                .flat_map(|place| (0..plan.samples).map(move |sample| (place, sample)));
            for (place, sample) in samples {
                let Some(mut made) = one(&plan, place, sample)? else { break };
                let budget = *budget.get_or_insert(matched.spent(&made));
                made.plan["match"] = json!(matched);
                made.plan["budget"] = json!(budget);
                each(&made)?;
                rows.push(made);
            }
            let cut = rows.len() < asked.entries.len() * plan.samples;
            if !rows.is_empty() {
                all.push(Compared { method: method.clone(), width: width_of(&plan), rows });
            }
            if cut {
                break;
            }
        }
        Ok(all)
    }
}

/// How wide a plan is, for people.
fn width_of(plan: &Plan) -> String {
    let options = plan.method.options();
    let show = |name: &str| match options.get(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(value) => Some(value.to_string()),
    };
    match (show("beam_width"), show("tree_width")) {
        (Some(beam), Some(tree)) => return format!("b={beam} m={tree}"),
        (None, Some(tree)) => return format!("m={tree}"),
        _ => {}
    }
    let words = [("particles", "N"), ("iterations", "i"), ("final_rounds", "r"), ("rounds", "r")];
    let shown = words.iter().filter_map(|(name, word)| Some(format!("{word}={}", show(name)?)));
    let shown: Vec<String> = shown.take(2).collect();
    if shown.is_empty() { "1".into() } else { shown.join(" ") }
}
