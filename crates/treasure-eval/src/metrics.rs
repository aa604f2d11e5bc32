//! Rows → one summary for each method × width × reward.

use std::collections::BTreeMap;

use treasure::{
    Reading, Request,
    core::{Cost, Key},
    rewards::metrics::{dist, dist_reference},
};

use crate::{
    config::PplOf,
    plan::{Plan, Variant},
    row::{Row, Sample},
    stats::{Clusters, Comparison, Estimate, against_pool, estimate, holm, mean, paired},
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

/// What a text cost on average.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    /// Sequences run through the denoiser.
    pub nfe: Estimate,
    /// Texts scored by the reward.
    pub reward_calls: Estimate,
    /// Texts scored by the cheap reward of a screen.
    pub proxy_calls: Estimate,
    /// Seconds.
    pub seconds: Estimate,
    /// Requests to the denoiser that were answered from memory.
    pub nfe_hits: f64,
    /// Requests to the reward that were answered from memory.
    pub reward_cache_hits: f64,
    /// Scores that a bound made needless.
    pub reward_skips: f64,
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
    /// The per-step width that the paper calls NFE.
    pub width: usize,
    /// Whether it is a sample of the model alone.
    pub unguided: bool,
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
    /// The generative perplexity: the mean of the continuations', or exp of the mean log of whole texts'.
    pub ppl: Option<Estimate>,
    /// Texts above the reference evaluator's limit, which it leaves out and we do not.
    pub ppl_over_limit: usize,
    /// The share of distinct bigrams within a text, in lower-cased words.
    pub distinct2: Estimate,
    /// Generated tokens before the end of text.
    pub length: Estimate,
    /// Dist-1, 2, 3 as the reference script computes them.
    pub dist_reference: [Option<f64>; 3],
    /// Dist-1, 2, 3 as usually defined.
    pub dist_usual: [Option<f64>; 3],
    /// What a text cost.
    pub spent: Spent,
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
    let settings = &plan.variants[variant];
    let values = |of: &dyn Fn(&Scored<'_>) -> Option<f64>| -> Vec<((usize, usize), f64)> {
        group.iter().filter_map(|s| Some(((s.prompt, s.continuation), of(s)?))).collect()
    };
    let estimated = |values: &[((usize, usize), f64)]| {
        estimate(&Clusters::group(values.iter().map(|&((prompt, _), x)| (prompt, x))), key)
    };
    let judged = |suffix: &str| values(&|s| s.score(plan, suffix));
    let every = |of: &dyn Fn(&Scored<'_>) -> f64| estimated(&values(&|s| Some(of(s))));
    let spent = |of: fn(&Cost) -> u64| every(&|s| of(&s.sample.cost) as f64);
    let average = |of: fn(&Cost) -> u64| spent(of).map(|e| e.mean).unwrap_or_default();
    // A share outside [0, 1] is no share.
    let share = |e: Option<Estimate>| e.map(|e| e.map(|x| x.clamp(0.0, 1.0)));
    let ppl = values(&|s| s.sample.scores.get("ppl").copied());
    let (rewards, heldout) = (judged(""), judged("/heldout"));
    let asked = plan.asked(settings, Some(reward)).ok()?;
    Some(Summary {
        variant,
        settings: settings.clone(),
        particles: group.iter().find_map(|s| s.sample.particles).or(settings.particles),
        width: asked.method.search().width(),
        unguided: plan.is_unguided(settings),
        reward: plan.rewards[reward].name.clone(),
        mean: estimated(&rewards)?,
        accuracy: share(estimated(&judged("/accuracy"))),
        heldout: estimated(&heldout),
        heldout_accuracy: share(estimated(&judged("/heldout-accuracy"))),
        ppl: match plan.ppl_of {
            PplOf::Continuation => estimated(&ppl),
            PplOf::Text => {
                let logs: Vec<_> = ppl.iter().map(|&(cell, ppl)| (cell, ppl.ln())).collect();
                estimated(&logs).map(|log| log.map(f64::exp))
            }
        },
        ppl_over_limit: ppl.iter().filter(|(_, ppl)| *ppl >= REFERENCE_PPL_LIMIT).count(),
        distinct2: share(every(&|s| {
            let text = format!("{}{}", plan.prompts[s.prompt], s.sample.continuation);
            dist(&[&text.to_lowercase()], 2).unwrap_or(1.0)
        }))?,
        length: every(&|s| s.sample.tokens.len() as f64)?,
        dist_reference: [1, 2, 3].map(|n| pooled(group, |texts| dist_reference(texts, n))),
        dist_usual: [1, 2, 3].map(|n| pooled(group, |texts| dist(texts, n))),
        spent: Spent {
            nfe: spent(|cost| cost.nfe)?,
            reward_calls: spent(|cost| cost.reward_calls)?,
            proxy_calls: spent(|cost| cost.proxy_calls)?,
            seconds: every(&|s| s.seconds)?,
            nfe_hits: average(|cost| cost.nfe_hits),
            reward_cache_hits: average(|cost| cost.reward_cache_hits),
            reward_skips: average(|cost| cost.reward_skips),
        },
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

/// Compares two variants: on the texts they share, or with all texts of the model alone.
pub fn compare(a: &Summary, b: &Summary, key: Key) -> Option<(Comparison, Option<Comparison>)> {
    let pick = |own: &[_], other: &[_], key| match b.unguided {
        true => against_pool(own, other, None, key),
        false => paired(own, other, key),
    };
    let optimised = pick(&a.values, &b.values, key)?;
    Some((optimised, pick(&a.heldout_values, &b.heldout_values, key.fold(1))))
}

/// Every variant against the first tree search of the plan.
pub fn tests(plan: &Plan, summaries: &[Summary]) -> Vec<Test> {
    let mut out: Vec<Test> = Vec::new();
    let Some(pivot) = plan.variants.iter().position(Variant::is_treasure) else { return out };
    for (index, reward) in plan.rewards.iter().enumerate() {
        let of_reward: Vec<&Summary> =
            summaries.iter().filter(|s| s.reward == reward.name).collect();
        let Some(a) = of_reward.iter().find(|s| s.variant == pivot) else { continue };
        let start = out.len();
        for b in of_reward.iter().filter(|s| s.variant != pivot) {
            let key = Key::new(plan.seed).fold(0x7e57).fold(index as u64).fold(b.variant as u64);
            let Some((optimised, heldout)) = compare(a, b, key) else { continue };
            out.push(Test {
                reward: reward.name.clone(),
                a: a.settings.id.clone(),
                b: b.settings.id.clone(),
                optimised,
                heldout,
                adjusted_p: 1.0,
            });
        }
        let p: Vec<_> = out[start..].iter().map(|test| test.optimised.p).collect();
        out[start..].iter_mut().zip(holm(&p)).for_each(|(test, p)| test.adjusted_p = p);
    }
    out
}

/// The number that no score of a judge exceeds, where that is worth aiming at.
pub fn ceiling(spec: &str) -> Option<f64> {
    let request = Request { reward: Some(spec.into()), ..Request::default() };
    match treasure::Plan::new(&request).ok()?.reading() {
        Reading::LogProbability => Some(0.0),
        Reading::Rule => Some(1.0),
        Reading::MeanLogLikelihood | Reading::Plain => None,
    }
}

/// Remarks that a reader must not miss: few prompts, accuracies near 0 everywhere, missing twins.
pub fn remarks(plan: &Plan, summaries: &[Summary]) -> Vec<String> {
    let mut out = Vec::new();
    let fewest = summaries.iter().map(|s| s.mean.prompts).min().unwrap_or(usize::MAX);
    if fewest < 10 {
        out.push(
            "Below ten prompts intervals are Student's over prompts, not bootstrapped.".into(),
        );
    }
    if summaries.iter().any(|s| s.mean.prompts != summaries[0].mean.prompts) {
        out.push(
            "†: on fewer prompts than the others of its table, so not to be read against them."
                .into(),
        );
    }
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
        if reward.spec == plan.ppl && of_reward().next().is_some() {
            out.push(format!(
                "{}: the column “perplexity” is by the scorer that was optimised.",
                reward.name
            ));
        }
    }
    out
}
