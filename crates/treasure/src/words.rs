//! Numbers and samples for people: thousands separators, no more digits than matter, what a number means
//! beside it. Programs read them too, so that minus is the plain one.

use std::fmt;

use serde_json::{Map, Value};
use treasure_core::StepEvent;

use crate::{Compared, Cost, Frame, HeldOut, Reading, Sample, Scored};

/// How the note of a row begins whose text does not meet the rule that is its reward; how near it came follows.
pub const UNMET: &str = "the rule of the reward is not met: ";

/// A count with thousands separators: `1,733`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A reward: three decimals, more where it is tiny.
pub fn reward(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    match value.abs() {
        size if size != 0.0 && size < 0.0005 => format!("{value:.1e}"),
        _ => format!("{value:.3}"),
    }
}

/// A probability: as many digits as show how far it is from 0 or 1, `0.98`, `0.004`, `0.9998`.
pub fn probability(p: f64) -> String {
    let distance = p.min(1.0 - p).max(1e-12);
    let digits = if distance >= 0.01 { 2 } else { (-distance.log10()).ceil().min(9.0) as usize };
    format!("{p:.digits$}")
}

/// A duration in seconds: `0.42 s`, `12.4 s`, `3 min 05 s`, `2 h 10 min`.
pub fn seconds(s: f64) -> String {
    match s {
        s if s < 9.995 => format!("{s:.2} s"),
        s if s < 119.95 => format!("{s:.1} s"),
        s if s < 7200.0 => {
            let whole = s.round() as u64;
            format!("{} min {:02} s", whole / 60, whole % 60)
        }
        s => {
            let minutes = (s / 60.0).round() as u64;
            format!("{} h {:02} min", minutes / 60, minutes % 60)
        }
    }
}

impl Reading {
    /// The remark in parentheses beside a reward, with a leading space.
    pub fn remark(self, reward: f64) -> String {
        match self {
            Self::LogProbability => {
                format!(" (log p, 0 is best: p = {})", probability(reward.exp()))
            }
            Self::MeanLogLikelihood => {
                format!(" (mean log p of a token, 0 is best: perplexity {:.1})", (-reward).exp())
            }
            Self::Rule if reward < 1.0 => " (not met; 1 is met)".into(),
            other => other.short_remark(reward),
        }
    }

    /// The short remark of tables.
    pub fn short_remark(self, reward: f64) -> String {
        match self {
            Self::LogProbability => format!(" (p = {})", probability(reward.exp())),
            Self::MeanLogLikelihood => format!(" (perplexity {:.1})", (-reward).exp()),
            Self::Rule if reward >= 1.0 => " (met)".into(),
            Self::Rule => " (not met)".into(),
            Self::Plain => String::new(),
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cached = |hits: u64| match hits {
            0 => String::new(),
            hits => format!(" (+{} cached)", count(hits)),
        };
        write!(f, "model calls (NFE) {}{}", count(self.nfe), cached(self.nfe_hits))?;
        let calls = (count(self.reward_calls), cached(self.reward_cache_hits));
        write!(f, "   reward calls {}{}", calls.0, calls.1)?;
        if self.proxy_calls > 0 {
            write!(f, "   screen calls {}", count(self.proxy_calls))?;
        }
        write!(f, "   {}", seconds(self.seconds))
    }
}

impl fmt::Display for HeldOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&scores(&self.judges))?;
        if let Some(perplexity) = self.perplexity {
            write!(f, "   perplexity {perplexity:.1}")?;
        }
        for (n, dist) in self.dist.iter().enumerate() {
            if let Some(dist) = dist {
                write!(f, "   dist-{} {dist:.2}", n + 1)?;
            }
        }
        Ok(())
    }
}

