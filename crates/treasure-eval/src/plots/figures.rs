//! The figures of the paper, and reward against each kind of cost.

use std::collections::BTreeMap;

use treasure::{Compared, Match};

use super::{Band, Chart, Figure, Line, Point};
use crate::{
    Result,
    metrics::{Summary, names},
    plan::Plan,
    row::{Row, Spread},
    stats::Estimate,
    tables::mark,
};

/// The unit of a reward's axis.
fn unit(reward: &str) -> String {
    match reward {
        "perplexity" => "mean −NLL (nats per token)".into(),
        _ => format!("mean log p ({reward})"),
    }
}

/// Reward against cost: a point with its standard error for each method that was compared.
pub fn compared(all: &[Compared], matched: Match, reward: &str) -> Result<Option<Figure>> {
    let lines = all.iter().enumerate().map(|(style, one)| {
        let (y, error) = one.mean(|row| Some(row.reward));
        let x = one.mean(|row| Some(matched.spent(row))).0.max(1e-3);
        let interval = (one.rows.len() > 1).then_some((y - error, y + error));
        let label = Some(format!("{} {}", one.method, one.width));
        let points = vec![Point { interval, ..Point::at(x, y) }];
        Line { label, style, points_per_marker: 1, points }
    });
    Chart {
        name: "compare".into(),
        caption: format!("{reward}: mean reward with its standard error against {matched}"),
        x_label: matched.to_string(),
        y_label: reward.into(),
        log_x: true,
        lines: lines.collect(),
        ..Chart::default()
    }
    .draw()
}

/// The names of the figures that answer for a reward together: what was asked for, what a judge thinks
/// that the search never saw, and how the text reads.
pub fn leading(reward: &str) -> [String; 3] {
    ["by-nfe", "heldout-by-nfe", "fluency-by-nfe"].map(|name| format!("{reward}-{name}"))
}

