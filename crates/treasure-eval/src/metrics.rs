//! Rows → one summary for each method × width × reward.

use std::collections::BTreeMap;

use treasure_core::Key;
use treasure_rewards::metrics::{dist, dist_reference};

use crate::{
    plan::{Plan, Variant},
    row::{Row, Sample, Work},
    stats::{Clusters, Comparison, Estimate, bootstrap, holm, mean, paired},
};

/// Reported perplexities above this are dropped by the reference evaluator; we count them instead.
const REFERENCE_PPL_LIMIT: f64 = 1e4;

/// One text as it counts for one reward.
#[derive(Clone, Copy, Debug)]
pub struct Scored<'a> {
    /// The variant's place in the plan.
    pub variant: usize,
    /// The reward's place in the plan.
    pub reward: usize,
    /// The prompt's place in the plan.
    pub prompt: usize,
    /// Which continuation.
    pub continuation: usize,
    /// The text and its scores.
    pub sample: &'a Sample,
    /// Seconds of search.
    pub seconds: f64,
}

impl Scored<'_> {
    fn score(&self, plan: &Plan, suffix: &str) -> Option<f64> {
        let name = &plan.rewards[self.reward].name;
        self.sample.scores.get(&format!("{name}{suffix}")).copied()
    }
}

/// All that is known about one method × width on one reward.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The variant's place in the plan.
    pub variant: usize,
    /// The variant.
    pub settings: Variant,
    /// N, where it depends on the reward.
    pub particles: Option<usize>,
    /// The reward's name.
    pub reward: String,
    /// The mean of the optimised reward (log p, or −NLL).
    pub mean: Estimate,
    /// The share of texts the judge decides for.
    pub accuracy: Option<Estimate>,
    /// The mean of the held-out twin's value.
    pub heldout: Option<Estimate>,
    /// The share of texts the twin decides for.
    pub heldout_accuracy: Option<Estimate>,
    /// The mean generative perplexity.
    pub ppl: Option<Estimate>,
    /// Texts above the reference evaluator's limit, which it leaves out and we do not.
    pub ppl_over_limit: usize,
    /// Dist-1, 2, 3 as the reference script computes them.
    pub dist_reference: [Option<f64>; 3],
    /// Dist-1, 2, 3 as usually defined.
    pub dist_usual: [Option<f64>; 3],
    /// Mean cost of a text.
    pub cost: [f64; 4],
    /// Mean seconds of a text.
    pub seconds: f64,
    /// The number for each (prompt, continuation), for paired tests.
    pub values: Vec<((usize, usize), f64)>,
    /// The held-out number for each (prompt, continuation).
    pub heldout_values: Vec<((usize, usize), f64)>,
}

/// Every text, counted for each reward it counts for.
pub fn scored<'a>(plan: &Plan, rows: &'a [Row]) -> Vec<Scored<'a>> {
    let variants: BTreeMap<&str, usize> =
        plan.variants.iter().enumerate().map(|(i, variant)| (variant.id.as_str(), i)).collect();
    let mut out = Vec::new();
    for row in rows {
        let Some(&variant) = variants.get(row.variant.as_str()) else { continue };
        for (index, sample) in row.samples.iter().enumerate() {
            for (reward, planned) in plan.rewards.iter().enumerate() {
                if sample.reward.as_ref().is_none_or(|name| *name == planned.name) {
                    let seconds = row.seconds(index);
                    let (prompt, continuation) = (row.prompt, row.continuation);
                    out.push(Scored { variant, reward, prompt, continuation, sample, seconds });
                }
            }
        }
    }
    out
}

/// Summaries in the plan's order: reward by reward, variant by variant.
pub fn summarise(plan: &Plan, rows: &[Row]) -> Vec<Summary> {
    let mut groups = BTreeMap::<(usize, usize), Vec<Scored<'_>>>::new();
    for scored in scored(plan, rows) {
        groups.entry((scored.reward, scored.variant)).or_default().push(scored);
    }
    groups
        .into_iter()
        .filter_map(|((reward, variant), group)| summary(plan, reward, variant, &group))
        .collect()
}

