//! LLaDA's and Dream's samplers on the golden checkpoints, step by step against the references' choices.

use std::{fs, ops::ControlFlow};

use serde_json::Value;
use treasure_core::{
    Bans, Denoiser, Event, Guided, Key, Limits, MaskedSeq, Method, NoiseSchedule, Observer,
    Problem, Result, Reward, View, methods::Dream,
};
use treasure_models::{LoadOptions, MaskedLm};

use crate::support::*;

/// Nothing is liked.
struct Indifferent;

impl Reward for Indifferent {
    fn name(&self) -> &str {
        "indifferent"
    }

    fn score(&self, views: &[&View]) -> Result<Vec<f64>> {
        Ok(vec![0.0; views.len()])
    }
}

/// What every step placed.
#[derive(Default)]
struct Steps(Vec<Vec<usize>>);

impl Observer for Steps {
    fn observe(&mut self, event: &Event) -> ControlFlow<()> {
        if let Event::Node(node) = event
            && node.step.is_some()
        {
            let first = node.position.into_iter();
            self.0.push(first.chain(node.also.iter().map(|&(at, _)| at)).collect());
        }
        ControlFlow::Continue(())
    }
}

fn golden_samplers() -> Value {
    let file = golden("samplers.json");
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// The method of a case: its fields are the options, under the references' names.
fn method(case: &Value) -> Method {
    let name = if case["model"] == "dream" { "dream" } else { "llada" };
    let mut options = case.as_object().unwrap().clone();
    let others =
        ["model", "prompt", "length", "tokens", "placed", "gap", "seed", "ends", "cfg_scale"];
    options.retain(|field, _| !others.contains(&field.as_str()));
    Method::from_options(name, &Default::default(), &options).unwrap()
}

fn check(model: &MaskedLm, case: &Value) {
    let prompt = ids(&case["prompt"]);
    let length = case["length"].as_u64().unwrap() as usize;
    let start = MaskedSeq::with_prompt(&prompt, prompt.len() + length).unwrap();
    let scale = case["cfg_scale"].as_f64().unwrap_or(0.0);
    let guided = Guided::new(model, &start, scale);
    let denoiser: &dyn Denoiser = if scale > 0.0 { &guided } else { model };
    let schedule = NoiseSchedule::default();
    let ends = case.get("ends").map(ids).unwrap_or_default();
    let limits = Limits::default();
    let problem = Problem::new(start, &schedule, denoiser, &Indifferent, Bans::none(), limits);
    let problem = problem.unwrap().with_ends(&ends);
    let mut steps = Steps::default();
    let key = Key::new(case["seed"].as_u64().unwrap_or(0));
    let found = method(case).search().run(&problem, key, &mut steps).unwrap();
    let placed: Vec<Vec<usize>> = (case["placed"].as_array().unwrap().iter())
        .map(|step| ids(step).into_iter().map(|at| at as usize).collect())
        .collect();
    // A search ends with its last mask; the references go on for nothing.
    let (now, rest) = placed.split_at(steps.0.len());
    assert_eq!(steps.0, now, "{case}");
    assert!(rest.iter().all(Vec::is_empty), "{case}");
    assert_eq!(found.tokens[prompt.len()..], ids(&case["tokens"]), "{case}");
    // A step that places nothing costs nothing.
    let busy = placed.iter().filter(|step| !step.is_empty()).count() as u64;
    assert_eq!(found.cost.nfe, if scale > 0.0 { 2 * busy } else { busy }, "{case}");
}

#[test]
fn every_step_places_the_tokens_that_the_references_place() {
    for family in ["llada", "llada_gqa", "dream"] {
        let options = LoadOptions::default();
        let model = MaskedLm::load(&resolver(), &spec(&golden(family)), &options).unwrap();
        let all = golden_samplers();
        let own: Vec<&Value> = all["cases"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|case| case["model"] == family)
            .collect();
        assert!(own.len() >= 11, "{family} has only {} cases", own.len());
        own.into_iter().for_each(|case| check(&model, case));
    }
}

#[test]
fn dreams_shares_are_the_references_to_the_last_bit() {
    let all = golden_samplers();
    for (steps, shares) in all["shares"].as_object().unwrap() {
        let steps: usize = steps.parse().unwrap();
        let shares = shares.as_array().unwrap();
        assert_eq!(shares.len(), steps);
        for (step, share) in shares[..steps - 1].iter().enumerate() {
            let share = share.as_f64().unwrap() as f32;
            assert_eq!(Dream::default().share(step, steps), share, "step {step} of {steps}");
        }
    }
}
