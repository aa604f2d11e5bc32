//! `treasure compare`: several methods on the same prompts, model, seed and budget.
//!
//! The first method sets the budget. Every other method that has a width (particles, or the tree
//! width of a tree) runs once at width 1 to see what a unit costs; its width is then what the budget
//! pays for. Widths and budget stand in each row's plan, so a run can be repeated exactly.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use treasure::{Job, Method, Plan, Reading, Request, Sample, Session, SessionOptions, Watch};

use crate::{
    Verdict,
    failure::{Failure, Outcome},
    input::prompts::{self, Entry},
    interrupt,
    options::{
        common::Common,
        request::{
            Constraints, Limits, ModelOptions, PresetKind, RewardOptions, SearchOptions,
            method_names,
        },
    },
    output::{number, print, progress::Progress, row, screen::Screen},
};

/// What the methods have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Match {
    /// The same number of sequences run through the model
    Nfe,
    /// The same number of texts scored
    RewardCalls,
    /// The same wall-clock time (the widths then depend on the machine)
    Seconds,
}

/// Run several methods at the same budget
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  treasure compare \"The movie\" --reward sentiment=positive
  treasure compare \"The movie\" --reward cola --methods treasure,bon,fk --match reward-calls
  treasure compare --prompts prompts.jsonl --samples 4 --reward cola --judge perplexity

The first method sets the budget. The others get as many particles or as wide a tree as it pays for,
unless --particles or --tree-width says how many. base, fhs and greedy draw one sample: they have
nothing to spend a budget on. With several texts the table has means and their standard errors.")]
pub struct Compare {
    /// The beginning of the text
    #[arg(value_name = "PROMPT", required_unless_present = "prompts")]
    pub prompt: Vec<String>,
    /// Prompts from JSON Lines; `-` is standard input
    #[arg(long, value_name = "FILE.jsonl", conflicts_with = "prompt")]
    pub prompts: Option<PathBuf>,
    /// How many texts each prompt gets from each method
    #[arg(long, value_name = "N", default_value = "1")]
    pub samples: usize,
    /// The methods; the first one sets the budget
    #[arg(
        long,
        value_name = "A,B,C",
        value_delimiter = ',',
        value_parser = method_names(),
        default_value = "treasure,bon,fk,greedy,fhs"
    )]
    pub methods: Vec<String>,
    /// What the methods have in common
    #[arg(long = "match", value_enum, value_name = "BUDGET", default_value_t = Match::Nfe)]
    pub matched: Match,
    /// Reading and running the reward.
    #[command(flatten)]
    pub reward: RewardOptions,
    /// Whose conventions hold
    #[arg(long, value_enum, value_name = "PRESET", default_value_t, help_heading = "Search")]
    pub preset: PresetKind,
    /// How long, and when to stop.
    #[command(flatten)]
    pub limits: Limits,
    /// What must hold.
    #[command(flatten)]
    pub constraints: Constraints,
    /// The methods' knobs; each method takes those it knows.
    #[command(flatten)]
    pub search: SearchOptions,
    /// The denoiser.
    #[command(flatten)]
    pub model: ModelOptions,
}

/// More than this many particles would not fit in memory or in anybody's patience.
const MOST: f64 = 100_000.0;

impl Match {
    /// What a run spent.
    fn spent(self, sample: &Sample) -> f64 {
        match self {
            Self::Nfe => sample.cost.nfe as f64,
            Self::RewardCalls => sample.cost.reward_calls as f64,
            Self::Seconds => sample.cost.seconds,
        }
    }
}

/// The rows of one method.
struct Compared {
    method: String,
    width: String,
    rows: Vec<Sample>,
}

impl Compare {
    /// Runs every method and prints a table, or one row a text.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        for (index, method) in self.methods.iter().enumerate() {
            if self.methods[..index].contains(method) {
                return Err(Failure::new(format!("--methods: {method} is there twice")));
            }
        }
        if self.search.screen.is_some() {
            return Err(Failure::new("--screen: methods are compared on exact scores")
                .hint("leave it out, or use it with `treasure generate`"));
        }
        self.search.check_used_by_one(&self.methods)?;
        let entries: Vec<Entry> = match &self.prompts {
            Some(file) => prompts::read(file)?,
            None => self.prompt.iter().map(Entry::prompt).collect(),
        };
        if entries.iter().any(|entry| entry.template.is_some()) {
            return Err(Failure::new("--prompts: methods are compared on prompts, got a template"));
        }
        let session = Session::pocket()?.with_options(SessionOptions {
            reward_batch: self.reward.reward_batch.map(Into::into),
            batch_size: self.model.batch_size.map(Into::into),
            ..SessionOptions::default()
        });
        let first = Plan::new(&self.request(&self.methods[0], Map::new(), common)?)?;
        common.say(first.line());
        interrupt::listen(common.quiet);
        let screen = Screen::new(Progress::new(common.quiet), None);
        let mut all: Vec<Compared> = Vec::new();
        let mut budget: Option<f64> = None;
        'methods: for method in &self.methods {
            let mut width = Map::new();
            if let (Some(budget), Some(knob)) = (budget, self.free_width(method)) {
                width.insert(knob.into(), 1.into());
                let plan = Plan::new(&self.request(method, width.clone(), common)?)?;
                let Some(unit) = sample(&session, &plan, &entries[0], 0, 0, &screen)? else {
                    break;
                };
                let unit = self.matched.spent(&unit).max(1e-9);
                let paid = (budget / unit).round().clamp(1.0, MOST) as u64;
                width.insert(knob.into(), paid.into());
            }
            let plan = Plan::new(&self.request(method, width, common)?)?;
            let mut rows = Vec::new();
            for (prompt_index, entry) in entries.iter().enumerate() {
                for number in 0..self.samples.max(1) {
                    let made = sample(&session, &plan, entry, prompt_index, number, &screen)?;
                    let Some(mut made) = made else { break 'methods };
                    let budget = *budget.get_or_insert(self.matched.spent(&made));
                    made.plan["match"] = json!(self.matched);
                    made.plan["budget"] = json!(budget);
                    screen.clear();
                    if common.json {
                        print::line(serde_json::to_string(&made)?)?;
                    }
                    rows.push(made);
                }
            }
            all.push(Compared { method: method.clone(), width: width_shown(&plan), rows });
        }
        screen.clear();
        if !common.json {
            show(&all, first.reading())?;
        }
        if all.len() < self.methods.len() || interrupt::asked() {
            return Ok(Verdict::Interrupted);
        }
        let target = self.limits.target_reward;
        let missed = |row: &Sample| target.is_some_and(|target| row.reward < target);
        let any = all.iter().flat_map(|one| &one.rows).any(missed);
        Ok(if any { Verdict::Missed } else { Verdict::Done })
    }

    fn request(
        &self,
        method: &str,
        width: Map<String, Value>,
        common: &Common,
    ) -> Outcome<Request> {
        let mut request = Request {
            preset: Some(self.preset.into()),
            method: Some(method.to_owned()),
            samples: Some(self.samples.max(1)),
            seed: common.seed,
            ..Request::default()
        };
        self.model.fill(&mut request);
        self.reward.fill(&mut request);
        self.limits.fill(&mut request);
        self.constraints.fill(&mut request)?;
        request.options = self.search.only_for(method);
        request.options.extend(width);
        Ok(request)
    }

    /// The option of a method that a budget may set: none if the user did, or if there is none.
    fn free_width(&self, method: &str) -> Option<&'static str> {
        let given = self.search.given();
        if given.contains_key("particles") || given.contains_key("tree_width") {
            return None;
        }
        let has = |option: &&str| Method::with_option(option).contains(&method);
        ["particles", "tree_width"].into_iter().find(has)
    }
}

