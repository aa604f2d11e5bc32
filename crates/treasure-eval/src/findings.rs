//! Summaries → the questions a reader comes with, each answered by one small table.
//!
//! Every number is a difference on texts that both sides have: same prompt, same continuation, same key.

use std::cmp::Ordering;

use treasure::core::Key;

use crate::{
    metrics::{Summary, Test, ceiling, compare, names},
    plan::Plan,
    stats::{Comparison, against_pool, holm},
    tables::{TOO_FEW, interval, label, p_value},
};

/// One question and its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The question.
    pub title: &'static str,
    /// How to read the numbers.
    pub note: &'static str,
    /// The columns.
    pub header: Vec<&'static str>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
}

/// What a run's numbers say; questions it has no rows for are left out.
pub fn findings(plan: &Plan, summaries: &[Summary], tests: &[Test]) -> Vec<Finding> {
    let all = [
        against_rivals(plan, summaries, tests),
        by_width(plan, summaries),
        held_out(plan, summaries),
    ];
    all.into_iter().filter(|finding| !finding.rows.is_empty()).collect()
}

/// The result of each reward in one sentence: what the first tree search earns, how a held-out judge and a
/// language model see its texts, and what it cost; each figure beside those of its rivals. Nothing for
/// runs without a search.
pub fn headlines(plan: &Plan, summaries: &[Summary]) -> Vec<(String, String)> {
    let sentence = |(reward, own): (&str, Vec<&Summary>)| {
        let pivot = pivot(&own)?;
        // Two rivals: a sentence holds no more.
        let guided = compared_with(&own, pivot).filter(|s| !s.unguided);
        let others: Vec<&Summary> = guided.take(2).collect();
        let beside = |of: &dyn Fn(&Summary) -> Option<String>| {
            let said = |s: &&Summary| of(s).map(|number| format!("{} {number}", label(s)));
            let all: Vec<_> = others.iter().filter_map(said).collect();
            if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
        };
        let mean = |s: &Summary| Some(signed(s.mean.mean));
        let mut out = format!(
            "{} earns {} on average{}",
            label(pivot),
            interval(Some(pivot.mean), 1.0, 2).replace('-', "−"),
            beside(&mean)
        );
        if let Some(heldout) = pivot.heldout {
            let twin = |s: &Summary| s.heldout.map(|heldout| signed(heldout.mean));
            out += &format!("; the held-out judge says {}{}", signed(heldout.mean), beside(&twin));
        }
        if let Some(ppl) = pivot.ppl {
            let fluency = |s: &Summary| s.ppl.map(|ppl| format!("{:.0}", ppl.mean));
            out += &format!("; perplexity is {:.0}{}", ppl.mean, beside(&fluency));
        }
        let cost = |s: &Summary| {
            let spent = &s.spent;
            Some(format!("{:.0} and {:.0}", spent.nfe.mean, spent.reward_calls.mean))
        };
        let own = cost(pivot).unwrap_or_default();
        out += &format!("; model and reward calls a text: {own}{}.", beside(&cost));
        Some((reward.to_owned(), out))
    };
    by_reward(plan, summaries).filter_map(sentence).collect()
}

/// A number with a sign that is read as one.
fn signed(number: f64) -> String {
    let text = format!("{number:.2}");
    if text == "-0.00" { "0.00".into() } else { text.replace('-', "−") }
}

/// What is to be read beside a search: its rivals, three at most, other methods before other settings of
/// its own, and the model alone.
pub(crate) fn compared_with<'a>(
    own: &'a [&'a Summary],
    pivot: &'a Summary,
) -> impl Iterator<Item = &'a Summary> {
    let guided = names(own).into_iter().filter_map(|name| rival(own, name, pivot));
    let guided = guided.filter(|s| !s.unguided && s.settings.name != pivot.settings.name);
    let mut guided: Vec<&Summary> = guided.collect();
    guided.sort_by_key(|s| s.settings.method == pivot.settings.method);
    let alone = own.iter().find(|s| s.unguided).copied();
    guided.into_iter().take(3).chain(alone)
}

/// The summaries of each reward that has any, in the plan's order.
pub(crate) fn by_reward<'a>(
    plan: &'a Plan,
    summaries: &'a [Summary],
) -> impl Iterator<Item = (&'a str, Vec<&'a Summary>)> {
    plan.rewards.iter().map(|reward| {
        let own = summaries.iter().filter(|s| s.reward == reward.name).collect();
        (reward.name.as_str(), own)
    })
}

/// The first search that all tests are about.
pub(crate) fn pivot<'a>(own: &[&'a Summary]) -> Option<&'a Summary> {
    own.iter().find(|s| s.settings.is_treasure()).copied()
}

/// Of the variants with a name, the one at the same (b, m), or else the widest.
fn rival<'a>(own: &[&'a Summary], name: &str, pivot: &Summary) -> Option<&'a Summary> {
    let widths = |s: &Summary| (s.settings.beam_width, s.settings.tree_width);
    let named = || own.iter().filter(|s| s.settings.name == name).copied();
    named().find(|s| widths(s) == widths(pivot)).or_else(|| named().max_by_key(|s| s.width))
}

fn ratio(a: f64, b: f64) -> String {
    match a / b {
        ratio if b <= 0.0 || !ratio.is_finite() => "–".into(),
        ratio if ratio < 0.1 => format!("{ratio:.4}"),
        ratio => format!("{ratio:.2}"),
    }
}

