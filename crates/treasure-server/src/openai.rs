//! OpenAI's fields that stand for nothing here: taken where they change nothing, refused where a client
//! would get something else than it asked for.

use serde_json::{Map, Value};
use treasure::{is_known, nearest};

use crate::{
    fields::Fields,
    refusal::{Refusal, Result, excerpt},
};

/// Taken and not looked at: they are about accounts and bookkeeping.
pub(crate) const NOTED: &[&str] = &[
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
];

/// A field with the values that ask for nothing special, and what to do instead.
pub(crate) struct Neutral {
    pub name: &'static str,
    fits: fn(&Value) -> bool,
    pub expected: &'static str,
    instead: &'static str,
}

fn is(value: &Value, number: f64) -> bool {
    value.as_f64() == Some(number)
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

/// Fields of sampling, tools and other media.
pub(crate) const NEUTRAL: &[Neutral] = &[
    Neutral {
        name: "temperature",
        fits: |value| is(value, 0.0) || is(value, 1.0),
        expected: "0 or 1",
        instead: "leave it out: a search is decided by its seed; treasure.method chooses how it writes",
    },
    Neutral {
        name: "top_p",
        fits: |value| is(value, 1.0),
        expected: "1",
        instead: "leave it out; treasure.min_p drops unlikely tokens",
    },
    Neutral {
        name: "min_p",
        fits: |value| is(value, 0.0),
        expected: "0",
        instead: "say it as treasure.min_p: the share of the likeliest token's probability that a token needs",
    },
    Neutral {
        name: "top_k",
        fits: |value| is(value, 0.0) || is(value, -1.0),
        expected: "0 or -1",
        instead: "leave it out; treasure.beam_width is how many tokens are tried",
    },
    Neutral {
        name: "repetition_penalty",
        fits: |value| is(value, 1.0),
        expected: "1",
        instead: "leave it out; treasure.variety rewards distinct words",
    },
    Neutral {
        name: "presence_penalty",
        fits: |value| is(value, 0.0),
        expected: "0",
        instead: "leave it out; treasure.variety rewards distinct words",
    },
    Neutral {
        name: "frequency_penalty",
        fits: |value| is(value, 0.0),
        expected: "0",
        instead: "leave it out; treasure.variety rewards distinct words",
    },
    Neutral {
        name: "logit_bias",
        fits: is_empty,
        expected: "none",
        instead: "leave it out; the rewards contains: and avoids: want or shun words",
    },
    Neutral {
        name: "logprobs",
        fits: |value| *value == Value::Bool(false),
        expected: "none",
        instead: "leave it out; choices[].treasure.logp is the log-probability of the whole text",
    },
    Neutral { name: "top_logprobs", fits: |_| false, expected: "none", instead: "leave it out" },
    Neutral {
        name: "best_of",
        fits: |value| is(value, 1.0),
        expected: "1",
        instead: "say treasure: {\"method\": \"bon\", \"particles\": 4} for the best of four",
    },
    Neutral { name: "tools", fits: is_empty, expected: "none", instead: "leave it out" },
    Neutral {
        name: "tool_choice",
        fits: |value| value == "none" || value == "auto",
        expected: "none",
        instead: "leave it out",
    },
    Neutral {
        name: "parallel_tool_calls",
        fits: Value::is_boolean,
        expected: "none",
        instead: "leave it out",
    },
    Neutral { name: "functions", fits: is_empty, expected: "none", instead: "leave it out" },
    Neutral {
        name: "function_call",
        fits: |value| value == "none" || value == "auto",
        expected: "none",
        instead: "leave it out",
    },
    Neutral {
        name: "modalities",
        fits: |value| *value == serde_json::json!(["text"]),
        expected: "[\"text\"]",
        instead: "leave it out",
    },
    Neutral { name: "audio", fits: |_| false, expected: "none", instead: "leave it out" },
    Neutral { name: "prediction", fits: |_| false, expected: "none", instead: "leave it out" },
    Neutral {
        name: "reasoning_effort",
        fits: |_| false,
        expected: "none",
        instead: "leave it out",
    },
    Neutral { name: "verbosity", fits: |_| false, expected: "none", instead: "leave it out" },
    Neutral {
        name: "web_search_options",
        fits: |_| false,
        expected: "none",
        instead: "leave it out",
    },
];

/// Takes the fields that stand for nothing here.
pub(crate) fn settle(fields: &mut Fields) -> Result<()> {
    for name in NOTED {
        fields.value(name);
    }
    for neutral in NEUTRAL {
        let Some(value) = fields.value(neutral.name) else { continue };
        if !(neutral.fits)(&value) {
            let message =
                format!("expected {} or nothing, got {}", neutral.expected, excerpt(&value));
            return Err(Refusal::field(neutral.name, message)
                .with_code("unsupported_parameter")
                .with_hint(neutral.instead));
        }
    }
    Ok(())
}

/// Takes OpenAI's remaining fields. Names that nobody knows are left alone, unless they look like
/// something of ours that stands in the wrong place.
pub(crate) fn take(mut fields: Fields) -> Result<()> {
    settle(&mut fields)?;
    for (name, value) in fields.rest() {
        if value.is_null() {
            continue;
        }
        if nearest(&name, ["treasure"]).is_some() {
            return Err(
                Refusal::field(&name, "there is no such field").with_hint("did you mean treasure?")
            );
        }
        if is_known(&name) {
            return Err(Refusal::field(&name, "expected it under `treasure`, got it beside it")
                .with_hint(format!("write \"treasure\": {{\"{name}\": …}}")));
        }
    }
    Ok(())
}
