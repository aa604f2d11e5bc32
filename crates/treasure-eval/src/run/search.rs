//! A cell of a search experiment: one text (or one for each reward), scored by every judge.

use std::{
    collections::BTreeMap,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Instant,
};

use treasure::{
    Tell, Watch,
    core::{Cost, Event, Outcome, Problem, Silent, StopReason},
    rewards::Pipeline,
};

use super::Bench;
use crate::{
    Error, Result,
    config::{Budget, PplOf},
    error::at,
    plan::Cell,
    row::{Row, Sample, Timing},
    store::write_whole,
};

/// The file of a cell's trace.
pub fn trace_path(directory: &Path, id: &str) -> PathBuf {
    directory.join("traces").join(format!("{}.jsonl", id.replace('/', "__")))
}

/// Runs a cell; nothing if it was interrupted. `traces` is the folder of the run, where the plan wants
/// a trace of this cell.
pub fn run(bench: &Bench<'_>, cell: &Cell, traces: Option<&Path>) -> Result<Option<Row>> {
    let found = match bench.plan.variants[cell.variant].shared {
        true => choose_among_shared(bench, cell)?,
        false => optimise(bench, cell, traces)?.map(|found| vec![found]),
    };
    let Some(mut found) = found else { return Ok(None) };
    let judging = Instant::now();
    for (sample, _) in &mut found {
        bench.judge(sample, &bench.plan.prompts[cell.prompt])?;
    }
    let judging = judging.elapsed().as_secs_f64();
    let (samples, search) = found.into_iter().unzip();
    Ok(Some(Row { samples, ..bench.row(cell, Timing { search, judging }) }))
}

/// A text with the seconds it took.
type Found = (Sample, f64);

impl Bench<'_> {
    /// A judge's number for a text.
    fn score(&self, spec: &str, text: &str) -> Result<treasure::Scored> {
        let scored = self.session.score(spec, &[text])?.pop();
        scored.ok_or_else(|| invalid(format!("judge {spec}"), "a number", "none"))
    }

    /// The total NLL of a text and its number of tokens.
    fn nll(&self, spec: &str, text: &str) -> Result<(f64, f64)> {
        let detail = self.score(spec, text)?.detail;
        match (detail["nll_mean"].as_f64(), detail["tokens"].as_f64()) {
            (Some(mean), Some(tokens)) => Ok((mean * tokens, tokens)),
            _ => Err(invalid("ppl", "a scorer such as perplexity or ppl:MODEL", spec)),
        }
    }

    fn perplexity(&self, prompt: &str, text: &str) -> Result<f64> {
        let spec = &self.plan.ppl;
        let (nll, tokens) = self.nll(spec, text)?;
        let given = match self.plan.ppl_of {
            PplOf::Continuation if !prompt.is_empty() => self.nll(spec, prompt)?,
            _ => (0.0, 0.0),
        };
        // A continuation that adds no token has nothing to be surprised by.
        Ok(if tokens > given.1 { ((nll - given.0) / (tokens - given.1)).exp() } else { 1.0 })
    }

    /// Fills in what every judge of the plan says of a text.
    pub(crate) fn judge(&self, sample: &mut Sample, prompt: &str) -> Result<()> {
        let text = format!("{prompt}{}", sample.continuation);
        for reward in &self.plan.rewards {
            let judges = [
                ("", Some(&reward.spec)),
                ("/accuracy", reward.accuracy.as_ref()),
                ("/heldout", reward.heldout.as_ref()),
                ("/heldout-accuracy", reward.heldout_accuracy.as_ref()),
            ];
            for (suffix, spec) in judges {
                let Some(spec) = spec else { continue };
                let score = self.score(spec, &text)?.reward;
                sample.scores.insert(format!("{}{suffix}", reward.name), score);
            }
        }
        sample.scores.insert("ppl".into(), self.perplexity(prompt, &text)?);
        Ok(())
    }
}

fn invalid(what: impl Into<String>, expected: &str, got: &str) -> Error {
    Error::Invalid { what: what.into(), expected: expected.into(), got: got.into() }
}

