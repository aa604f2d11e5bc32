//! The rewards that a request can name, for whoever chooses among them.

use serde_json::{Value, json};
use treasure::{Plan, Reading, Request, Session, held_out_judge, rewards::Spec};

use crate::policy::Policy;

/// Name, description, and of a scheme an example to start from.
const REWARDS: &[(&str, &str, Option<&str>)] = &[
    ("sentiment=positive", "sounds happy", None),
    ("sentiment=negative", "sounds sad or angry", None),
    ("sentiment=neutral", "sounds matter-of-fact", None),
    ("cola", "grammatical English", None),
    ("perplexity", "fluent: what a small story model expects", None),
    ("no-toxicity", "inoffensive", None),
    ("toxicity", "offensive, for tests of defences", None),
    ("contains:", "has these words", Some("contains:river,hat")),
    ("avoids:", "lacks these words", Some("avoids:very,really")),
    ("length:", "has so many words", Some("length:20..30")),
    ("regex:", "matches a pattern", Some("regex:'home[.!]$'")),
    ("distinct:", "repeats few word pairs", Some("distinct:2")),
];

/// What there is, in the order to offer it; shipped judges that this build lacks are left out.
pub(crate) fn rewards(session: &Session, policy: &Policy) -> Vec<Value> {
    let mut found = Vec::new();
    for (id, description, example) in REWARDS {
        let spec = example.unwrap_or(id);
        if session.score(spec, &[]).is_ok() {
            let mut entry = json!({
                "id": id,
                "object": "reward",
                "description": description,
                "value": value(spec),
            });
            if let Some(example) = example {
                entry["example"] = (*example).into();
            }
            let judge = held_out_judge(spec).filter(|judge| {
                let allowed =
                    judge.parse::<Spec>().is_ok_and(|judge| policy.check(&judge, "judge").is_ok());
                allowed && session.score(judge, &[]).is_ok()
            });
            if let Some(judge) = judge {
                entry["held_out"] = judge.into();
            }
            found.push(entry);
        }
    }
    for name in &policy.named {
        let id = format!("own:{name}");
        let value = value(&id);
        let description = "made known by the operator";
        found.push(
            json!({"id": id, "object": "reward", "description": description, "value": value}),
        );
    }
    found
}

/// How the number of a reward reads.
fn value(spec: &str) -> Value {
    let request = Request { reward: Some(spec.to_owned()), ..Request::default() };
    match Plan::new(&request).map(|plan| plan.reading()) {
        Ok(Reading::LogProbability) => "log-probability".into(),
        Ok(Reading::MeanLogLikelihood) => "mean-log-likelihood".into(),
        Ok(Reading::Rule) => "unit".into(),
        _ => Value::Null,
    }
}
