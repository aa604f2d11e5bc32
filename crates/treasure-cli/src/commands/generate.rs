//! `treasure generate`: text that a reward likes.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use clap::Args;
use serde_json::{Value, json};
use treasure::{
    Entry, Expected, Job, Plan, Reading, Request, Sample, Session, SessionOptions, Store, Template,
    Watch,
};

use crate::{
    Verdict,
    failure::{Failure, OrFail as _, Outcome},
    input, interrupt,
    options::{
        common::Common,
        request::{
            Constraints, Limits, ModelOptions, PresetKind, RewardOptions, SearchOptions,
            method_names,
        },
    },
    output::{number, print, progress::Progress, row, screen::Screen, trace::TraceFile, watch},
};

/// Generate text that a reward likes
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  treasure generate \"Once upon a time\" --reward sentiment=negative
  treasure generate \"The old dog\" --reward sentiment=negative --beside
  treasure generate \"The movie\" --reward \"sentiment=positive + 0.5*perplexity\" --tree-width 4
  treasure generate --template \"The [MASK:5] was [MASK:12].\" --reward cola
  treasure generate --prompts prompts.jsonl --samples 4 --out rows.jsonl --resume

Rewards: sentiment=positive|neutral|negative, toxicity, no-toxicity, cola, perplexity,
  hf:DIR-or-ID#LABEL, ppl:DIR-or-ID, nelbo:MODEL, regex:PATTERN, contains:a,b, avoids:a,b,
  length:40..60, distinct:N, json-schema:FILE, exec:COMMAND, tei+http://HOST:PORT#LABEL,
  vllm+http://…#LABEL, completions+http://…, reward+http://…
  combined with `a + 0.5*b`, min(a, b), product(a, b); prefixes prob:, accuracy: and raw:

An empty prompt \"\" generates without one, `-` reads one from standard input. Ctrl-C prints the best so
far and exits with 130.")]
pub struct Generate {
    /// The beginning of the text; several give several rows
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,
    /// Prompts or templates from JSON Lines, each with fields of your own; `-` is standard input
    #[arg(long, value_name = "FILE.jsonl", conflicts_with = "prompt")]
    pub prompts: Option<PathBuf>,
    /// Fill the holes of a text, such as "The [MASK:5] was [MASK:12]."
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["prompt", "prompts", "length", "min_length"])]
    pub template: Option<String>,
    /// Fill the holes of a text file in place, such as [MASK:5] or [MASK|choices:red,green]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "prompts", "template", "length", "min_length", "samples", "out", "beside"])]
    pub fill_in: Option<PathBuf>,
    /// Reading and running the reward.
    #[command(flatten)]
    pub reward: RewardOptions,
    /// How to search
    #[arg(long, default_value = "treasure", value_name = "METHOD", help_heading = "Search", value_parser = method_names())]
    pub method: String,
    /// How many outputs a prompt gets
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Output")]
    pub samples: usize,
    /// Whose conventions hold
    #[arg(long, value_enum, value_name = "PRESET", default_value_t, help_heading = "Search")]
    pub preset: PresetKind,
    /// How long, and when to stop.
    #[command(flatten)]
    pub limits: Limits,
    /// What must hold.
    #[command(flatten)]
    pub constraints: Constraints,
    /// The method's knobs.
    #[command(flatten)]
    pub search: SearchOptions,
    /// The denoiser.
    #[command(flatten)]
    pub model: ModelOptions,
    /// Where results go.
    #[command(flatten)]
    pub files: Files,
}

/// Where results go.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Output")]
pub struct Files {
    /// Show unguided text and the best of 16 beside ours
    #[arg(long, conflicts_with_all = ["out", "trace", "watch"])]
    pub beside: bool,
    /// Also append the rows to a file, as JSON Lines
    #[arg(long, value_name = "FILE.jsonl")]
    pub out: Option<PathBuf>,
    /// Continue an interrupted --out file: finished rows are kept and not repeated
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Write every step of the search, as JSON Lines; `treasure trace view` shows it
    #[arg(long, value_name = "FILE.jsonl")]
    pub trace: Option<PathBuf>,
    /// Watch the text crystallise in the terminal
    #[arg(long)]
    pub watch: bool,
    /// Searches that run at once; the result does not depend on it
    #[arg(long, value_name = "N", default_value = "8", value_parser = crate::options::positive)]
    pub in_flight: NonZeroUsize,
    /// Only part I of N of the prompts, counted from 0
    #[arg(long, value_name = "I/N", value_parser = part)]
    pub shard: Option<(usize, usize)>,
}

