//! A cell of a search experiment: one text (or one for each reward), scored by every judge.

use std::{collections::BTreeMap, fs, io::BufWriter, ops::ControlFlow, path::Path, time::Instant};

use treasure_core::{
    Event, Key, NoiseSchedule, Outcome, Reward, Silent, TokenId, TraceWriter, View,
};
use treasure_text::Start;

use super::{
    method::method,
    world::{Indifferent, World},
};
use crate::{
    Result,
    config::Budget,
    error::at,
    plan::{Cell, Plan, Variant},
    row::{Row, Sample, Timing, Work},
};

/// The file of a cell's trace.
pub fn trace_path(directory: &Path, id: &str) -> std::path::PathBuf {
    directory.join("traces").join(format!("{}.jsonl", id.replace('/', "__")))
}

/// Runs a cell. `traces` is the folder of the run, where the plan wants a trace of this cell.
pub fn run(
    world: &dyn World,
    plan: &Plan,
    cell: &Cell,
    plan_id: &str,
    traces: Option<&Path>,
) -> Result<Row> {
    let variant = &plan.variants[cell.variant];
    let start = world.start(plan, &plan.prompts[cell.prompt])?;
    let key = plan.key(cell);
    let mut found = match cell.reward {
        Some(index) => vec![optimise(world, plan, cell, index, &start, key, traces)?],
        None if variant.shared => choose_among_shared(world, plan, variant, &start, key)?,
        None => {
            let method = method(variant, plan.protocol, None)?;
            let (outcome, seconds) = timed(world, &start, &Indifferent, &*method, key)?;
            vec![Found::new(None, outcome.tokens.clone(), None, &outcome, seconds)]
        }
    };
    let judging = Instant::now();
    for entry in &mut found {
        entry.judge(world, plan, &start)?;
    }
    let search = found.iter().map(|entry| entry.seconds).collect();
    Ok(Row {
        id: cell.id.clone(),
        plan: plan_id.into(),
        variant: variant.id.clone(),
        prompt: cell.prompt,
        continuation: cell.continuation,
        samples: found.into_iter().map(|entry| entry.sample).collect(),
        branching: Vec::new(),
        variation: Vec::new(),
        timing: Some(Timing { search, judging: judging.elapsed().as_secs_f64() }),
    })
}

/// A text on its way to becoming a sample.
struct Found {
    sample: Sample,
    complete: Vec<TokenId>,
    seconds: f64,
}

impl Found {
    fn new(
        reward: Option<String>,
        complete: Vec<TokenId>,
        value: Option<f64>,
        outcome: &Outcome,
        seconds: f64,
    ) -> Self {
        let cost = Work {
            nfe: outcome.cost.nfe,
            nfe_hits: outcome.cost.nfe_hits,
            reward_calls: outcome.cost.reward_calls,
            reward_cache_hits: outcome.cost.reward_cache_hits,
        };
        let sample = Sample {
            reward,
            particles: None,
            continuation: String::new(),
            tokens: Vec::new(),
            value,
            scores: BTreeMap::new(),
            cost,
            trajectory: Vec::new(),
        };
        Self { sample, complete, seconds }
    }

    fn judge(&mut self, world: &dyn World, plan: &Plan, start: &Start) -> Result<()> {
        let reading = world.read(start, &self.complete)?;
        let text = [reading.text.as_str()];
        for reward in &plan.rewards {
            let judges = [
                (String::new(), Some(&reward.spec)),
                ("/accuracy".into(), reward.accuracy.as_ref()),
                ("/heldout".into(), reward.heldout.as_ref()),
                ("/heldout-accuracy".into(), reward.heldout_accuracy.as_ref()),
            ];
            for (suffix, spec) in judges {
                let Some(spec) = spec else { continue };
                if let Some(&score) = world.judge(spec, &text)?.first() {
                    self.sample.scores.insert(format!("{}{suffix}", reward.name), score);
                }
            }
        }
        if let Some(&ppl) = world.perplexity(&plan.ppl, start.prompt_text(), &text)?.first() {
            self.sample.scores.insert("ppl".into(), ppl);
        }
        self.sample.continuation = reading.continuation;
        self.sample.tokens = reading.tokens;
        Ok(())
    }
}

