//! Summaries → CSV and Markdown.

use std::fmt::Write as _;

use crate::{
    Error, Result,
    metrics::{Summary, Test},
    stats::{Comparison, Estimate, FEWEST_FOR_P},
};

/// Where prompts are too few to say more.
pub const TOO_FEW: &str = "(too few prompts)";

/// The columns of `main.csv`, which other programs lean on: new ones come at the end.
pub const COLUMNS: &str = "method,beam_width,tree_width,particles,reward,n,mean,lo,hi,accuracy,heldout,ppl,\
    dist1,dist2,dist3,nfe,nfe_hits,reward_calls,reward_cache_hits,seconds,\
    prompts,distinct2,length,proxy_calls,reward_skips";

fn number(value: Option<f64>, digits: usize) -> String {
    value.map(|value| format!("{value:.digits$}")).unwrap_or_default()
}

fn whole(value: Option<usize>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn mean_of(estimate: Option<Estimate>) -> Option<f64> {
    estimate.map(|estimate| estimate.mean)
}

/// A mean and the ends of its interval.
fn ends(estimate: Option<Estimate>) -> [Option<f64>; 3] {
    let interval = estimate.and_then(|estimate| estimate.interval);
    [mean_of(estimate), interval.map(|(low, _)| low), interval.map(|(_, high)| high)]
}

fn write_csv(rows: impl IntoIterator<Item = Vec<String>>) -> Result<String> {
    let failed = |message: String| Error::Figure { name: "CSV".into(), message };
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(&row).map_err(|error| failed(error.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|error| failed(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| failed(error.to_string()))
}

/// One row per method × width × reward. `dist1…3` are the reference script's, which the paper reports;
/// `heldout` is the mean value of the held-out twin, in the reward's own unit. A method with several
/// unmasking groups says so in its name, since the columns have no room for it.
pub fn csv(summaries: &[Summary]) -> Result<String> {
    let rows = summaries.iter().map(|s| {
        let mut row = vec![
            s.settings.name.clone() + &groups(s),
            whole(s.settings.beam_width),
            whole(s.settings.tree_width),
            whole(s.particles),
            s.reward.clone(),
            s.mean.n.to_string(),
        ];
        row.extend(ends(Some(s.mean)).map(|part| number(part, 4)));
        row.extend([s.accuracy, s.heldout].map(|part| number(mean_of(part), 4)));
        row.push(number(mean_of(s.ppl), 3));
        row.extend(s.dist_reference.map(|dist| number(dist, 4)));
        let spent = &s.spent;
        let costs =
            [spent.nfe.mean, spent.nfe_hits, spent.reward_calls.mean, spent.reward_cache_hits];
        row.extend(costs.map(|cost| number(Some(cost), 1)));
        row.push(number(Some(spent.seconds.mean), 3));
        row.push(s.mean.prompts.to_string());
        row.push(number(Some(s.distinct2.mean), 4));
        let rest = [s.length.mean, spent.proxy_calls.mean, spent.reward_skips];
        row.extend(rest.map(|cost| number(Some(cost), 1)));
        row
    });
    write_csv([COLUMNS.split(',').map(String::from).collect()].into_iter().chain(rows))
}

/// What `main.csv` has no room for: variants, every interval, both kinds of Dist-n.
pub fn judges_csv(summaries: &[Summary]) -> Result<String> {
    let mut columns: Vec<String> =
        ["variant", "reward", "n", "groups", "value", "select", "sampler", "steps"]
            .map(String::from)
            .to_vec();
    let with_ends = |columns: &mut Vec<String>, names: &[&str]| {
        let three = |name: &&str| ["", "_lo", "_hi"].map(|end| format!("{name}{end}"));
        columns.extend(names.iter().flat_map(three));
    };
    with_ends(&mut columns, &["mean", "accuracy", "heldout", "heldout_accuracy", "ppl"]);
    columns.push("ppl_over_10000".into());
    columns.extend([1, 2, 3].map(|n| format!("dist{n}_reference")));
    columns.extend([1, 2, 3].map(|n| format!("dist{n}_usual")));
    with_ends(
        &mut columns,
        &["distinct2", "length", "nfe", "reward_calls", "proxy_calls", "seconds"],
    );
    let rows = summaries.iter().map(|s| {
        let settings = &s.settings;
        let mut row = vec![
            settings.id.clone(),
            s.reward.clone(),
            s.mean.n.to_string(),
            settings.groups.to_string(),
            settings.value.clone().unwrap_or_default(),
            settings.select.clone().unwrap_or_default(),
            settings.sampler.clone().unwrap_or_default(),
            settings.steps.to_string(),
        ];
        let three = |row: &mut Vec<String>, estimate: Option<Estimate>| {
            row.extend(ends(estimate).map(|part| number(part, 4)));
        };
        for estimate in [Some(s.mean), s.accuracy, s.heldout, s.heldout_accuracy, s.ppl] {
            three(&mut row, estimate);
        }
        row.push(s.ppl_over_limit.to_string());
        row.extend(s.dist_reference.map(|dist| number(dist, 4)));
        row.extend(s.dist_usual.map(|dist| number(dist, 4)));
        let spent = &s.spent;
        let calls = [spent.nfe, spent.reward_calls, spent.proxy_calls, spent.seconds];
        for estimate in [s.distinct2, s.length].into_iter().chain(calls) {
            three(&mut row, Some(estimate));
        }
        row
    });
    write_csv([columns].into_iter().chain(rows))
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
    label + &groups(s) + &others(s)
}

/// The end of a name: every other setting that a config gave.
fn others(s: &Summary) -> String {
    let shown = |value: &serde_json::Value| value.as_str().map_or(value.to_string(), str::to_owned);
    let all: Vec<String> =
        s.settings.options.iter().map(|(key, value)| format!("{key} {}", shown(value))).collect();
    if all.is_empty() { String::new() } else { format!(", {}", all.join(", ")) }
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
    let Some(e) = estimate else { return "–".into() };
    // Adding zero turns a minus zero into a plain one.
    let shown = |x: f64| {
        let text = format!("{:.digits$}", scale * x);
        if text.trim_start_matches(['-', '0', '.']).is_empty() {
            text.replace('-', "")
        } else {
            text
        }
    };
    match e.interval {
        Some((low, high)) => format!("{} [{}, {}]", shown(e.mean), shown(low), shown(high)),
        None => format!("{} {TOO_FEW}", shown(e.mean)),
    }
}

/// A count with its interval, where it varies.
fn count(estimate: Estimate, digits: usize) -> String {
    let mean = format!("{:.digits$}", estimate.mean);
    match estimate.interval.map(|(low, high)| [low, high].map(|x| format!("{x:.digits$}"))) {
        Some(ends) if ends.iter().any(|end| *end != mean) => {
            format!("{mean} [{}]", ends.join(", "))
        }
        _ => mean,
    }
}

/// A p-value of a comparison, adjusted or not; where prompts are too few for a small one, that is said.
pub fn p_value(of: &Comparison, p: f64) -> String {
    match of.difference.prompts < FEWEST_FOR_P {
        true => format!("– {TOO_FEW}"),
        false => format!("{p:.4}"),
    }
}

/// "†" where a row is on fewer prompts than the others of its table.
pub fn mark(s: &Summary, of_reward: &[&Summary]) -> &'static str {
    let most = of_reward.iter().map(|other| other.mean.prompts).max();
    if most.is_some_and(|most| s.mean.prompts < most) { " †" } else { "" }
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
        "perplexity [95 %]",
        "distinct-2 % [95 %]",
        "tokens",
        "Dist-1/2/3 (reference)",
        "Dist-1/2/3 (usual)",
        "NFE",
        "+ hits",
        "reward calls",
        "+ hits",
        "screen calls",
        "seconds",
    ];
    let dist = |dist: [Option<f64>; 3]| {
        dist.map(|d| d.map_or("–".into(), |d| format!("{:.1}", 100.0 * d))).join(" / ")
    };
    let own: Vec<&Summary> = summaries.iter().filter(|s| s.reward == reward).collect();
    let rows = own.iter().map(|s| {
        vec![
            label(s),
            format!("{}{}", s.mean.n, mark(s, &own)),
            interval(Some(s.mean), 1.0, 3),
            interval(s.accuracy, 100.0, 1),
            interval(s.heldout, 1.0, 3),
            interval(s.heldout_accuracy, 100.0, 1),
            interval(s.ppl, 1.0, 2),
            interval(Some(s.distinct2), 100.0, 1),
            count(s.length, 1),
            dist(s.dist_reference),
            dist(s.dist_usual),
            count(s.spent.nfe, 0),
            format!("{:.0}", s.spent.nfe_hits),
            count(s.spent.reward_calls, 0),
            format!("{:.0}", s.spent.reward_cache_hits),
            count(s.spent.proxy_calls, 0),
            count(s.spent.seconds, 2),
        ]
    });
    (header, rows.collect())
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
                p_value(&test.optimised, test.optimised.p),
                p_value(&test.optimised, test.adjusted_p),
                interval(test.heldout.map(|t| t.difference), 1.0, 3),
                test.heldout.map_or("–".into(), |t| p_value(&t, t.p)),
                test.optimised.difference.prompts.to_string(),
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