/// `0/4`, `1/4` …
fn part(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match numbers {
        Some((i, n)) if i < n && n <= 1_000_000 => Ok((i, n)),
        _ => Err(format!("expected I/N with I below N, such as 0/4, got {text:?}")),
    }
}

/// One prompt of a run.
struct Start {
    prompt: String,
    /// The text a row begins with.
    begins: String,
    plan: usize,
    entry: Entry,
}

impl Generate {
    /// What is asked for, whatever the prompt.
    fn request(&self, common: &Common) -> Outcome<Request> {
        let mut request = Request {
            preset: Some(self.preset.into()),
            method: Some(self.method.clone()),
            samples: Some(self.samples),
            seed: common.seed,
            ..Request::default()
        };
        self.model.fill(&mut request);
        self.reward.fill(&mut request);
        self.limits.fill(&mut request);
        self.constraints.fill(&mut request)?;
        self.search.fill(&mut request);
        Ok(request)
    }

    /// What the user wants continued or filled in.
    fn entries(&self, common: &Common) -> Outcome<Vec<Entry>> {
        if let Some(file) = &self.prompts {
            return input::entries(file);
        }
        if let Some(file) = &self.fill_in {
            let template = Some(input::read(file)?);
            return Ok(vec![Entry { template, ..Entry::default() }]);
        }
        if let Some(template) = &self.template {
            return Ok(vec![Entry { template: Some(template.clone()), ..Entry::default() }]);
        }
        let mut entries = Vec::new();
        for prompt in &self.prompt {
            if prompt == "-" {
                let text = input::read(Path::new("-"))?;
                entries.push(Entry::prompt(text.strip_suffix('\n').unwrap_or(&text)));
                continue;
            }
            if Template::has_hole(prompt) {
                common.say(format!(
                    "note: the hole in {prompt:?} is taken as text; fill holes with --template"
                ));
            }
            entries.push(Entry::prompt(prompt));
        }
        if self.prompt.len() > 1 && self.prompt.iter().all(|prompt| !prompt.contains(' ')) {
            common.say(format!(
                "note: {} prompts of one word each; put one prompt of several words in quotes",
                self.prompt.len()
            ));
        }
        if entries.is_empty() {
            return Err(Failure::new("nothing to generate: expected a prompt").hint(
                "try `treasure generate \"Once upon a time\"`, or --prompts FILE.jsonl, \
                 or --template \"The [MASK:5] was [MASK:12].\"",
            ));
        }
        Ok(entries)
    }

