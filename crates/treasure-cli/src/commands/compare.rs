//! `treasure compare`: several methods on the same prompts, model, seed and budget.
//!
//! A limit such as `--max-nfe` is the budget of all, else the first method sets it. Every method that
//! has a width (particles, iterations, the width of a tree) runs at widths 1 and 3 to see what it costs;
//! its width is then what the budget pays for. Widths and budget stand in each row's plan, so a run can
//! be repeated exactly.

#[cfg(feature = "eval")]
use std::path::Path;
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
  treasure compare --prompts prompts.jsonl --samples 4 --reward cola --max-nfe 500 --picture it.svg

--max-nfe, --max-reward-calls or --max-seconds is the budget of all methods; without one the first
method sets it. Each gets as many particles or iterations or as wide a tree as it pays for, unless
an option says how many. base, fhs and greedy draw one sample: they have nothing to spend a budget
on. With several texts the table has means and their standard errors. Where --judge names none, the
shipped judge that no search is paid for is asked, if the reward has one; perplexity and distinct-2
stand beside it.")]
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
    /// The methods; without a limit the first one sets the budget
    #[arg(
        long,
        value_name = "A,B,C",
        value_delimiter = ',',
        value_parser = method_names(),
        default_value = "treasure,bon,fk,greedy,fhs"
    )]
    pub methods: Vec<String>,
    /// What the methods have in common [default: what a limit is given for, else nfe]
    #[arg(long = "match", value_enum, value_name = "BUDGET")]
    pub matched: Option<Match>,
    /// Draw reward against cost into this file
    #[cfg(feature = "eval")]
    #[arg(long, value_name = "FILE.svg")]
    pub picture: Option<PathBuf>,
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
        interrupt::listen(common.quiet, "the best so far");
        let screen = Screen::new(Progress::new(common.quiet), None);
        let mut all: Vec<Compared> = Vec::new();
        let (matched, limit) = self.budget();
        let mut budget = limit;
        'methods: for method in &self.methods {
            let mut width = Map::new();
            if let (Some(budget), Some(knob)) = (budget, self.free_width(method)) {
                let spent = |width: u64| -> Outcome<Option<f64>> {
                    let width = Map::from_iter([(knob.into(), width.into())]);
                    let request = Request {
                        max_nfe: None,
                        max_reward_calls: None,
                        max_seconds: None,
                        judge: Vec::new(),
                        ..self.request(method, width, common)?
                    };
                    let made = sample(&session, &Plan::new(&request)?, &entries[0], 0, 0, &screen)?;
                    Ok(made.map(|made| matched.spent(&made)))
                };
                let (Some(one), Some(three)) = (spent(1)?, spent(3)?) else { break };
                // Some of the cost may not depend on the width, and time is noisy.
                let more = ((three - one) / 2.0).max(one / 20.0).max(1e-9);
                let paid = 1.0 + (budget - one) / more;
                // A limit is not to be exceeded, another method's cost is to be met.
                let paid = if limit.is_some() { paid.floor() } else { paid.round() };
                width.insert(knob.into(), (paid.clamp(1.0, MOST) as u64).into());
            }
            let plan = Plan::new(&self.request(method, width, common)?)?;
            let mut rows = Vec::new();
            for (prompt_index, entry) in entries.iter().enumerate() {
                for number in 0..self.samples.max(1) {
                    let made = sample(&session, &plan, entry, prompt_index, number, &screen)?;
                    let Some(mut made) = made else { break 'methods };
                    let budget = *budget.get_or_insert(matched.spent(&made));
                    made.plan["match"] = json!(matched);
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
        #[cfg(feature = "eval")]
        if let Some(path) = &self.picture {
            picture(path, &all, matched, &self.reward.reward)?;
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
        if request.judge.is_empty() && treasure_pocket::model("scorer").is_some() {
            let twin = treasure::held_out_judge(&self.reward.reward);
            request.judge.extend(twin.map(str::to_owned));
        }
        self.limits.fill(&mut request);
        self.constraints.fill(&mut request)?;
        request.options = self.search.only_for(method);
        request.options.extend(width);
        Ok(request)
    }

    /// What is matched, and the budget of all methods where a limit says it.
    fn budget(&self) -> (Match, Option<f64>) {
        let limits = [
            (Match::Nfe, self.limits.max_nfe.map(|limit| limit as f64)),
            (Match::RewardCalls, self.limits.max_reward_calls.map(|limit| limit as f64)),
            (Match::Seconds, self.limits.max_seconds),
        ];
        let given = limits.iter().find(|(_, limit)| limit.is_some());
        let matched = self.matched.or(given.map(|(matched, _)| *matched)).unwrap_or(Match::Nfe);
        (
            matched,
            limits.iter().find(|(limited, _)| *limited == matched).and_then(|(_, limit)| *limit),
        )
    }

    /// The option of a method that a budget may set: none if the user set one, or if there is none.
    fn free_width(&self, method: &str) -> Option<&'static str> {
        let given = self.search.given();
        let widths = self.methods.iter().filter_map(|method| Method::width_option(method));
        match widths.into_iter().any(|option| given.contains_key(option)) {
            true => None,
            false => Method::width_option(method),
        }
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
        header.extend(["perplexity", "distinct-2"]);
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
            let dist = |row: &Sample| row.held_out.as_ref().and_then(|held| held.dist[1]);
            row.push(format!("{:.2}", mean(one.rows.iter().filter_map(dist)).0));
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

/// Reward against cost: a point with its standard error for each method.
#[cfg(feature = "eval")]
fn picture(path: &Path, all: &[Compared], matched: Match, reward: &str) -> Outcome<()> {
    use crate::failure::OrFail as _;
    use treasure_eval::plots::{Chart, Line, Point};
    let x_label = match matched {
        Match::Nfe => "model calls (NFE)",
        Match::RewardCalls => "reward calls",
        Match::Seconds => "seconds",
    };
    let lines = all.iter().enumerate().map(|(style, one)| {
        let (y, error) = mean(one.rows.iter().map(|row| row.reward));
        let x = mean(one.rows.iter().map(|row| matched.spent(row))).0.max(1e-3);
        let interval = (one.rows.len() > 1).then_some((y - error, y + error));
        let label = Some(format!("{} {}", one.method, one.width));
        let points = vec![Point { interval, ..Point::at(x, y) }];
        Line { label, style, points_per_marker: 1, points }
    });
    let chart = Chart {
        name: "compare".into(),
        caption: format!("{reward}: mean reward with its standard error against {x_label}"),
        x_label: x_label.into(),
        y_label: reward.into(),
        log_x: true,
        lines: lines.collect(),
        ..Chart::default()
    };
    match chart.draw()? {
        Some(figure) => std::fs::write(path, figure.standalone())
            .context(|| format!("--picture {}", path.display())),
        None => Ok(()),
    }
}

/// The width of a plan, for people.
fn width_shown(plan: &Plan) -> String {
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