impl Sample {
    /// The sample in lines: the text, what it is worth, what it cost. `several` says which one it is.
    pub fn lines(&self, reading: Reading, several: bool) -> String {
        let open = self.ends_open();
        let cut = if self.cut && !open { "\n  … cut at its length" } else { "" };
        let worth = format!("{}{}", reward(self.reward), reading.remark(self.reward));
        let mut out = format!("{}{cut}\n  reward {worth}", self.text);
        if let Some(before) = &self.before {
            let worth = self.reward_before.map_or_else(|| "not scored".into(), reward);
            out += &match *before == self.text {
                true => format!("\n  before {worth}, as given: nothing better was found"),
                false => format!("\n  before {worth}   {before}"),
            };
        }
        out += &format!("\n  {}   seed {}", self.cost, self.seed);
        if several {
            out += &format!("   sample {}", self.sample);
        }
        if self.rewards.len() > 1 {
            out += &format!("\n  parts {}", scores(&self.rewards));
        }
        if let Some(judged) = &self.held_out {
            out += &format!("\n  held out {judged}");
        }
        if let Some(reason) = &self.stopped {
            out += &match open {
                true => format!(
                    "\n  stopped early ({reason}): places still open hold the likeliest tokens"
                ),
                false => format!("\n  stopped early: {reason}"),
            };
        }
        out
    }

    /// Whether the search was stopped by a limit or by somebody before every place was decided; a finished text
    /// has none to decide.
    fn ends_open(&self) -> bool {
        let content = ["target-reward", "settled"];
        let stopped = self.stopped.as_deref().is_some_and(|reason| !content.contains(&reason));
        stopped && self.before.is_none()
    }
}

/// Where a search stands.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Steps done, and how many there will be.
    pub steps: (usize, usize),
    /// Masks that are left.
    pub masks_left: usize,
    /// The best reward so far, if any was seen.
    pub best: Option<f64>,
    /// Model calls.
    pub nfe: u64,
    /// Reward calls.
    pub reward_calls: u64,
}

impl From<&StepEvent> for Standing {
    fn from(step: &StepEvent) -> Self {
        Self {
            steps: (step.step + 1, step.steps),
            masks_left: step.masks_left,
            best: step.best_reward.or(step.best_value),
            nfe: step.cost.nfe,
            reward_calls: step.cost.reward_calls,
        }
    }
}

impl From<&Frame> for Standing {
    fn from(frame: &Frame) -> Self {
        let (steps, best) = ((frame.step, frame.steps), frame.reward);
        let Frame { masks_left, nfe, reward_calls, .. } = *frame;
        Self { steps, masks_left, best, nfe, reward_calls }
    }
}

impl Standing {
    /// It in a line of 72 columns, with the time left after so many seconds: short words where long ones
    /// do not fit.
    pub fn line(&self, elapsed: f64) -> String {
        let line = self.worded(elapsed, ["model calls", "reward calls"]);
        match line.chars().count() <= 72 {
            true => line,
            false => self.worded(elapsed, ["nfe", "calls"]),
        }
    }

    fn worded(&self, elapsed: f64, [nfe, calls]: [&str; 2]) -> String {
        let (step, steps) = self.steps;
        let mut line = format!("step {step}/{steps}  masks {}", self.masks_left);
        if let Some(best) = self.best {
            line += &format!("  best {}", reward(best));
        }
        line += &format!("  {nfe} {}  {calls} {}", count(self.nfe), count(self.reward_calls));
        if step < steps && elapsed > 0.5 {
            line += &format!("  {}", time_left(elapsed, step, steps));
        }
        line.trim_end().to_owned()
    }
}

/// `3 min 05 s left  `, once something is done.
pub fn time_left(elapsed: f64, done: usize, all: usize) -> String {
    match done {
        0 => String::new(),
        done => {
            let left = elapsed / done as f64 * all.saturating_sub(done) as f64;
            format!("{} left  ", seconds(left))
        }
    }
}

impl Scored {
    /// Who read the beginning of the text only, and how much of it.
    pub fn cuts(&self) -> Vec<String> {
        let said = |name: &str, detail: &Value| {
            let (saw, all) = (&detail["tokens"], &detail["of_tokens"]);
            let line = || format!("{name}: saw {saw} of {all} tokens, the most it reads");
            (detail["truncated"] == true).then(line)
        };
        let parts = self.detail.as_object().into_iter().flatten();
        let several = parts.filter_map(|(name, detail)| said(name, detail));
        let only = self.rewards.keys().next().map_or("reward", String::as_str);
        said(only, &self.detail).into_iter().chain(several).collect()
    }