fn summary(plan: &Plan, reward: usize, variant: usize, group: &[Scored<'_>]) -> Option<Summary> {
    let key = Key::new(plan.seed).fold(0xb007).fold(reward as u64).fold(variant as u64);
    let values = |suffix: &str| -> Vec<((usize, usize), f64)> {
        let value = |s: &Scored<'_>| Some(((s.prompt, s.continuation), s.score(plan, suffix)?));
        group.iter().filter_map(value).collect()
    };
    let estimate = |values: &[((usize, usize), f64)]| {
        bootstrap(&Clusters::group(values.iter().map(|&((prompt, _), x)| (prompt, x))), key)
    };
    let ppl: Vec<_> = group
        .iter()
        .filter_map(|s| Some(((s.prompt, s.continuation), *s.sample.scores.get("ppl")?)))
        .collect();
    let (rewards, heldout) = (values(""), values("/heldout"));
    let average = |of: fn(&Work) -> u64| {
        mean(group.iter().map(|s| of(&s.sample.cost) as f64)).unwrap_or_default()
    };
    Some(Summary {
        variant,
        settings: plan.variants[variant].clone(),
        particles: group
            .iter()
            .find_map(|s| s.sample.particles)
            .or(plan.variants[variant].particles),
        reward: plan.rewards[reward].name.clone(),
        mean: estimate(&rewards)?,
        accuracy: estimate(&values("/accuracy")),
        heldout: estimate(&heldout),
        heldout_accuracy: estimate(&values("/heldout-accuracy")),
        ppl: estimate(&ppl),
        ppl_over_limit: ppl.iter().filter(|(_, ppl)| *ppl >= REFERENCE_PPL_LIMIT).count(),
        dist_reference: [1, 2, 3].map(|n| pooled(group, |texts| dist_reference(texts, n))),
        dist_usual: [1, 2, 3].map(|n| pooled(group, |texts| dist(texts, n))),
        cost: [
            average(|work| work.nfe),
            average(|work| work.nfe_hits),
            average(|work| work.reward_calls),
            average(|work| work.reward_cache_hits),
        ],
        seconds: mean(group.iter().map(|s| s.seconds)).unwrap_or_default(),
        values: rewards,
        heldout_values: heldout,
    })
}

/// A measure over the continuations of each prompt, averaged over prompts.
fn pooled(group: &[Scored<'_>], measure: impl Fn(&[&str]) -> Option<f64>) -> Option<f64> {
    let mut by_prompt = BTreeMap::<usize, Vec<&str>>::new();
    for scored in group {
        by_prompt.entry(scored.prompt).or_default().push(&scored.sample.continuation);
    }
    mean(by_prompt.values().filter_map(|texts| measure(texts)))
}

/// The names of methods among some summaries, each once, in order.
pub fn names<'a>(summaries: &[&'a Summary]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for summary in summaries {
        if !names.contains(&summary.settings.name.as_str()) {
            names.push(&summary.settings.name);
        }
    }
    names
}

/// One paired test.
#[derive(Clone, Debug)]
pub struct Test {
    /// The reward.
    pub reward: String,
    /// The variant tested.
    pub a: String,
    /// The variant it is tested against.
    pub b: String,
    /// The difference a − b of the optimised reward.
    pub optimised: Comparison,
    /// The difference of the held-out judge's value.
    pub heldout: Option<Comparison>,
    /// The p-value after Holm's correction over all tests of the reward.
    pub adjusted_p: f64,
}

/// Every variant against the first tree search of the plan (or the last variant if there is none),
/// and the first tree search against the widest of each baseline.
pub fn tests(plan: &Plan, summaries: &[Summary]) -> Vec<Test> {
    let mut out = Vec::new();
    let Some(pivot) = plan.variants.iter().position(|v| v.method == "treasure") else { return out };
    for (index, reward) in plan.rewards.iter().enumerate() {
        let of_reward: Vec<&Summary> =
            summaries.iter().filter(|s| s.reward == reward.name).collect();
        let Some(a) = of_reward.iter().find(|s| s.variant == pivot) else { continue };
        let start = out.len();
        for b in of_reward.iter().filter(|s| s.variant != pivot) {
            let key = Key::new(plan.seed).fold(0x7e57).fold(index as u64).fold(b.variant as u64);
            let Some(optimised) = paired(&a.values, &b.values, key) else { continue };
            out.push(Test {
                reward: reward.name.clone(),
                a: a.settings.id.clone(),
                b: b.settings.id.clone(),
                optimised,
                heldout: paired(&a.heldout_values, &b.heldout_values, key.fold(1)),
                adjusted_p: 1.0,
            });
        }
        let p: Vec<f64> = out[start..].iter().map(|test| test.optimised.p).collect();
        out[start..].iter_mut().zip(holm(&p)).for_each(|(test, p)| test.adjusted_p = p);
    }
    out
}

/// Remarks that a reader must not miss: accuracies near 0 everywhere, missing twins.
pub fn remarks(plan: &Plan, summaries: &[Summary]) -> Vec<String> {
    let mut out = Vec::new();
    for reward in &plan.rewards {
        let of_reward = || summaries.iter().filter(|s| s.reward == reward.name);
        let best = of_reward()
            .filter_map(|s| s.accuracy)
            .map(|a| a.mean)
            .fold(None, |best, a| Some(f64::max(best.unwrap_or(0.0), a)));
        if let Some(best) = best.filter(|best| *best < 0.05) {
            out.push(format!(
                "{}: accuracy stays near 0 for every method (highest {:.1} %); compare the log-probabilities.",
                reward.name,
                100.0 * best
            ));
        }
        if reward.heldout.is_none() && of_reward().next().is_some() {
            out.push(format!(
                "{}: no held-out judge, so no gain on it is confirmed by a second opinion.",
                reward.name
            ));
        }
    }
    out
}