/// One search for one reward.
fn optimise(
    world: &dyn World,
    plan: &Plan,
    cell: &Cell,
    reward: usize,
    start: &Start,
    key: Key,
    traces: Option<&Path>,
) -> Result<Found> {
    let variant = &plan.variants[cell.variant];
    let name = &plan.rewards[reward].name;
    let particles = variant.particles_by_reward.get(name).copied();
    if matches!(variant.matched, Some((Budget::Seconds, ..))) && particles.is_none() {
        return Err(crate::Error::Invalid {
            what: format!("{}: particles for {name}", variant.id),
            expected: "a number calibrated before the run".into(),
            got: "none".into(),
        });
    }
    let method = method(variant, plan.protocol, particles)?;
    let scorer = world.reward(&plan.rewards[reward].spec, start)?;
    let schedule = NoiseSchedule::default();
    let problem = world.problem(start, &schedule, &*scorer)?;
    let tree = matches!(variant.method.as_str(), "treasure" | "naive-tree");
    let mut trajectory = Vec::new();
    let mut trace = None;
    let target = traces.map(|directory| trace_path(directory, &cell.id));
    if let Some(path) = &target {
        let folder = path.parent().unwrap_or(path);
        fs::create_dir_all(folder).map_err(at(folder, "creating"))?;
        let file = fs::File::create(path.with_extension("draft")).map_err(at(path, "writing"))?;
        trace = Some(TraceWriter::new(BufWriter::new(file)));
    }
    let mut texts = BTreeMap::new();
    let begun = Instant::now();
    let outcome = if tree || trace.is_some() {
        let mut watch = |event: &Event| {
            match event {
                Event::Step(step) => {
                    if let Some(value) = step.best_value {
                        trajectory.push((step.masks_left, value));
                    }
                }
                Event::Node(node) if trace.is_some() => {
                    let tokens =
                        node.token.into_iter().chain(node.also.iter().map(|&(_, token)| token));
                    tokens.for_each(|token| note_text(&mut texts, world, token));
                }
                Event::Start { start, .. } if trace.is_some() => {
                    start.iter().flatten().for_each(|&token| note_text(&mut texts, world, token));
                }
                _ => {}
            }
            trace.as_mut().map_or(ControlFlow::Continue(()), |trace| {
                treasure_core::Observer::observe(trace, event)
            })
        };
        method.run(&problem, key, &mut watch)?
    } else {
        method.run(&problem, key, &mut Silent)?
    };
    let seconds = begun.elapsed().as_secs_f64();
    if let (Some(mut trace), Some(path)) = (trace, target) {
        trace.line(&serde_json::json!({"event": "texts", "texts": texts}));
        trace.finish().map_err(at(&path, "writing"))?;
        fs::rename(path.with_extension("draft"), &path).map_err(at(&path, "writing"))?;
    }
    let mut found =
        Found::new(Some(name.clone()), outcome.tokens.clone(), outcome.reward, &outcome, seconds);
    found.sample.particles = particles;
    found.sample.trajectory = trajectory;
    Ok(found)
}

fn note_text(texts: &mut BTreeMap<TokenId, String>, world: &dyn World, token: TokenId) {
    texts
        .entry(token)
        .or_insert_with(|| world.token_text(token).unwrap_or_else(|| format!("#{token}")));
}

/// N candidates drawn once; every reward scores all of them and takes its best.
fn choose_among_shared(
    world: &dyn World,
    plan: &Plan,
    variant: &Variant,
    start: &Start,
    key: Key,
) -> Result<Vec<Found>> {
    let method = method(variant, plan.protocol, None)?;
    let (outcome, drawing) = timed(world, start, &Indifferent, &*method, key)?;
    let mut found = Vec::new();
    for reward in &plan.rewards {
        let scorer = world.reward(&reward.spec, start)?;
        // After the line above, which may load a model.
        let begun = Instant::now();
        let views: Vec<View> = outcome
            .finals
            .iter()
            .map(|particle| scorer.view(&particle.tokens))
            .collect::<Result<_, _>>()?;
        let mut distinct: Vec<&View> = views.iter().collect();
        distinct.sort_unstable();
        distinct.dedup();
        let scores = scorer.score(&distinct)?;
        if scores.len() != distinct.len() || scores.iter().any(|score| !score.is_finite()) {
            return Err(treasure_core::Error::Reward {
                name: reward.spec.clone(),
                message: format!("expected {} finite numbers, got {scores:?}", distinct.len()),
                source: None,
            }
            .into());
        }
        let value = |view: &View| distinct.binary_search(&view).map(|place| scores[place]);
        let mut best: Option<(usize, f64)> = None;
        for (slot, view) in views.iter().enumerate() {
            if let Ok(value) = value(view)
                && best.is_none_or(|(_, top)| value > top)
            {
                best = Some((slot, value));
            }
        }
        let Some((slot, value)) = best else { continue };
        let seconds = drawing + begun.elapsed().as_secs_f64();
        let tokens = outcome.finals[slot].tokens.clone();
        let mut entry =
            Found::new(Some(reward.name.clone()), tokens, Some(value), &outcome, seconds);
        entry.sample.cost.reward_calls = distinct.len() as u64;
        entry.sample.cost.reward_cache_hits = (views.len() - distinct.len()) as u64;
        found.push(entry);
    }
    Ok(found)
}

/// One run without anybody watching, with its seconds.
pub(super) fn timed(
    world: &dyn World,
    start: &Start,
    reward: &dyn Reward,
    method: &dyn treasure_core::Search,
    key: Key,
) -> Result<(Outcome, f64)> {
    let schedule = NoiseSchedule::default();
    let problem = world.problem(start, &schedule, reward)?;
    let begun = Instant::now();
    let outcome = method.run(&problem, key, &mut Silent)?;
    Ok((outcome, begun.elapsed().as_secs_f64()))
}
