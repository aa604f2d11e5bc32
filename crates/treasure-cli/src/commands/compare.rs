//! `treasure compare`: several methods on the same prompt, model, seed and budget.
//!
//! The first method sets the budget. Every other method that has a width (particles, or the tree
//! width of a tree) runs once at width 1 to see what a unit costs; its width is then what the budget
//! pays for. Widths and budget stand in each row's plan, so a run can be repeated exactly.

use std::num::NonZeroUsize;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use treasure_core::Width;
use treasure_rewards::Start;

use super::generate::{Limits, RewardOptions};
use crate::{
    Verdict,
    failure::{Failure, Outcome},
    generation::{
        follow::Screen,
        parts::{Parts, Specs, TextScores},
        plan::{Asked, Plan, PresetKind},
        row::{Reading, Row},
        sample::{Job, run_sample},
    },
    interrupt,
    loading::Batched,
    options::{
        common::Common,
        model::ModelOptions,
        search::{Method, SearchOptions},
    },
    output::{number, print, progress::Progress},
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

/// Run several methods on one prompt at the same budget
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  treasure compare \"The movie\" --reward sentiment=positive
  treasure compare \"The movie\" --reward cola --methods treasure,bon,fk --match reward-calls

The first method sets the budget. The others get as many particles (bon, fk, svdd, code) or as wide a
tree (treasure, naive-tree) as it pays for, unless --particles or --tree-width says how many. base, fhs
and greedy draw one sample: they have nothing to spend a budget on.")]
pub struct Compare {
    /// The beginning of the text
    #[arg(value_name = "PROMPT")]
    pub prompt: String,
    /// The methods; the first one sets the budget
    #[arg(
        long,
        value_name = "A,B,C",
        value_enum,
        value_delimiter = ',',
        default_value = "treasure,bon,fk,greedy,fhs"
    )]
    pub methods: Vec<Method>,
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
    /// The methods' knobs; each method takes those it knows.
    #[command(flatten)]
    pub search: SearchOptions,
    /// The denoiser.
    #[command(flatten)]
    pub model: ModelOptions,
}

/// More than this many particles would not fit in memory or in anybody's patience.
const MOST: usize = 100_000;

impl Match {
    /// What a run spent.
    fn spent(self, row: &Row) -> f64 {
        match self {
            Self::Nfe => row.cost.nfe as f64,
            Self::RewardCalls => row.cost.reward_calls as f64,
            Self::Seconds => row.cost.seconds,
        }
    }
}

