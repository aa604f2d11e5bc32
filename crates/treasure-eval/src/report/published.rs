//! The paper's numbers beside ours.
//!
//! They are on other models and judges, so they are not comparable as numbers; what can be compared is
//! the order of methods and the shape against width.

use super::Table;
use crate::{metrics::Summary, plan::Plan, tables};

/// A published row: what it is, the per-step width the paper calls NFE, and CoLA %, toxicity %,
/// sentiment % and perplexity.
struct Published {
    /// The method as our tables name it.
    name: &'static str,
    width: usize,
    groups: usize,
    numbers: [f64; 4],
}

const fn row(name: &'static str, width: usize, numbers: [f64; 4]) -> Published {
    Published { name, width, groups: 1, numbers }
}

/// Table 1 of the paper.
const MAIN: [Published; 16] = [
    row("base", 1, [25.56, 0.89, 12.44, 80.58]),
    row("best of N", 2, [43.16, 0.70, 22.11, 70.58]),
    row("best of N", 4, [63.57, 2.44, 32.89, 55.47]),
    row("best of N", 6, [65.96, 2.57, 45.50, 52.23]),
    row("best of N", 8, [73.11, 6.67, 48.44, 47.91]),
    row("best of N", 16, [77.56, 11.11, 65.56, 42.46]),
    row("FK steering", 2, [45.96, 1.05, 20.00, 66.79]),
    row("FK steering", 4, [66.62, 1.56, 36.33, 56.36]),
    row("FK steering", 6, [69.82, 3.16, 41.05, 50.16]),
    row("FK steering", 8, [72.67, 4.00, 49.33, 46.60]),
    row("FK steering", 16, [76.44, 9.67, 61.33, 41.56]),
    row("TReASURe", 2, [77.67, 64.00, 98.67, 15.37]),
    row("TReASURe", 4, [84.22, 93.33, 98.90, 9.22]),
    row("TReASURe", 6, [89.19, 96.60, 99.11, 7.60]),
    row("TReASURe", 8, [93.33, 100.00, 100.00, 6.60]),
    row("TReASURe", 16, [98.35, 100.00, 100.00, 5.11]),
];

/// Table 2. The paper counts the posterior's width as b·m; here it is m.
const VALUES: [Published; 9] = [
    row("TReASURe", 2, [77.67, 64.00, 98.67, 15.37]),
    row("TReASURe", 4, [84.22, 93.33, 98.90, 9.22]),
    row("TReASURe", 6, [89.19, 96.60, 99.11, 7.60]),
    row("previous step", 2, [45.01, 26.67, 93.33, 60.14]),
    row("previous step", 4, [74.44, 68.89, 95.10, 20.81]),
    row("previous step", 6, [73.33, 73.94, 97.27, 20.03]),
    row("posterior", 2, [84.33, 93.33, 98.79, 10.09]),
    row("posterior", 4, [93.33, 100.00, 100.00, 7.30]),
    row("posterior", 6, [93.33, 100.00, 100.00, 5.11]),
];

/// Table 3: unmasking groups at (5, 2).
const GROUPS: [Published; 3] = [
    Published { name: "TReASURe", width: 2, groups: 1, numbers: [77.67, 64.00, 98.67, 15.37] },
    Published { name: "TReASURe", width: 2, groups: 2, numbers: [80.00, 81.05, 100.00, 13.60] },
    Published { name: "TReASURe", width: 2, groups: 3, numbers: [81.05, 87.37, 100.00, 12.56] },
];

const REWARDS: [&str; 4] = ["cola", "toxicity", "sentiment", "perplexity"];

/// The paper's numbers with ours beside them; none for presets without a table.
pub fn beside(plan: &Plan, summaries: &[Summary]) -> Option<Table> {
    let published: &[Published] = match plan.name.as_str() {
        "main" | "fk" => &MAIN,
        "values" => &VALUES,
        "groups" => &GROUPS,
        _ => return None,
    };
    let mut header = vec!["method", "width", "groups"];
    for (paper, ours) in [
        ("CoLA %, paper", "ours: accuracy %, log p"),
        ("toxicity %, paper", "ours: accuracy %, log p"),
        ("sentiment %, paper", "ours: accuracy %, log p"),
        ("PPL, paper", "ours: PPL, −NLL"),
    ] {
        header.extend([paper, ours]);
    }
    let rows: Vec<Vec<String>> = published
        .iter()
        .map(|entry| {
            let mut cells =
                vec![entry.name.to_owned(), entry.width.to_string(), entry.groups.to_string()];
            for (reward, number) in REWARDS.iter().zip(entry.numbers) {
                let of_reward: Vec<_> = summaries.iter().filter(|s| s.reward == *reward).collect();
                let own = of_reward.iter().find(|s| {
                    s.settings.name == entry.name
                        && s.width == entry.width
                        && s.settings.groups == entry.groups
                });
                cells.push(format!("{number:.2}"));
                let ours = |s: &&Summary| ours(reward, s) + tables::mark(s, &of_reward);
                cells.push(own.map_or("–".into(), ours));
            }
            cells
        })
        .collect();
    let marked = rows.iter().flatten().any(|cell| cell.ends_with('†'));
    let note = if marked { "†: on fewer prompts than the others of its column." } else { "" };
    Some(Table { header, rows, note })
}

fn ours(reward: &str, summary: &Summary) -> String {
    let first = match reward {
        "perplexity" => summary.ppl.map(|ppl| format!("{:.2}", ppl.mean)),
        _ => summary.accuracy.map(|accuracy| format!("{:.1}", 100.0 * accuracy.mean)),
    };
    format!("{}, {:.3}", first.unwrap_or_else(|| "–".into()), summary.mean.mean)
}