    /// Plans, loads, searches and hands the rows on.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        let request = self.request(common)?;
        // All prompts share one plan; each template has its own.
        let (mut plans, mut starts) = (vec![Plan::new(&request)?], Vec::new());
        for entry in self.entries(common)? {
            let (plan, begins) = match &entry.template {
                None => (0, entry.prompt.clone().unwrap_or_default()),
                Some(text) => {
                    let template = Some(text.clone());
                    plans.push(Plan::new(&Request { template, ..request.clone() })?);
                    let first = Template::parse(text)?.parts.into_iter().next();
                    let begins = match first {
                        Some(treasure::text::Part::Fixed(fixed)) => fixed,
                        _ => String::new(),
                    };
                    (plans.len() - 1, begins)
                }
            };
            let prompt = entry.prompt.clone().unwrap_or_default();
            starts.push(Start { prompt, begins, plan, entry });
        }
        let watch = self.files.watch.then(watch::Watch::start).transpose()?;
        let session = Session::pocket()?.with_options(SessionOptions {
            in_flight: match self.limits.max_seconds.is_some() || watch.is_some() {
                // With a deadline samples must not wait for one another; a view shows one text.
                true => 1,
                false => self.files.in_flight.get(),
            },
            reward_batch: self.reward.reward_batch.map(NonZeroUsize::get),
            batch_size: self.model.batch_size.map(NonZeroUsize::get),
            ..SessionOptions::default()
        });
        let shown = starts.first().map_or(0, |start| start.plan);
        common.say(plans[shown].line());
        if self.files.beside {
            return self.beside(common, &session, &request, &starts);
        }
        let rows: Vec<Value> = plans.iter().map(Plan::to_value).collect();
        let store = self.store(common, &starts, &rows)?;
        let trace = match &self.files.trace {
            Some(path) => Some(TraceFile::new(path, self.files.resume)?),
            None => None,
        };
        let jobs = self.jobs(&starts, store.as_ref());
        interrupt::listen(common.quiet, "the best so far");
        let screen = Screen::new(Progress::new(common.quiet || watch.is_some()), watch);
        let sinks = Sinks {
            common,
            reading: plans[shown].reading(),
            store,
            trace,
            screen: &screen,
            several_samples: self.samples > 1,
            fill_in: self.fill_in.as_deref(),
        };
        let tally = sinks.run(&session, &plans, &jobs)?;
        if tally.interrupted {
            common.say(match &self.files.out {
                Some(_) => "stopped early; continue with --resume",
                None => "stopped early",
            });
            return Ok(Verdict::Interrupted);
        }
        if tally.below_target > 0 {
            common.say(format!("target reward missed by {} of {}", tally.below_target, tally.rows));
            return Ok(Verdict::Missed);
        }
        Ok(Verdict::Done)
    }

    fn store(&self, common: &Common, starts: &[Start], plans: &[Value]) -> Outcome<Option<Store>> {
        let Some(path) = &self.files.out else { return Ok(None) };
        if !self.files.resume {
            return Ok(Some(Store::create(path)?));
        }
        let prompts: Vec<&str> = starts.iter().map(|start| start.begins.as_str()).collect();
        let plans: Vec<&Value> = starts.iter().map(|start| &plans[start.plan]).collect();
        let store = Store::resume(path, Expected { prompts: &prompts, plans: &plans })?;
        if store.recovered() > 0 {
            common.say(format!(
                "{}: the last line was cut short and will be made again ({} bytes dropped)",
                path.display(),
                store.recovered()
            ));
        }
        if store.n_rows() > 0 {
            common.say(format!("{}: {} rows kept", path.display(), store.n_rows()));
        }
        Ok(Some(store))
    }

    fn jobs(&self, starts: &[Start], store: Option<&Store>) -> Vec<Job> {
        let (part, parts) = self.files.shard.unwrap_or((0, 1));
        let mut jobs = Vec::new();
        for (prompt_index, start) in starts.iter().enumerate() {
            if prompt_index % parts != part {
                continue;
            }
            for sample in 0..self.samples {
                let identity = (prompt_index as u64, sample as u64);
                if store.is_none_or(|store| !store.has(identity)) {
                    jobs.push(Job {
                        plan: start.plan,
                        prompt: start.prompt.clone(),
                        prompt_index,
                        sample,
                        extra: start.entry.extra.clone(),
                    });
                }
            }
        }
        jobs
    }

    /// Unguided text, the best of 16 and ours, side by side.
    fn beside(
        &self,
        common: &Common,
        session: &Session,
        request: &Request,
        starts: &[Start],
    ) -> Outcome<Verdict> {
        interrupt::listen(common.quiet, "the best so far");
        let others = [
            ("unguided", "fhs", json!({})),
            ("best of 16", "bon", json!({"particles": 16, "sampler": "first-hitting"})),
        ];
        for start in starts {
            let mut named = Vec::new();
            for (name, method, options) in &others {
                let options = options.as_object().cloned().unwrap_or_default();
                let (method, screen) = (Some((*method).to_owned()), None);
                named.push((*name, Request { method, screen, options, ..request.clone() }));
            }
            named.push(("ours", request.clone()));
            for (name, request) in named {
                let request = Request { template: start.entry.template.clone(), ..request };
                let plan = Plan::new(&request)?;
                let job = Job {
                    prompt: start.prompt.clone(),
                    extra: start.entry.extra.clone(),
                    ..Job::default()
                };
                let look = Watch { cancel: Some(&interrupt::ASKED), ..Watch::default() };
                let made = match session.run(&plan, &job, look) {
                    Err(error) if error.is_interrupted() => return Ok(Verdict::Interrupted),
                    made => made?,
                };
                if common.json {
                    print::line(serde_json::to_string(&made)?)?;
                    continue;
                }
                print::line(name)?;
                print::line(row::lines(&made, plan.reading(), false))?;
                print::line("")?;
            }
        }
        Ok(if interrupt::asked() { Verdict::Interrupted } else { Verdict::Done })
    }
}

