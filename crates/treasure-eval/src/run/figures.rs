//! The cells of the two motivating figures: effective branches and reward variation.

use std::{ops::ControlFlow, sync::Arc, time::Instant};

use treasure::{
    Watch,
    core::{Draw, Event, Flow, Halt, Key, Problem, StopReason, Want, value::sample_completions},
};

use super::Bench;
use crate::{
    Error, Result,
    plan::Cell,
    row::{Branching, Row, Spread, Timing},
    stats::{mean, quantile},
};

fn timing(begun: Instant) -> Timing {
    Timing { search: vec![begun.elapsed().as_secs_f64()], judging: 0.0 }
}

/// Draws b children of every state of an ancestral trajectory in parallel and counts the distinct ones.
///
/// The trajectory itself is one plain sample: with nothing to prefer, the first child is followed. A
/// state without masks has no children to tell apart and is not counted.
pub fn branching(bench: &Bench<'_>, cell: &Cell) -> Result<Option<Row>> {
    let begun = Instant::now();
    let variant = &bench.plan.variants[cell.variant];
    let beam_width = variant.beam_width.unwrap_or(1);
    let mut distinct = vec![0; beam_width];
    let mut open = true;
    let mut watch = |event: &Event| {
        if let Event::Step(step) = event {
            if open && (1..=beam_width).contains(&step.distinct) {
                distinct[step.distinct - 1] += 1;
            }
            open = step.masks_left > 0;
        }
        ControlFlow::Continue(())
    };
    let asked = bench.asked(variant, None)?;
    let watch = Watch { events: Some(&mut watch), ..Watch::default() };
    let made = bench.sample(&asked, (cell.prompt, cell.continuation), watch)?;
    let branching = vec![Branching { beam_width, steps: variant.steps, distinct }];
    Ok(made.map(|_| Row { branching, ..bench.row(cell, timing(begun)) }))
}

/// Scores many sampled completions of the states along one first-hitting trajectory.
pub fn variation(bench: &Bench<'_>, cell: &Cell) -> Result<Option<Row>> {
    let begun = Instant::now();
    let plan = bench.plan;
    if cell.reward.is_none() {
        return Ok(Some(bench.row(cell, timing(begun))));
    }
    let asked = bench.asked(&plan.variants[cell.variant], cell.reward)?;
    let (key, prompt) = (plan.key(cell), &plan.prompts[cell.prompt]);
    let spreads = bench.session.pose(&asked, prompt, bench.cancel, |problem, _| {
        unless_stopped(spreads(problem, key, plan.every, plan.completions))
    })??;
    Ok(spreads.map(|variation| Row { variation, ..bench.row(cell, timing(begun)) }))
}

fn spreads(problem: &Problem<'_>, key: Key, every: usize, completions: usize) -> Flow<Vec<Spread>> {
    let mut all = Vec::new();
    let (mut state, mut time) = ((**problem.start()).clone(), 1.0);
    while state.n_masked() > 0 {
        let n = state.n_masked();
        let step = key.fold(n as u64);
        time = problem.schedule().next_event(n, time, step.fold(0).uniform());
        let encoded = problem.encode(&[(Arc::new(state.clone()), time)])?;
        let Some(encoded) = encoded.first() else { break };
        if n % every == 0 || n == problem.start().n_masked() || n == 1 {
            let texts = sample_completions(problem, encoded, step.fold(1), completions)?;
            let mut rewards = problem.score(&texts)?;
            rewards.sort_by(f64::total_cmp);
            all.push(spread(n, &rewards));
        }
        let Some(position) = state.masked().nth(step.fold(2).below(n)) else { break };
        let draws = [Draw { position, u: step.fold(3).uniform(), text: 0 }];
        let want = Want { draws: &draws, ..Want::default() };
        let answers = problem.read(&[(encoded, want)])?;
        let Some(&token) = answers.first().and_then(|answer| answer.draws.first()) else { break };
        state.reveal_in_place(position, token);
    }
    Ok(all)
}

fn spread(masks: usize, sorted: &[f64]) -> Spread {
    Spread {
        masks,
        min: sorted[0],
        q1: quantile(sorted, 0.25),
        median: quantile(sorted, 0.5),
        q3: quantile(sorted, 0.75),
        max: sorted[sorted.len() - 1],
        mean: mean(sorted.iter().copied()).unwrap_or_default(),
    }
}

/// What came of asking a problem by hand; nothing if it was interrupted.
pub(super) fn unless_stopped<T>(flow: Flow<T>) -> Result<Option<T>> {
    match flow {
        Ok(value) => Ok(Some(value)),
        Err(Halt::Fail(error)) => Err(error.into()),
        Err(Halt::Stop(StopReason::Cancelled)) => Ok(None),
        Err(Halt::Stop(reason)) => Err(Error::Invalid {
            what: "budget".into(),
            expected: "none in this experiment".into(),
            got: reason.to_string(),
        }),
    }
}
