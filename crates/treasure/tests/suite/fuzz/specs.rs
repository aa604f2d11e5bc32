//! Reward specifications made by their grammar, with a slip now and then.

use std::time::Duration;

use treasure::{
    Session,
    rewards::{Spec, spec::Leaf},
};

use super::{Choices, Seen, fuzz, toy};

fn leaf(choices: &mut Choices<'_>) -> String {
    const NAMES: &[&str] = &["perplexity", "cola", "sentiment=negative", "toxicity", "no-toxicity"];
    const PREFIXES: &[&str] = &["", "", "prob:", "accuracy:", "raw:"];
    let quoted = |choices: &mut Choices<'_>| {
        let quote = *choices.pick(&['\'', '"']);
        let text = choices.text(6);
        format!("{quote}{}{quote}", text.replace(quote, &format!("{quote}{quote}")))
    };
    match choices.below(11) {
        9 => {
            let words = ["tei", "vllm", "sglang", "completions", "reward", "vlmm"];
            let places =
                ["//h:1/score", "//[::1]:9", "//a,//b", "", "//h/v1?labels=1,2", "//u:p@h"];
            let label = *choices.pick(&["", "#good", "#'a b'"]);
            let secure = *choices.pick(&["http", "https"]);
            let (word, place) = (choices.pick(&words), choices.pick(&places));
            format!("{}{word}+{secure}:{place}{label}", choices.pick(PREFIXES))
        }
        10 => {
            let slips = [
                "sentiment:negative",
                "cola:x",
                "exec:'true'",
                "raw:exec:'true'",
                "json-schema:x.json",
            ];
            (*choices.pick(&slips)).into()
        }
        0 => format!("{}{}", choices.pick(PREFIXES), choices.pick(NAMES)),
        1 => format!("contains:{}", quoted(choices)),
        2 => format!("avoids:w1,w{}", choices.below(12)),
        3 => format!("regex:{}", quoted(choices)),
        4 => format!("length:{}..{}", choices.small(20), choices.small(60)),
        5 => format!("distinct:{}", choices.small(5)),
        6 => format!("contains:w{},w{}", choices.below(12), choices.below(12)),
        7 => format!("near:{}", quoted(choices)),
        _ => {
            format!("{}:{}", choices.pick(&["hf", "ppl", "own", "nelbo", "x", ""]), choices.text(5))
        }
    }
}

fn expression(choices: &mut Choices<'_>, depth: usize) -> String {
    if depth == 0 {
        return leaf(choices);
    }
    let several = |choices: &mut Choices<'_>| {
        let count = 1 + choices.below(3);
        (0..count).map(|_| expression(choices, depth - 1)).collect::<Vec<_>>()
    };
    match choices.below(7) {
        0 => several(choices).join(" + "),
        1 => format!("{}*{}", choices.float(), expression(choices, depth - 1)),
        2 => format!("min({})", several(choices).join(", ")),
        3 => format!("product({})", several(choices).join(", ")),
        4 => {
            let name = *choices.pick(&["atleast", "atmost", "step"]);
            format!("{name}({}, {})", expression(choices, depth - 1), choices.float())
        }
        5 => format!("({})", expression(choices, depth - 1)),
        _ => leaf(choices),
    }
}

/// Scores what is made of rules alone; nothing else may be built here.
fn score(session: &Session, spec: &Spec, choices: &mut Choices<'_>) -> Seen {
    let harmless = |(written, leaf): &(&str, &Leaf)| {
        matches!(leaf, Leaf::Rule(_)) && !written.contains("json-schema")
    };
    if !spec.leaves().iter().all(harmless) {
        return Seen::deep("not of rules alone");
    }
    let texts = [choices.text(12), "w1 w2 w3".to_owned(), String::new()];
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    match session.score(&spec.to_string(), &texts) {
        Ok(scored) => {
            assert_eq!(scored.len(), texts.len());
            assert!(scored.iter().all(|scored| scored.reward.is_finite()));
            let parts = scored[0].rewards.len();
            Seen::deep(format!("scored {}", "part ".repeat(parts.min(9))))
        }
        Err(error) => Seen { past_the_reader: true, ..Seen::refused(error) },
    }
}

#[test]
fn a_specification_is_read_back_as_itself_and_scores_or_says_why_not() {
    let session = toy::session();
    fuzz("specs", Duration::from_secs(5), |choices| {
        let depth = choices.below(4);
        let mut text = expression(choices, depth);
        if choices.chance(50) {
            let mut at = choices.below(text.len().max(1)).min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            text.insert_str(at, &choices.text(3));
        }
        let spec: Spec = match text.parse() {
            Ok(spec) => spec,
            Err(error) => return Seen::refused(treasure::Error::from(error)),
        };
        let again: Spec = spec.to_string().parse().expect("what is written can be read");
        assert_eq!(again.to_string(), spec.to_string());
        score(&session, &spec, choices)
    });
}