/// One search, for one reward or for none.
fn optimise(bench: &Bench<'_>, cell: &Cell, traces: Option<&Path>) -> Result<Option<Found>> {
    let plan = bench.plan;
    let variant = &plan.variants[cell.variant];
    let reward = cell.reward.map(|reward| plan.rewards[reward].name.clone());
    let particles = reward.as_ref().and_then(|name| variant.particles_by_reward.get(name)).copied();
    if matches!(variant.matched, Some((Budget::Seconds, ..))) && particles.is_none() {
        let what = format!("{}: particles", variant.id);
        return Err(invalid(what, "a number calibrated before the run", "none"));
    }
    let asked = bench.asked(variant, cell.reward)?;
    let tree = asked.method.options().contains_key("tree_width");
    let mut trajectory = Vec::new();
    let mut see = |event: &Event| {
        if let Event::Step(step) = event {
            trajectory.extend(step.best_value.map(|value| (step.masks_left, value)));
        }
        ControlFlow::Continue(())
    };
    let watched = tree && reward.is_some();
    let events = watched.then_some(&mut see as &mut Tell<'_>);
    let watch = Watch { events, trace: traces.is_some(), ..Watch::default() };
    let Some(made) = bench.sample(&asked, (cell.prompt, cell.continuation), watch)? else {
        return Ok(None);
    };
    if let (Some(directory), Some(trace)) = (traces, made.trace) {
        let path = trace_path(directory, &cell.id);
        let folder = directory.join("traces");
        fs::create_dir_all(&folder).map_err(at(folder, "creating"))?;
        write_whole(&path, String::from_utf8_lossy(&trace).lines())?;
    }
    let treasure::Cost { nfe, nfe_hits, reward_calls, reward_cache_hits, .. } = made.cost;
    let treasure::Cost { proxy_calls, reward_skips, seconds, .. } = made.cost;
    let sample = Sample {
        value: reward.is_some().then_some(made.reward),
        reward,
        particles,
        continuation: made.continuation,
        tokens: made.tokens,
        scores: BTreeMap::new(),
        cost: Cost { nfe, nfe_hits, reward_calls, reward_cache_hits, proxy_calls, reward_skips },
        trajectory,
    };
    Ok(Some((sample, seconds)))
}

/// N candidates drawn once; every reward scores all of them and takes its best.
fn choose_among_shared(bench: &Bench<'_>, cell: &Cell) -> Result<Option<Vec<Found>>> {
    let plan = bench.plan;
    let variant = &plan.variants[cell.variant];
    let (prompt, cancel) = (&plan.prompts[cell.prompt], bench.cancel);
    let asked = bench.asked(variant, None)?;
    let begun = Instant::now();
    let drawn = bench.session.pose(&asked, prompt, cancel, |problem, _| {
        asked.method.search().run(problem, plan.key(cell), &mut Silent)
    })??;
    let drawing = begun.elapsed().as_secs_f64();
    let mut found = Vec::new();
    for (index, reward) in plan.rewards.iter().enumerate() {
        if drawn.stopped == Some(StopReason::Cancelled) {
            return Ok(None);
        }
        let asked = bench.asked(variant, Some(index))?;
        // Before the clock starts: this may load a model.
        bench.session.prepare(&asked)?;
        let begun = Instant::now();
        let best = bench.session.pose(&asked, prompt, cancel, |problem, pipeline| {
            best_of(&drawn, problem, pipeline, &reward.name)
        })?;
        let Some(sample) = best? else { return Ok(None) };
        found.push((sample, drawing + begun.elapsed().as_secs_f64()));
    }
    Ok(Some(found))
}

/// The first of the best candidates under a problem's reward; nothing if it was interrupted.
fn best_of(
    drawn: &Outcome,
    problem: &Problem<'_>,
    pipeline: &Pipeline,
    reward: &str,
) -> Result<Option<Sample>> {
    let candidates: Vec<_> = drawn.finals.iter().map(|particle| particle.tokens.clone()).collect();
    let Some(values) = super::figures::unless_stopped(problem.score(&candidates))? else {
        return Ok(None);
    };
    let better = |best: usize, next: usize| if values[next] > values[best] { next } else { best };
    let best = (0..values.len()).reduce(better);
    let best = best.ok_or_else(|| invalid("candidates", "at least one", "none"))?;
    let rendered = pipeline.render(&candidates[best]).map_err(treasure::Error::from)?;
    let Cost { nfe, nfe_hits, .. } = drawn.cost;
    Ok(Some(Sample {
        reward: Some(reward.to_owned()),
        particles: None,
        continuation: rendered.continuation().to_owned(),
        tokens: rendered.tokens,
        value: Some(values[best]),
        scores: BTreeMap::new(),
        cost: Cost { nfe, nfe_hits, ..problem.cost() },
        trajectory: Vec::new(),
    }))
}
