//! The cells of the two motivating figures: effective branches and reward variation.

use std::{ops::ControlFlow, sync::Arc, time::Instant};

use treasure_core::{Draw, Event, Flow, Halt, NoiseSchedule, Want, value::sample_completions};

use super::{
    method::method,
    world::{Indifferent, World},
};
use crate::{
    Error, Result,
    plan::{Cell, Plan},
    row::{Branching, Row, Spread, Timing},
    stats::{mean, quantile},
};

fn row(plan: &Plan, cell: &Cell, plan_id: &str, begun: Instant) -> Row {
    Row {
        id: cell.id.clone(),
        plan: plan_id.into(),
        variant: plan.variants[cell.variant].id.clone(),
        prompt: cell.prompt,
        continuation: cell.continuation,
        samples: Vec::new(),
        branching: Vec::new(),
        variation: Vec::new(),
        timing: Some(Timing { search: vec![begun.elapsed().as_secs_f64()], judging: 0.0 }),
    }
}

/// Draws b children of every state of an ancestral trajectory in parallel and counts the distinct ones.
///
/// The trajectory itself is one plain sample: with nothing to prefer, the first child is followed.
pub fn branching(world: &dyn World, plan: &Plan, cell: &Cell, plan_id: &str) -> Result<Row> {
    let begun = Instant::now();
    let variant = &plan.variants[cell.variant];
    let beam_width = variant.beam_width.unwrap_or(1);
    let start = world.start(plan, &plan.prompts[cell.prompt])?;
    let schedule = NoiseSchedule::default();
    let problem = world.problem(&start, &schedule, &Indifferent)?;
    let mut distinct = vec![0; beam_width];
    let mut watch = |event: &Event| {
        if let Event::Step(step) = event
            && (1..=beam_width).contains(&step.distinct)
        {
            distinct[step.distinct - 1] += 1;
        }
        ControlFlow::Continue(())
    };
    method(variant, plan.protocol, None)?.run(&problem, plan.key(cell), &mut watch)?;
    let branching = vec![Branching { beam_width, steps: variant.steps, distinct }];
    Ok(Row { branching, ..row(plan, cell, plan_id, begun) })
}

/// Scores many sampled completions of the states along one first-hitting trajectory.
pub fn variation(world: &dyn World, plan: &Plan, cell: &Cell, plan_id: &str) -> Result<Row> {
    let begun = Instant::now();
    let key = plan.key(cell);
    let start = world.start(plan, &plan.prompts[cell.prompt])?;
    let mut all = Vec::new();
    if let Some(index) = cell.reward {
        let reward = &plan.rewards[index];
        let scorer = world.reward(&reward.spec, &start)?;
        let schedule = NoiseSchedule::default();
        let problem = world.problem(&start, &schedule, &*scorer)?;
        let (mut state, mut time) = (start.state.clone(), 1.0);
        while state.n_masked() > 0 {
            let n = state.n_masked();
            let step = key.fold(n as u64);
            time = problem.schedule().next_event(n, time, step.fold(0).uniform());
            let encoded = flow(problem.encode(&[(Arc::new(state.clone()), time)]))?;
            let Some(encoded) = encoded.first() else { break };
            if n % plan.every == 0 || n == start.state.n_masked() || n == 1 {
                let texts = sample_completions(&problem, encoded, step.fold(1), plan.completions)?;
                let mut rewards = flow(problem.score(&texts))?;
                rewards.sort_by(f64::total_cmp);
                all.push(spread(n, &rewards));
            }
            let position = state.masked().nth(step.fold(2).below(n));
            let position = position.expect("the n-th of n masks exists");
            let draws = [Draw { position, u: step.fold(3).uniform(), text: 0 }];
            let want = Want { draws: &draws, ..Want::default() };
            let answers = problem.read(&[(encoded, want)])?;
            let Some(&token) = answers.first().and_then(|answer| answer.draws.first()) else {
                break;
            };
            state.reveal_in_place(position, token);
        }
    }
    Ok(Row { variation: all, ..row(plan, cell, plan_id, begun) })
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

fn flow<T>(flow: Flow<T>) -> Result<T> {
    flow.map_err(|halt| match halt {
        Halt::Fail(error) => error.into(),
        Halt::Stop(reason) => Error::Invalid {
            what: "budget".into(),
            expected: "none in this experiment".into(),
            got: reason.to_string(),
        },
    })
}