impl Compare {
    /// Runs every method and prints a table, or one row a method.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        for (index, method) in self.methods.iter().enumerate() {
            if self.methods[..index].contains(method) {
                return Err(Failure::new(format!("--methods: {} is there twice", method.name())));
            }
        }
        if self.search.screen.is_some() {
            return Err(Failure::new("--screen: methods are compared on exact scores")
                .hint("leave it out, or use it with `treasure generate`"));
        }
        self.search.check_used_by_one(&self.methods)?;
        let first_plan =
            self.plan(self.methods[0], &self.search.only_for(self.methods[0]), common)?;
        let specs = Specs::parse(&first_plan)?;
        let reading = specs.reading();
        common.say(first_plan.line());
        let parts = Parts::load(&self.model, &specs, &self.reward, true)?;
        interrupt::listen();
        let screen = Screen::new(Progress::new(common.quiet), None);
        let mut rows: Vec<Row> = Vec::new();
        let mut budget: Option<f64> = None;
        for &method in &self.methods {
            let mut search = self.search.only_for(method);
            if let Some(budget) = budget
                && let Some(width) = width_of(method, &mut search)
            {
                width.set(1);
                let Some(unit) = self.sample(&parts, method, &search, common, &screen)? else {
                    break;
                };
                let unit = self.matched.spent(&unit).max(1e-9);
                let paid = (budget / unit).round().clamp(1.0, MOST as f64) as usize;
                if let Some(width) = width_of_set(method, &mut search) {
                    width.set(paid);
                }
            }
            let Some(mut row) = self.sample(&parts, method, &search, common, &screen)? else {
                break;
            };
            let budget = *budget.get_or_insert(self.matched.spent(&row));
            row.plan["match"] = json!(self.matched);
            row.plan["budget"] = json!(budget);
            screen.clear();
            if common.json {
                print::line(serde_json::to_string(&row)?)?;
            }
            rows.push(row);
        }
        screen.clear();
        if !common.json {
            self.show(&rows, reading)?;
        }
        let missed =
            |row: &Row| self.limits.target_reward.is_some_and(|target| row.reward < target);
        let stopped = rows.len() < self.methods.len() || interrupt::asked();
        Ok(if stopped || rows.iter().any(missed) { Verdict::Missed } else { Verdict::Done })
    }

    fn plan(&self, method: Method, search: &SearchOptions, common: &Common) -> Outcome<Plan> {
        Plan::new(&Asked {
            model: &self.model,
            reward: &self.reward,
            limits: &self.limits,
            search,
            method,
            template: None,
            samples: 1,
            seed: common.seed(),
            preset: self.preset,
        })
    }

    /// One sample with one method; none if Ctrl-C came first.
    fn sample(
        &self,
        parts: &Parts,
        method: Method,
        search: &SearchOptions,
        common: &Common,
        screen: &Screen,
    ) -> Outcome<Option<Row>> {
        if interrupt::asked() {
            return Ok(None);
        }
        let setup = parts.setup(self.plan(method, search, common)?, false)?;
        let (length, min_length) = (setup.plan.length, setup.plan.min_length);
        let preset = self.preset.conventions();
        let start = Start::under(preset, &setup.model, &self.prompt, length, min_length)?;
        let job = Job { prompt_index: 0, sample: 0, start: &start };
        let denoiser = Batched { inner: setup.model.clone(), size: self.model.batch_size };
        let scores = TextScores(setup.reward.clone());
        screen.begin(1);
        let made = run_sample(&setup, &job, &denoiser, &scores, screen)?;
        Ok(made.filter(|made| !made.interrupted).map(|made| made.row))
    }

    fn show(&self, rows: &[Row], reading: Reading) -> Outcome<()> {
        let cells: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                vec![
                    row.method.clone(),
                    width_shown(&row.plan),
                    number::reward(row.reward) + &reading.remark(row.reward),
                    number::count(row.cost.nfe),
                    number::count(row.cost.reward_calls),
                    number::seconds(row.cost.seconds),
                ]
            })
            .collect();
        let header = ["method", "width", "reward", "nfe", "reward calls", "time"];
        print::line(print::table(&header, &cells, &[false, false, false, true, true, true]))?;
        for row in rows {
            print::line(format!("\n{}\n{}", row.method, row.text))?;
            if let Some(held_out) = &row.held_out {
                print::line(held_out.line())?;
            }
        }
        Ok(())
    }
}

/// The knob that a budget sets.
enum Knob<'a> {
    Particles(&'a mut Option<NonZeroUsize>),
    Tree(&'a mut Option<Width>),
}

impl Knob<'_> {
    fn set(self, width: usize) {
        match self {
            Self::Particles(knob) => *knob = NonZeroUsize::new(width),
            Self::Tree(knob) => *knob = Some(Width::Constant(width.max(1))),
        }
    }
}

/// The knob of a method that a budget may set: none if the user did, or if there is none.
fn width_of(method: Method, search: &mut SearchOptions) -> Option<Knob<'_>> {
    if search.particles.is_some() || search.tree_width.is_some() {
        return None;
    }
    width_of_set(method, search)
}

fn width_of_set(method: Method, search: &mut SearchOptions) -> Option<Knob<'_>> {
    match method {
        Method::Bon | Method::Fk | Method::Svdd | Method::Code => {
            Some(Knob::Particles(&mut search.particles))
        }
        Method::Treasure | Method::NaiveTree => Some(Knob::Tree(&mut search.tree_width)),
        Method::Base | Method::Fhs | Method::Greedy => None,
    }
}

/// The width of a row's plan, for people.
fn width_shown(plan: &Value) -> String {
    let show = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    match (&plan["beam_width"], &plan["tree_width"], &plan["particles"]) {
        (Value::Null, _, Value::Null) => "1".into(),
        (Value::Null, _, particles) => format!("N={}", show(particles)),
        (beam, tree, _) => format!("b={} m={}", show(beam), show(tree)),
    }
}