/// One line for each method against a kind of cost: the reward against NFE, with the held-out judge and
/// the perplexity beside it, then the reward against reward calls and seconds.
pub fn curves(reward: &str, summaries: &[Summary]) -> Result<Vec<Figure>> {
    type Cost = (&'static str, fn(&Summary) -> f64);
    type Shown<'a> = (&'static str, String, fn(&Summary) -> Option<Estimate>);
    let nfe: Cost = ("NFE: sequences run through the denoiser", |s| s.spent.nfe.mean);
    let calls: Cost = ("reward calls", |s| s.spent.reward_calls.mean);
    let seconds: Cost = ("seconds", |s| s.spent.seconds.mean);
    let earned = || -> Shown<'_> { ("mean reward", unit(reward), |s| Some(s.mean)) };
    let [first, twin, fluency] = leading(reward);
    let figures: [(String, Cost, Shown<'_>); 5] = [
        (first, nfe, earned()),
        (twin, nfe, ("held-out judge", "held-out judge".into(), |s| s.heldout)),
        (fluency, nfe, ("perplexity (lower reads better)", "perplexity".into(), |s| s.ppl)),
        (format!("{reward}-by-calls"), calls, earned()),
        (format!("{reward}-by-seconds"), seconds, earned()),
    ];
    let of_reward: Vec<&Summary> = summaries.iter().filter(|s| s.reward == reward).collect();
    let names = names(&of_reward);
    let marked = of_reward.iter().any(|s| !mark(s, &of_reward).is_empty());
    let mut out = Vec::new();
    for (name, (x_label, x), (what, y_label, y)) in figures {
        let lines = names.iter().enumerate().map(|(style, method)| {
            let own = of_reward.iter().filter(|s| s.settings.name == *method);
            // In the plan's order, by width: where a wider search happens to be cheaper the line goes back.
            let point = |s: &&Summary| {
                let shown = y(s)?;
                Some(Point {
                    x: x(s).max(1e-3),
                    y: shown.mean,
                    interval: shown.interval,
                    hollow: !mark(s, &of_reward).is_empty(),
                })
            };
            let points = own.filter_map(point).collect();
            Line { label: Some((*method).into()), style, points_per_marker: 1, points }
        });
        let hollow = if marked { "; hollow: on fewer prompts than the others" } else { "" };
        let caption = format!(
            "{reward}: {what} with 95 % interval against {x_label}; points in order of width{hollow}"
        );
        let (x_label, lines) = (x_label.into(), lines.collect());
        let chart =
            Chart { name, caption, x_label, y_label, log_x: true, lines, ..Chart::default() };
        out.extend(chart.draw()?);
    }
    Ok(out)
}

/// Mean reward against the beam width at one tree width.
pub fn beam_width(reward: &str, summaries: &[Summary]) -> Result<Option<Figure>> {
    let own = summaries.iter().filter(|s| s.reward == reward);
    let points = own
        .filter_map(|s| {
            let x = s.settings.beam_width? as f64;
            Some(Point { interval: s.mean.interval, ..Point::at(x, s.mean.mean) })
        })
        .collect();
    let line =
        Line { label: Some("TReASURe, m = 4".into()), style: 0, points_per_marker: 1, points };
    Chart {
        name: format!("{reward}-by-beam-width"),
        caption: format!(
            "{reward}: effect of the beam width at fixed tree width (the paper's Figure 5)"
        ),
        x_label: "beam width b".into(),
        y_label: unit(reward),
        lines: vec![line],
        ..Chart::default()
    }
    .draw()
}

/// The share of states with so many distinct children, for each beam width; one figure for each T.
pub fn branching(rows: &[Row]) -> Result<Vec<Figure>> {
    let mut counts = BTreeMap::<usize, BTreeMap<usize, Vec<u64>>>::new();
    for entry in rows.iter().flat_map(|row| &row.branching) {
        let own = counts.entry(entry.steps).or_default();
        let total = own.entry(entry.beam_width).or_insert_with(|| vec![0; entry.beam_width]);
        total.iter_mut().zip(&entry.distinct).for_each(|(sum, count)| *sum += count);
    }
    let mut figures = Vec::new();
    for (steps, by_width) in counts {
        let lines = by_width.iter().enumerate().map(|(style, (width, counts))| {
            let all = counts.iter().sum::<u64>().max(1) as f64;
            let points = counts
                .iter()
                .enumerate()
                .map(|(i, &count)| Point::at((i + 1) as f64, 100.0 * count as f64 / all))
                .collect();
            Line { label: Some(format!("b = {width}")), style, points_per_marker: 1, points }
        });
        figures.extend(
            Chart {
                name: format!("branching-t{steps}"),
                caption: format!("Effective branches of parallel sampling with T = {steps} (the paper's Figure 2)"),
                x_label: "distinct children".into(),
                y_label: "share of states (%)".into(),
                lines: lines.collect(),
                ..Chart::default()
            }
            .draw()?,
        );
    }
    Ok(figures)
}

/// Median, quartiles and range of the reward of sampled completions, one figure for each trajectory.
pub fn variation(plan: &Plan, rows: &[Row]) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for row in rows.iter().filter(|row| !row.variation.is_empty()) {
        let reward = row.id.split('/').nth(1).unwrap_or_default();
        let start = row.variation.iter().map(|spread| spread.masks).max().unwrap_or_default();
        let x = |spread: &Spread| (start - spread.masks) as f64;
        let band = |opacity, low: fn(&Spread) -> f64, high: fn(&Spread) -> f64| Band {
            style: 0,
            opacity,
            edges: row.variation.iter().map(|s| (x(s), low(s), high(s))).collect(),
        };
        let line = |style, label: &str, y: fn(&Spread) -> f64| Line {
            label: Some(label.into()),
            style,
            points_per_marker: 0,
            points: row.variation.iter().map(|s| Point::at(x(s), y(s))).collect(),
        };
        let prompt = plan.prompts.get(row.prompt).map(|prompt| prompt.trim()).unwrap_or_default();
        figures.extend(
            Chart {
                name: format!("variation-{reward}-p{:02}-c{:02}", row.prompt + 1, row.continuation + 1),
                caption: format!(
                    "{reward}, “{prompt}”: median, quartiles and range over {} sampled completions of each state (the paper's Figures 3 and 6)",
                    plan.completions
                ),
                x_label: "tokens revealed".into(),
                y_label: unit(reward),
                bands: vec![band(0.15, |s| s.min, |s| s.max), band(0.3, |s| s.q1, |s| s.q3)],
                lines: vec![
                    line(0, "median", |s| s.median),
                    line(1, "quartiles", |s| s.q1),
                    Line { label: None, ..line(1, "", |s| s.q3) },
                    line(2, "range", |s| s.min),
                    Line { label: None, ..line(2, "", |s| s.max) },
                ],
                ..Chart::default()
            }
            .draw()?,
        );
    }
    Ok(figures)
}

/// The best value in the beam after each step, one line a trial; ten trials at most.
pub fn trajectories(reward: &str, variant: &str, rows: &[Row]) -> Result<Option<Figure>> {
    let own = rows.iter().filter(|row| row.variant == variant).flat_map(|row| &row.samples);
    let own = own.filter(|s| s.reward.as_deref() == Some(reward) && !s.trajectory.is_empty());
    let lines = own.take(10).enumerate().map(|(trial, sample)| {
        let start = sample.trajectory.iter().map(|&(masks, _)| masks + 1).max().unwrap_or_default();
        let point = |&(masks, y): &(usize, f64)| Point::at((start - masks) as f64, y);
        Line {
            label: Some(format!("trial {}", trial + 1)),
            style: trial,
            points_per_marker: 8,
            points: sample.trajectory.iter().map(point).collect(),
        }
    });
    Chart {
        name: format!("trajectories-{reward}"),
        caption: format!("{reward}: best value in the beam of {variant} as tokens are revealed (the paper's Figure 4)"),
        x_label: "tokens revealed".into(),
        y_label: unit(reward),
        lines: lines.collect(),
        ..Chart::default()
    }
    .draw()
}