/// One text by one method; none if Ctrl-C came first.
fn sample(
    session: &Session,
    plan: &Plan,
    entry: &Entry,
    prompt_index: usize,
    sample: usize,
    screen: &Screen,
) -> Outcome<Option<Sample>> {
    if interrupt::asked() {
        return Ok(None);
    }
    let prompt = entry.prompt.clone().unwrap_or_default();
    let extra = entry.extra.clone();
    let job = Job { plan: 0, prompt, prompt_index, sample, extra };
    screen.begin(1);
    let mut see = |event: &treasure::core::Event| screen.event(event);
    let watch =
        Watch { events: Some(&mut see), cancel: Some(&interrupt::ASKED), ..Watch::default() };
    match session.run(plan, &job, watch) {
        Err(error) if error.is_interrupted() => Ok(None),
        made => Ok(Some(made?).filter(|made| !made.is_interrupted())),
    }
}

/// Mean and standard error.
fn mean(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let values: Vec<f64> = values.collect();
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance =
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, (variance / n).sqrt())
}

fn show(all: &[Compared], reading: Reading) -> Outcome<()> {
    let judged: Vec<String> = (all.iter().flat_map(|one| &one.rows))
        .find_map(|row| row.held_out.as_ref())
        .map(|judged| judged.judges.keys().cloned().collect())
        .unwrap_or_default();
    let mut header: Vec<&str> = vec!["method", "width", "reward"];
    header.extend(judged.iter().map(String::as_str));
    if !judged.is_empty() {
        header.push("perplexity");
    }
    header.extend(["model calls (NFE)", "reward calls", "time"]);
    let several = all.iter().any(|one| one.rows.len() > 1);
    let mut cells = Vec::new();
    for one in all {
        let number = |of: &dyn Fn(&Sample) -> f64| mean(one.rows.iter().map(of));
        let (reward, error) = number(&|row| row.reward);
        let mut row = vec![one.method.clone(), one.width.clone()];
        row.push(match several {
            true => format!("{} ± {:.3}", number::reward(reward), error),
            false => number::reward(reward) + &row::short_remark(reading, reward),
        });
        for judge in &judged {
            let score = |row: &Sample| {
                row.held_out.as_ref().and_then(|held| held.judges[judge].as_f64()).unwrap_or(0.0)
            };
            row.push(number::reward(number(&score).0));
        }
        if !judged.is_empty() {
            let log = |row: &Sample| {
                row.held_out.as_ref().and_then(|held| held.perplexity).unwrap_or(1.0).ln()
            };
            row.push(format!("{:.1}", number(&log).0.exp()));
        }
        row.push(number::count(number(&|row| row.cost.nfe as f64).0.round() as u64));
        row.push(number::count(number(&|row| row.cost.reward_calls as f64).0.round() as u64));
        row.push(number::seconds(number(&|row| row.cost.seconds).0));
        cells.push(row);
    }
    let right: Vec<bool> = (0..header.len()).map(|column| column > 2).collect();
    print::line(print::table(&header, &cells, &right))?;
    for one in all {
        if let Some(row) = one.rows.first() {
            print::line(format!("\n{}\n{}", one.method, row.text))?;
        }
    }
    Ok(())
}

/// The width of a plan, for people.
fn width_shown(plan: &Plan) -> String {
    let options = plan.method.options();
    let show = |name: &str| match options.get(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(value) => Some(value.to_string()),
    };
    match (show("beam_width"), show("tree_width"), show("particles")) {
        (Some(beam), Some(tree), _) => format!("b={beam} m={tree}"),
        (_, _, Some(particles)) => format!("N={particles}"),
        _ => "1".into(),
    }
}
