//! A finished sample as people read it: the text, what it is worth, what it cost.

use serde_json::{Map, Value};
use treasure::{Cost, HeldOut, Reading, Sample};

use super::number;

/// The remark in parentheses beside a reward, with a leading space.
pub fn remark(reading: Reading, reward: f64) -> String {
    match reading {
        Reading::LogProbability => {
            format!(" (log p, 0 is best: p = {})", number::probability(reward.exp()))
        }
        Reading::MeanLogLikelihood => {
            format!(" (mean log p of a token, 0 is best: perplexity {:.1})", (-reward).exp())
        }
        Reading::Rule if reward >= 1.0 => " (met)".into(),
        Reading::Rule => " (not met; 1 is met)".into(),
        Reading::Plain => String::new(),
    }
}

/// The short remark of tables.
pub fn short_remark(reading: Reading, reward: f64) -> String {
    match reading {
        Reading::LogProbability => format!(" (p = {})", number::probability(reward.exp())),
        Reading::MeanLogLikelihood => format!(" (perplexity {:.1})", (-reward).exp()),
        Reading::Rule if reward >= 1.0 => " (met)".into(),
        Reading::Rule => " (not met)".into(),
        Reading::Plain => String::new(),
    }
}

/// What a sample cost, in a line.
pub fn cost(cost: &Cost) -> String {
    let cached = |hits: u64| match hits {
        0 => String::new(),
        hits => format!(" (+{} cached)", number::count(hits)),
    };
    let mut line =
        format!("model calls (NFE) {}{}", number::count(cost.nfe), cached(cost.nfe_hits));
    line += &format!(
        "   reward calls {}{}",
        number::count(cost.reward_calls),
        cached(cost.reward_cache_hits)
    );
    if cost.proxy_calls > 0 {
        line += &format!("   screen calls {}", number::count(cost.proxy_calls));
    }
    line + &format!("   {}", number::seconds(cost.seconds))
}

/// What held-out judges say, in a line.
pub fn held_out(held_out: &HeldOut) -> String {
    let mut line = format!("  held out {}", scores(&held_out.judges));
    if let Some(perplexity) = held_out.perplexity {
        line += &format!("   perplexity {perplexity:.1}");
    }
    for (n, dist) in held_out.dist.iter().enumerate() {
        if let Some(dist) = dist {
            line += &format!("   dist-{} {dist:.2}", n + 1);
        }
    }
    line
}

/// The lines of a sample.
pub fn lines(sample: &Sample, reading: Reading, several_samples: bool) -> String {
    let cut = if sample.cut { " …" } else { "" };
    let mut out = format!("{}{cut}\n", sample.text);
    out += &format!("  reward {}{}", number::reward(sample.reward), remark(reading, sample.reward));
    out += &format!("\n  {}   seed {}", cost(&sample.cost), sample.seed);
    if several_samples {
        out += &format!("   sample {}", sample.sample);
    }
    if sample.rewards.len() > 1 {
        out += &format!("\n  parts {}", scores(&sample.rewards));
    }
    if let Some(judged) = &sample.held_out {
        out += &format!("\n{}", held_out(judged));
    }
    if let Some(reason) = &sample.stopped {
        out += &format!("\n  stopped early: {reason}");
    }
    out
}

/// Named scores on one line.
pub fn scores(scores: &Map<String, Value>) -> String {
    let show = |value: &Value| value.as_f64().map_or_else(|| value.to_string(), number::reward);
    let parts: Vec<_> =
        scores.iter().map(|(name, value)| format!("{name} {}", show(value))).collect();
    parts.join("   ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_line_names_what_was_cached() {
        let spent = Cost {
            nfe: 509,
            reward_calls: 1733,
            reward_cache_hits: 812,
            seconds: 12.4,
            ..Cost::default()
        };
        assert_eq!(
            cost(&spent),
            "model calls (NFE) 509   reward calls 1,733 (+812 cached)   12.4 s"
        );
    }
}