fn against_rivals(plan: &Plan, summaries: &[Summary], tests: &[Test]) -> Finding {
    let mut rows = Vec::new();
    for (reward, own) in by_reward(plan, summaries) {
        let Some(pivot) = pivot(&own) else { continue };
        for name in names(&own).into_iter().filter(|name| *name != pivot.settings.name) {
            let Some(other) = rival(&own, name, pivot) else { continue };
            let test = tests.iter().find(|test| {
                test.reward == reward && test.a == pivot.settings.id && test.b == other.settings.id
            });
            let Some(test) = test else { continue };
            rows.push(vec![
                reward.to_owned(),
                label(pivot),
                label(other),
                interval(Some(test.optimised.difference), 1.0, 3),
                p_value(&test.optimised, test.adjusted_p),
                interval(test.heldout.map(|test| test.difference), 1.0, 3),
                ratio(pivot.spent.nfe.mean, other.spent.nfe.mean),
                ratio(pivot.spent.reward_calls.mean, other.spent.reward_calls.mean),
                ratio(pivot.spent.seconds.mean, other.spent.seconds.mean),
            ]);
        }
    }
    Finding {
        title: "Is the narrowest tree search better than its rivals, and at which cost?",
        note: "Difference of the mean reward, first minus second, then its cost as a share of the rival's. \
               p is adjusted for all tests of the reward; intervals are not.",
        header: vec![
            "reward",
            "tree search",
            "rival",
            "difference [95 %]",
            "p (Holm)",
            "on the held-out judge [95 %]",
            "NFE ÷ rival's",
            "reward calls ÷ rival's",
            "seconds ÷ rival's",
        ],
        rows,
    }
}

fn by_width(plan: &Plan, summaries: &[Summary]) -> Finding {
    let mut rows = Vec::new();
    for (reward, own) in by_reward(plan, summaries) {
        let mut found = Vec::new();
        for name in names(&own) {
            let mut named: Vec<_> = own.iter().filter(|s| s.settings.name == name).collect();
            // A config may list its widths in any order.
            named.sort_by(|a, b| {
                let cost = |s: &Summary| (s.spent.nfe.mean, s.spent.reward_calls.mean);
                cost(a).partial_cmp(&cost(b)).unwrap_or(Ordering::Equal)
            });
            for pair in named.windows(2) {
                let key = Key::new(plan.seed).fold(0x51de).fold(pair[1].variant as u64);
                let (from, to) = (pair[0], pair[1]);
                found.extend(compare(to, from, key).map(|compared| (from, to, compared)));
            }
        }
        let p: Vec<_> = found.iter().map(|(_, _, (optimised, _))| optimised.p).collect();
        for ((from, to, (optimised, heldout)), p) in found.into_iter().zip(holm(&p)) {
            rows.push(vec![
                reward.to_owned(),
                label(from),
                label(to),
                interval(Some(optimised.difference), 1.0, 3),
                p_value(&optimised, p),
                interval(heldout.map(|test| test.difference), 1.0, 3),
                optimised.difference.n.to_string(),
            ]);
        }
    }
    Finding {
        title: "Does the reward rise with the width?",
        note: "Difference of the mean reward from each row to the next, on the texts that both have. p is adjusted \
               for all rows of the reward; an interval without 0 beside a large p is not sure.",
        header: vec![
            "reward",
            "from",
            "to",
            "difference [95 %]",
            "p (Holm)",
            "on the held-out judge [95 %]",
            "texts",
        ],
        rows,
    }
}

fn held_out(plan: &Plan, summaries: &[Summary]) -> Finding {
    let mut rows = Vec::new();
    for ((reward, own), planned) in by_reward(plan, summaries).zip(&plan.rewards) {
        let Some(base) = own.iter().find(|s| s.unguided) else { continue };
        let highest = ceiling(&planned.spec);
        let twins_highest = planned.heldout.as_deref().and_then(ceiling);
        for other in own.iter().filter(|s| s.variant != base.variant && s.heldout.is_some()) {
            let key = Key::new(plan.seed).fold(0x9e1d).fold(other.variant as u64);
            let (Some(judge), Some(twin)) = (
                against_pool(&other.values, &base.values, highest, key),
                against_pool(
                    &other.heldout_values,
                    &base.heldout_values,
                    twins_highest,
                    key.fold(1),
                ),
            ) else {
                continue;
            };
            let percent = |of: Option<crate::stats::Estimate>| {
                of.map_or("–".into(), |e| format!("{:.1}", 100.0 * e.mean))
            };
            rows.push(vec![
                reward.to_owned(),
                label(other),
                interval(Some(judge.difference), 1.0, 3),
                attained(&judge),
                interval(Some(twin.difference), 1.0, 3),
                attained(&twin),
                percent(other.accuracy),
                percent(other.heldout_accuracy),
                other.ppl.map_or("–".into(), |e| format!("{:.1}", e.mean)),
            ]);
        }
    }
    Finding {
        title: "How much of what could be gained does a held-out judge see?",
        note: "Gains over all texts of the denoiser alone on the same prompts, and the share of what was \
               attainable: gain ÷ (highest score − score of the denoiser alone), for each judge by its own scale. \
               The held-out judge never guided a search; a gain that it does not see, or a perplexity that \
               explodes, is a weakness of the judge being found, not a better text.",
        header: vec![
            "reward",
            "method",
            "gain [95 %]",
            "of the attainable % [95 %]",
            "held-out gain [95 %]",
            "of the attainable % [95 %]",
            "accuracy %",
            "held-out accuracy %",
            "perplexity",
        ],
        rows,
    }
}

/// The share of the attainable; only a gain that is there has one.
fn attained(gain: &Comparison) -> String {
    match (gain.difference.interval, gain.share) {
        (_, None) => "–".into(),
        (None, _) => format!("– {TOO_FEW}"),
        (Some((low, _)), _) if low <= 0.0 => "not sure".into(),
        (_, share) => interval(share, 100.0, 0),
    }
}