/// Where finished rows go.
struct Sinks<'a> {
    common: &'a Common,
    reading: Reading,
    store: Option<Store>,
    trace: Option<TraceFile>,
    screen: &'a Screen,
    several_samples: bool,
    /// A file whose text the row's takes the place of.
    fill_in: Option<&'a Path>,
}

/// What became of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    rows: usize,
    below_target: usize,
    interrupted: bool,
    /// Nobody reads standard output any more.
    unread: bool,
}

impl Sinks<'_> {
    /// Runs all jobs and hands their rows on in job order.
    fn run(mut self, session: &Session, plans: &[Plan], jobs: &[Job]) -> Outcome<Tally> {
        let screen = self.screen;
        screen.begin(jobs.len());
        let mut tally = Tally::default();
        let mut failed: Outcome<()> = Ok(());
        let mut waiting: BTreeMap<usize, Option<Sample>> = BTreeMap::new();
        let mut next = 0;
        let traces = self.trace.is_some();
        let mut hand_on = |index: usize, made: treasure::Result<Sample>| {
            screen.one_done();
            match made {
                Ok(sample) => waiting.insert(index, Some(sample)),
                Err(error) if error.is_interrupted() => waiting.insert(index, None),
                Err(error) => {
                    failed = Err(error.into());
                    return ControlFlow::Break(());
                }
            };
            while let Some(made) = waiting.remove(&next) {
                let plan = &plans[jobs[next].plan];
                next += 1;
                tally.interrupted |= made.is_none();
                if let Some(sample) = made
                    && let Err(failure) = self.write(&sample, plan, &mut tally)
                {
                    failed = Err(failure);
                    return ControlFlow::Break(());
                }
            }
            // Without a file to fill, nobody needs what nobody reads.
            match tally.unread && self.store.is_none() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let cancel = Some(&interrupt::ASKED);
        if screen.watches() {
            for (index, job) in jobs.iter().enumerate() {
                let mut show = |frame: &treasure::Frame| screen.frame(frame);
                let look =
                    Watch { frames: Some(&mut show), cancel, trace: traces, ..Watch::default() };
                let made = session.run(&plans[job.plan], job, look);
                if hand_on(index, made).is_break() || interrupt::ASKED.load(Ordering::SeqCst) {
                    break;
                }
            }
        } else {
            let see = |_: usize, event: &treasure::core::Event| screen.event(event);
            session.run_all(plans, jobs, cancel, traces, &see, &mut hand_on)?;
        }
        screen.clear();
        tally.interrupted |= interrupt::asked();
        failed.map(|()| tally)
    }

    fn write(&mut self, sample: &Sample, plan: &Plan, tally: &mut Tally) -> Outcome<()> {
        let line = serde_json::to_string(sample)?;
        self.screen.clear();
        // A trace stands before its row, so that no row is without one.
        if let (Some(file), Some(trace)) = (&mut self.trace, &sample.trace) {
            file.write(trace)?;
        }
        // A text that was cut short is shown but not stored: --resume makes it anew.
        if let (Some(store), false) = (&mut self.store, sample.is_interrupted()) {
            store.append((sample.prompt_index, sample.sample), &line)?;
        }
        if let (Some(file), false) = (self.fill_in, sample.is_interrupted()) {
            input::replace(file, &sample.text)?;
        }
        if tally.rows == 0 {
            for note in &sample.notes {
                self.common.say(format!("note: {note}"));
            }
        }
        if !tally.unread {
            let shown = match (self.common.json, tally.rows) {
                (true, _) => line,
                (false, 0) => row::lines(sample, self.reading, self.several_samples),
                (false, _) => {
                    format!("\n{}", row::lines(sample, self.reading, self.several_samples))
                }
            };
            tally.unread = !print::line_if_read(shown).context(|| "rows")?;
            if self.reading == Reading::Rule && sample.reward < 1.0 {
                self.common.say(format!(
                    "note: no text met the rule ({} of 1); try --tree-width 8 --beam-width 20, a longer \
                     --length, or a rule nearer to what the model writes",
                    number::reward(sample.reward)
                ));
            }
        }
        tally.rows += 1;
        tally.interrupted |= sample.is_interrupted();
        let missed = plan.target_reward.is_some_and(|target| sample.reward < target);
        tally.below_target += usize::from(missed);
        Ok(())
    }
}