    /// A reward, what it means and what it is of, then its parts if there are several.
    pub fn lines(&self, reading: Reading) -> String {
        let ids = || format!("{:?}", self.ids.as_deref().unwrap_or_default());
        let what = self.text.clone().unwrap_or_else(ids);
        let remark = reading.short_remark(self.reward);
        let line = format!("{}{remark}   {what}", reward(self.reward));
        match self.rewards.len() > 1 {
            true => format!("{line}\n  parts {}", scores(&self.rewards)),
            false => line,
        }
    }
}

/// What a model needs ([`crate::needs()`]), with its memory as written.
pub fn needs(needs: &Value, memory: &str) -> String {
    let number = |name: &str| needs[name].as_f64().unwrap_or(0.0);
    let tokens = &needs["tokens"];
    let mut text = format!(
        "\nto run it here: {memory} of memory; about {:.3} s a model call of {tokens} tokens (at {:.0} Gop/s, measured now)",
        number("seconds_a_pass"),
        number("operations_per_second") / 1e9,
    );
    for (name, cost) in needs["methods"].as_object().into_iter().flatten() {
        text += &format!(
            "\n  {name:8}  {:.3} s a token ({} model calls for {tokens}), rewards aside",
            cost["seconds_a_token"].as_f64().unwrap_or(0.0),
            cost["nfe"],
        );
    }
    text
}

/// Named scores on one line.
pub fn scores(scores: &Map<String, Value>) -> String {
    let show = |value: &Value| value.as_f64().map_or_else(|| value.to_string(), reward);
    let parts: Vec<_> =
        scores.iter().map(|(name, value)| format!("{name} {}", show(value))).collect();
    parts.join("   ")
}

