//! What a request that does not say gets, by method and by kind of reward. `docs/search-options.md` has the measurements: the
//! sweep `papers/treasure/readable.toml`, and those under rules.

use serde_json::{Map, Value, json};
use treasure_core::AnswerKind;
use treasure_rewards::{
    Range, Spec,
    spec::{Kind, Leaf},
};

use crate::Preset;

/// Shipped judges that no search is paid for, by the reward they check.
pub const HELD_OUT_JUDGES: [(&str, &str); 7] = [
    ("sentiment=positive", "hf:pocket/judge-sentiment-heldout#positive"),
    ("sentiment=neutral", "hf:pocket/judge-sentiment-heldout#neutral"),
    ("sentiment=negative", "hf:pocket/judge-sentiment-heldout#negative"),
    ("toxicity", "hf:pocket/judge-toxicity-heldout#toxic"),
    ("no-toxicity", "hf:pocket/judge-toxicity-heldout#neutral"),
    ("cola", "perplexity"),
    ("perplexity", "nelbo:pocket"),
];

/// The shipped judge that checks a shipped reward without taking part in a search for it.
pub fn held_out_judge(reward: &str) -> Option<&'static str> {
    HELD_OUT_JUDGES.iter().find(|(own, _)| *own == reward).map(|(_, judge)| *judge)
}

/// Tokens to generate.
pub(crate) const LENGTH: usize = 48;
/// Tokens before an end of text.
pub(crate) const MIN_LENGTH: usize = 24;
/// The length of a whole sequence, BOS and prompt included, in the reference protocol.
pub(crate) const FK_LENGTH: usize = 128;
/// The share of each node's children that a screen lets through.
pub(crate) const SCREEN_SHARE: f64 = 0.5;

/// Whether a reward is fluency itself: then the prior and the order have nothing to repair.
fn is_fluency(spec: &Spec) -> bool {
    matches!(
        spec.root.kind,
        Kind::Leaf(Leaf::Perplexity | Leaf::Scorer { .. } | Leaf::Nelbo { .. })
    )
}

/// Tokens tried per position under rules: trying one costs next to nothing, and a word that is asked for
/// is seldom among the likeliest few.
pub(crate) const BEAM_UNDER_RULES: usize = 64;

/// Whether a reward is made of rules alone.
fn is_rules(spec: &Spec) -> bool {
    spec.leaves().iter().all(|(_, leaf)| matches!(leaf, Leaf::Rule(_)))
}

/// Whether a reward is made of the caller's own functions and programs, with or without rules: they may
/// say the same of nearly every text, as rules do, or cost as much as a judge. Which it is shows in what
/// they say.
fn is_own(spec: &Spec) -> bool {
    (spec.leaves().iter())
        .all(|(_, leaf)| matches!(leaf, Leaf::Own(_) | Leaf::Exec(_) | Leaf::Rule(_)))
}

/// The share of the likeliest token's probability that a token needs to be tried, once a judge is nearly
/// content; further away less is enough, so that its room must be known: see `is_log_probability`.
pub(crate) const MIN_P: f64 = 0.2;

/// Whether a reward is made of judges' log-probabilities alone, which end at 0.
fn is_log_probability(spec: &Spec) -> bool {
    spec.leaves().iter().all(|(_, leaf)| {
        matches!(leaf, Leaf::Judge(..) | Leaf::Classifier { .. })
            && leaf.range() == Range::AT_MOST_ZERO
    })
}

/// The options of a method under a preset, where they differ from its paper's.
pub(crate) fn options(method: &str, preset: Preset, reward: &Spec) -> Map<String, Value> {
    let options = match (preset, method) {
        // What the model is sure of reads well: asking about it again would cost calls and gain nothing.
        (Preset::Plain, "treasure") if is_fluency(reward) => {
            json!({"commit_threshold": 0.8, "variety": 2.0})
        }
        (Preset::Plain, "treasure") if is_rules(reward) => json!({
            "order": "confidence", "prior": 0.02, "variety": 1.0, "beam_width": BEAM_UNDER_RULES
        }),
        (Preset::Plain, "treasure") => {
            let min_p = if is_log_probability(reward) { MIN_P } else { 0.0 };
            let widen = if is_own(reward) { BEAM_UNDER_RULES } else { 0 };
            json!({
                "order": "confidence", "prior": 0.01, "variety": 1.0, "min_p": min_p, "widen": widen,
                "select": "nested"
            })
        }
        // What is put into a text should read as well as what is written anew.
        (Preset::Plain, "refine") => {
            let mut inner = options("treasure", preset, reward);
            inner.insert("method".into(), "treasure".into());
            json!({"inner": inner})
        }
        _ => json!({}),
    };
    match options {
        Value::Object(options) => options,
        _ => Map::new(),
    }
}

/// Which text is handed back.
pub(crate) fn answer(preset: Preset) -> AnswerKind {
    match preset {
        Preset::Plain => AnswerKind::BestSeen,
        Preset::Paper | Preset::Fk => AnswerKind::Final,
    }
}
