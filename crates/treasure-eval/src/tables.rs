//! Summaries → CSV and Markdown.

use std::fmt::Write as _;

use crate::{
    metrics::{Summary, Test},
    stats::Estimate,
};

/// The columns of `main.csv`, which other programs lean on.
pub const COLUMNS: [&str; 20] = [
    "method",
    "beam_width",
    "tree_width",
    "particles",
    "reward",
    "n",
    "mean",
    "lo",
    "hi",
    "accuracy",
    "heldout",
    "ppl",
    "dist1",
    "dist2",
    "dist3",
    "nfe",
    "nfe_hits",
    "reward_calls",
    "reward_cache_hits",
    "seconds",
];

fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map(|value| format!("{value:.digits$}")).unwrap_or_default()
}

fn whole(value: Option<usize>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn mean_of(estimate: Option<Estimate>) -> Option<f64> {
    estimate.map(|estimate| estimate.mean)
}

/// One row per method × width × reward. `dist1…3` are the reference script's, which the paper reports;
/// `heldout` is the mean value of the held-out twin, in the reward's own unit. A method with several
/// unmasking groups says so in its name, since the columns have no room for it.
pub fn csv(summaries: &[Summary]) -> String {
    let mut out = COLUMNS.join(",") + "\n";
    for s in summaries {
        let [nfe, nfe_hits, calls, cache_hits] = s.cost;
        let [dist1, dist2, dist3] = s.dist_reference;
        let row = [
            field(&(s.settings.name.clone() + &groups(s))),
            whole(s.settings.beam_width),
            whole(s.settings.tree_width),
            whole(s.particles),
            field(&s.reward),
            s.mean.n.to_string(),
            number(Some(s.mean.mean), 4),
            number(Some(s.mean.lo), 4),
            number(Some(s.mean.hi), 4),
            number(mean_of(s.accuracy), 4),
            number(mean_of(s.heldout), 4),
            number(mean_of(s.ppl), 3),
            number(dist1, 4),
            number(dist2, 4),
            number(dist3, 4),
            number(Some(nfe), 1),
            number(Some(nfe_hits), 1),
            number(Some(calls), 1),
            number(Some(cache_hits), 1),
            number(Some(s.seconds), 3),
        ];
        out += &(row.join(",") + "\n");
    }
    out
}

/// What `main.csv` has no room for: variants, intervals of every judge, both kinds of Dist-n.
pub fn judges_csv(summaries: &[Summary]) -> String {
    let mut columns: Vec<String> =
        ["variant", "reward", "n", "groups", "value", "select", "sampler", "steps"]
            .map(String::from)
            .to_vec();
    for name in ["mean", "accuracy", "heldout", "heldout_accuracy", "ppl"] {
        columns.extend(["", "_lo", "_hi"].map(|end| format!("{name}{end}")));
    }
    columns.push("ppl_over_10000".into());
    columns.extend([1, 2, 3].map(|n| format!("dist{n}_reference")));
    columns.extend([1, 2, 3].map(|n| format!("dist{n}_usual")));
    let mut out = columns.join(",") + "\n";
    for s in summaries {
        let settings = &s.settings;
        let mut row = vec![
            settings.id.clone(),
            field(&s.reward),
            s.mean.n.to_string(),
            settings.groups.to_string(),
            settings.value.clone().unwrap_or_default(),
            settings.select.clone().unwrap_or_default(),
            settings.sampler.clone().unwrap_or_default(),
            settings.steps.to_string(),
        ];
        for estimate in [Some(s.mean), s.accuracy, s.heldout, s.heldout_accuracy, s.ppl] {
            let parts = [estimate.map(|e| e.mean), estimate.map(|e| e.lo), estimate.map(|e| e.hi)];
            row.extend(parts.map(|part| number(part, 4)));
        }
        row.push(s.ppl_over_limit.to_string());
        row.extend(s.dist_reference.map(|dist| number(dist, 4)));
        row.extend(s.dist_usual.map(|dist| number(dist, 4)));
        out += &(row.join(",") + "\n");
    }
    out
}

/// How a variant is called in a table: its name with its widths.
pub fn label(s: &Summary) -> String {
    let settings = &s.settings;
    let mut label = settings.name.clone();
    if let (Some(b), Some(m)) = (settings.beam_width, settings.tree_width) {
        let _ = write!(label, " ({b},{m})");
    } else if let Some(n) = s.particles {
        match label.contains("best of N") {
            true => label = label.replacen("best of N", &format!("best of {n}"), 1),
            false => _ = write!(label, " N={n}"),
        }
    }
    label + &groups(s)
}

/// The end of a name: how many unmasking groups there are, if not one.
fn groups(s: &Summary) -> String {
    match s.settings.groups {
        0 | 1 => String::new(),
        k => format!(" k={k}"),
    }
}

/// A cell with its interval; "–" where there is none.
pub fn interval(estimate: Option<Estimate>, scale: f64, digits: usize) -> String {
    match estimate {
        Some(e) => format!(
            "{:.digits$} [{:.digits$}, {:.digits$}]",
            scale * e.mean,
            scale * e.lo,
            scale * e.hi
        ),
        None => "–".into(),
    }
}

/// The header and the cells of the table of one reward.
pub fn table(reward: &str, summaries: &[Summary]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let header = vec![
        "method",
        "n",
        "mean reward [95 %]",
        "accuracy % [95 %]",
        "held-out mean [95 %]",
        "held-out accuracy %",
        "perplexity",
        "Dist-1/2/3 (reference)",
        "Dist-1/2/3 (usual)",
        "NFE",
        "+ hits",
        "reward calls",
        "+ hits",
        "seconds",
    ];
    let dist = |dist: [Option<f64>; 3]| {
        dist.map(|d| d.map_or("–".into(), |d| format!("{:.1}", 100.0 * d))).join(" / ")
    };
    let rows = summaries
        .iter()
        .filter(|s| s.reward == reward)
        .map(|s| {
            vec![
                label(s),
                s.mean.n.to_string(),
                interval(Some(s.mean), 1.0, 3),
                interval(s.accuracy, 100.0, 1),
                interval(s.heldout, 1.0, 3),
                interval(s.heldout_accuracy, 100.0, 1),
                s.ppl.map_or("–".into(), |e| format!("{:.2}", e.mean)),
                dist(s.dist_reference),
                dist(s.dist_usual),
                format!("{:.0}", s.cost[0]),
                format!("{:.0}", s.cost[1]),
                format!("{:.0}", s.cost[2]),
                format!("{:.0}", s.cost[3]),
                format!("{:.2}", s.seconds),
            ]
        })
        .collect();
    (header, rows)
}

/// The header and the cells of the paired tests.
pub fn test_table(tests: &[Test]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let header = vec![
        "reward",
        "a",
        "b",
        "a − b [95 %]",
        "p (sign flip)",
        "p (Holm)",
        "held-out a − b [95 %]",
        "held-out p",
        "prompts",
    ];
    let rows = tests
        .iter()
        .map(|test| {
            vec![
                test.reward.clone(),
                test.a.clone(),
                test.b.clone(),
                interval(Some(test.optimised.difference), 1.0, 3),
                format!("{:.4}", test.optimised.p),
                format!("{:.4}", test.adjusted_p),
                interval(test.heldout.map(|t| t.difference), 1.0, 3),
                test.heldout.map_or("–".into(), |t| format!("{:.4}", t.p)),
                test.optimised.prompts.to_string(),
            ]
        })
        .collect();
    (header, rows)
}

/// A Markdown table.
pub fn markdown(header: &[&str], rows: &[Vec<String>]) -> String {
    let escape = |cell: &str| cell.replace('|', "\\|").replace('\n', " ");
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = line(header.iter().map(|cell| escape(cell)).collect());
    out += &line(vec!["---".into(); header.len()]);
    rows.iter().for_each(|row| out += &line(row.iter().map(|cell| escape(cell)).collect()));
    out
}