/// A table: columns as wide as their widest cell, numbers to the right, without colour.
pub fn table(header: &[&str], rows: &[Vec<String>], right: &[bool]) -> String {
    let widths: Vec<usize> = (0..header.len())
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .chain([header[column].chars().count()])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    let header: Vec<String> = header.iter().map(ToString::to_string).collect();
    for row in std::iter::once(&header).chain(rows) {
        let mut text = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            if column > 0 {
                text.push_str("  ");
            }
            if right.get(column).copied().unwrap_or(false) {
                text.push_str(&pad);
                text.push_str(cell);
            } else {
                text.push_str(cell);
                text.push_str(&pad);
            }
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out.pop();
    out
}

/// What a comparison found: a row for each method, means and their standard errors where there are several texts.
pub fn comparison(all: &[Compared], reading: Reading) -> String {
    let judged: Vec<String> = (all.iter().flat_map(|one| &one.rows))
        .find_map(|row| row.held_out.as_ref())
        .map(|judged| judged.judges.keys().cloned().collect())
        .unwrap_or_default();
    let mut header: Vec<&str> = vec!["method", "width", "reward"];
    header.extend(judged.iter().map(String::as_str));
    if !judged.is_empty() {
        header.extend(["perplexity", "distinct-2"]);
    }
    header.extend(["model calls (NFE)", "reward calls", "time"]);
    let several = all.iter().any(|one| one.rows.len() > 1);
    let cells = |one: &Compared| {
        let mean_count =
            |of: fn(&Sample) -> u64| count(one.mean(|row| Some(of(row) as f64)).0.round() as u64);
        let (mean, error) = one.mean(|row| Some(row.reward));
        let mut row = vec![one.method.clone(), one.width.clone()];
        row.push(match several {
            true => format!("{} ± {error:.3}", reward(mean)),
            false => reward(mean) + &reading.short_remark(mean),
        });
        for judge in &judged {
            let score = |row: &Sample| row.held_out.as_ref()?.judges[judge].as_f64();
            row.push(reward(one.mean(score).0));
        }
        if !judged.is_empty() {
            let log = |row: &Sample| row.held_out.as_ref()?.perplexity.map(f64::ln);
            row.push(format!("{:.1}", one.mean(log).0.exp()));
            let dist = |row: &Sample| row.held_out.as_ref()?.dist[1];
            row.push(format!("{:.2}", one.mean(dist).0));
        }
        row.push(mean_count(|row| row.cost.nfe));
        row.push(mean_count(|row| row.cost.reward_calls));
        row.push(seconds(one.mean(|row| Some(row.cost.seconds)).0));
        row
    };
    let rows: Vec<Vec<String>> = all.iter().map(cells).collect();
    let right: Vec<bool> = (0..header.len()).map(|column| column > 2).collect();
    table(&header, &rows, &right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cost_names_what_was_cached() {
        let (nfe, reward_calls, reward_cache_hits, seconds) = (509, 1733, 812, 12.4);
        let spent = Cost { nfe, reward_calls, reward_cache_hits, seconds, ..Cost::default() };
        let line = "model calls (NFE) 509   reward calls 1,733 (+812 cached)   12.4 s";
        assert_eq!(spent.to_string(), line);
    }

    #[test]
    fn counts_have_thousands_separators() {
        for (n, text) in [(0, "0"), (999, "999"), (1_733, "1,733"), (39_060_123, "39,060,123")] {
            assert_eq!(count(n), text);
        }
    }

    #[test]
    fn rewards_have_a_plain_minus_sign() {
        for (value, text) in [
            (-0.018, "-0.018"),
            (0.0, "0.000"),
            (2.5, "2.500"),
            (-0.00012, "-1.2e-4"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(reward(value), text);
        }
    }

    #[test]
    fn probabilities_keep_the_digits_that_matter() {
        for (p, text) in
            [(0.982, "0.98"), (0.0042, "0.004"), (0.9998, "0.9998"), (1.0, "1.000000000")]
        {
            assert_eq!(probability(p), text);
        }
    }

    #[test]
    fn durations_change_unit_as_they_grow() {
        for (s, text) in
            [(0.418, "0.42 s"), (12.44, "12.4 s"), (185.0, "3 min 05 s"), (7800.0, "2 h 10 min")]
        {
            assert_eq!(seconds(s), text);
        }
    }

    #[test]
    fn columns_line_up_whatever_the_alphabet() {
        let rows = vec![vec!["a".into(), "−1".into()], vec!["naïve".into(), "12".into()]];
        assert_eq!(table(&["name", "n"], &rows, &[false, true]), "name    n\na      −1\nnaïve  12");
    }

    #[test]
    fn a_line_says_where_a_search_stands_and_how_long_it_will_take() {
        let (best, masks_left) = (Some(-1.25), 36);
        let standing = Standing { steps: (12, 48), masks_left, best, nfe: 25, reward_calls: 1118 };
        assert_eq!(
            standing.line(2.0),
            "step 12/48  masks 36  best -1.250  nfe 25  calls 1,118  6.00 s left"
        );
        assert_eq!(
            standing.line(0.0),
            "step 12/48  masks 36  best -1.250  model calls 25  reward calls 1,118"
        );
    }

    fn sample(stopped: &str) -> Sample {
        serde_json::from_value(json!({
            "version": 2, "prompt": "a", "text": "a b", "continuation": " b", "tokens": [1],
            "reward": 0.5, "reward_final": null, "rewards": {}, "logp": null, "method": "treasure",
            "seed": 0, "prompt_index": 0, "sample": 0, "stopped": stopped, "cut": true, "notes": [],
            "held_out": null, "cost": Cost::default(), "plan": {}
        }))
        .unwrap()
    }

    #[test]
    fn a_text_with_open_places_is_not_said_to_be_cut() {
        let lines = |stopped: &str| sample(stopped).lines(Reading::Plain, false);
        let open = lines("max-nfe");
        assert!(open.ends_with("early (max-nfe): places still open hold the likeliest tokens"));
        assert!(!open.contains("cut at its length"), "{open}");
        let content = lines("target-reward");
        assert!(content.ends_with("stopped early: target-reward"), "{content}");
        assert!(content.contains("cut at its length"), "{content}");
    }
}
