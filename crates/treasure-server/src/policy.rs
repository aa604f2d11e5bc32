//! Which rewards a request may use: the shipped judges, the rules, and what the operator allowed.
//!
//! Guarantee: a specification from outside reaches no file, command or other machine that the operator
//! did not name; what is not known to be harmless is refused.

use std::sync::Arc;

use serde_json::{Value, json};
use treasure::{
    Error, Plan, Request, Session,
    rewards::{Composite, Explained, Range, Spec, TextReward, Window, spec::Leaf},
};

use crate::{
    log::Log,
    refusal::{Refusal, Result},
};

/// Schemes that touch nothing but the text, and rewards that the operator's program handed in.
const HARMLESS: &[&str] = &["regex", "contains", "avoids", "length", "distinct", "own"];
/// What may stand before a reward and changes how its number is read.
const READINGS: &[&str] = &["prob:", "accuracy:", "raw:"];
/// Parts that a specification may have: each is a reward call for every text.
const PARTS: usize = 16;

/// What the operator allowed beyond that.
#[derive(Default)]
pub(crate) struct Policy {
    prefixes: Vec<String>,
    /// Rewards of the operator's own, by name, with what they are for the list.
    pub named: Vec<String>,
}

impl Policy {
    /// Reads what is allowed, and makes `NAME=SPEC` known to the session.
    pub fn new(allow: &[String], session: &Session, log: &Log) -> treasure::Result<Self> {
        let mut policy = Self::default();
        for written in allow {
            match written.split_once('=') {
                Some((name, spec)) if is_name(name) && name != "sentiment" => {
                    let request = Request { reward: Some(spec.into()), ..Request::default() };
                    let inner = session.reward_of(&Plan::new(&request)?)?;
                    session.add_reward(Named { name: name.to_owned(), inner, log: log.clone() });
                    policy.named.push(name.to_owned());
                }
                _ => policy.prefixes.push(prefix(written)?),
            }
        }
        Ok(policy)
    }

    /// Refuses a specification with a reward that is not allowed; `param` is where it came from.
    pub fn check(&self, spec: &Spec, param: &str) -> Result<()> {
        let leaves = spec.leaves();
        if leaves.len() > PARTS {
            let message = format!("expected at most {PARTS} rewards in one, got {}", leaves.len());
            return Err(Refusal::field(param, message));
        }
        for (written, leaf) in leaves {
            let bare = bare(written);
            if !(self.allows(bare) || is_harmless(bare, leaf)) {
                return Err(Refusal::field(param, format_args!("{bare} is not allowed here"))
                    .with_code("reward_not_allowed")
                    .with_hint(
                        "requests reach no files, commands or other machines; GET /v1/rewards lists \
                         what there is, and the operator can allow more",
                    ));
            }
        }
        Ok(())
    }

    fn allows(&self, bare: &str) -> bool {
        self.prefixes.iter().any(|prefix| match bare.strip_prefix(prefix.as_str()) {
            None => false,
            Some("") => true,
            // Of a command every character counts.
            Some(_) if prefix.starts_with("exec:") => false,
            // A label of what was allowed, or something below a folder that was.
            Some(rest) => {
                let inside =
                    prefix.ends_with('/') && !rest.split(['/', '#']).any(|part| part == "..");
                (inside || rest.starts_with('#'))
                    && !rest.contains([',', '\'', '"', '\\', '@', '?'])
            }
        })
    }

    /// Whether a specification asks something outside of this process, which may fail on its own.
    pub fn is_outside(spec: &Spec) -> bool {
        let own = |written: &str| scheme(bare(written)) == Some("own");
        let leaves = spec.leaves();
        leaves
            .iter()
            .any(|(written, leaf)| matches!(leaf, Leaf::Exec(_) | Leaf::Remote(_)) || own(written))
    }
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !name.is_empty() && name.chars().all(fits)
}

fn prefix(written: &str) -> treasure::Result<String> {
    let refuse = |message: &str| {
        Err(Error::request(format!("allow: {message}, got {written:?}"))
            .with_hint("write NAME=SPEC, a whole specification, or its beginning up to a /"))
    };
    match written.split_once(':') {
        None => refuse("expected NAME=SPEC or a reward with a scheme"),
        Some(("exec", "")) => refuse("expected the whole command"),
        Some((_, "")) => refuse("expected something after the colon"),
        Some((_, "//" | "http://" | "https://")) => refuse("expected a host"),
        _ => Ok(written.to_owned()),
    }
}

/// A reward without parentheses around it and readings before it.
fn bare(written: &str) -> &str {
    let mut bare = written.trim();
    if bare.starts_with('(') {
        bare = bare.trim_start_matches(['(', ' ']).trim_end_matches([')', ' ']);
    }
    while let Some(rest) = READINGS.iter().find_map(|reading| bare.strip_prefix(reading)) {
        bare = rest;
    }
    bare
}

/// What stands before the colon of a reward that has one.
fn scheme(bare: &str) -> Option<&str> {
    let end =
        bare.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '.')))?;
    bare[end..].starts_with(':').then(|| &bare[..end])
}

fn is_harmless(bare: &str, leaf: &Leaf) -> bool {
    match (scheme(bare), leaf) {
        // Whatever the text looks like.
        (_, Leaf::Exec(_) | Leaf::Remote(_)) => false,
        (
            Some(scheme),
            Leaf::Classifier { model, .. } | Leaf::Scorer { model } | Leaf::Nelbo { model },
        ) => matches!(scheme, "hf" | "ppl" | "nelbo") && (model == "pocket" || is_pocket(model)),
        (Some(scheme), _) => HARMLESS.contains(&scheme),
        (None, Leaf::Judge(..) | Leaf::Perplexity) => true,
        (None, _) => false,
    }
}

fn is_pocket(model: &str) -> bool {
    model.strip_prefix("pocket/").is_some_and(is_name)
}

/// What a detail may tell of a reward without telling where it lives.
const TOLD: [&str; 6] = ["labels", "logits", "nll_mean", "tokens", "truncated", "of_tokens"];

/// A reward under a name of the operator's. Guarantee: no answer says where it lives, whatever happens
/// to it; why it failed is for the log.
struct Named {
    name: String,
    inner: Arc<Composite>,
    log: Log,
}

impl Named {
    fn hide(&self, error: treasure::rewards::Error) -> treasure::rewards::Error {
        let name = format!("own:{}", self.name);
        if treasure::rewards::Error::is_interruption(&error) {
            return treasure::rewards::Error::Interrupted { name };
        }
        self.log.say("reward", json!({"reward": name, "error": error.to_string()}));
        treasure::rewards::Error::reward(name, "it failed")
            .with_hint("try again later; the operator's log says why")
    }
}

fn without_place(mut explained: Explained) -> Explained {
    explained.detail = explained.detail.and_then(|detail| {
        let Value::Object(mut detail) = detail else { return None };
        detail.retain(|key, _| TOLD.contains(&key.as_str()));
        (!detail.is_empty()).then_some(Value::Object(detail))
    });
    explained
}

impl TextReward for Named {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> treasure::rewards::Result<Vec<f64>> {
        TextReward::score(&*self.inner, texts).map_err(|error| self.hide(error))
    }

    fn range(&self) -> Range {
        self.inner.range()
    }

    fn prepare(&self) {
        self.inner.prepare();
    }

    fn window(&self, text: &str) -> treasure::rewards::Result<Window> {
        self.inner.window(text).map_err(|error| self.hide(error))
    }

    fn cut(&self, text: &str) -> treasure::rewards::Result<Option<usize>> {
        self.inner.cut(text).map_err(|error| self.hide(error))
    }

    fn explain(&self, texts: &[&str]) -> treasure::rewards::Result<Vec<Explained>> {
        let explained = self.inner.explain(texts).map_err(|error| self.hide(error))?;
        Ok(explained.into_iter().map(without_place).collect())
    }

    fn batch_size(&self) -> Option<usize> {
        self.inner.batch_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(allow: &[&str], spec: &str) -> bool {
        let prefixes = allow.iter().map(|written| prefix(written).unwrap()).collect();
        let policy = Policy { prefixes, named: Vec::new() };
        policy.check(&spec.parse().unwrap(), "reward").is_ok()
    }

    #[test]
    fn judges_and_rules_are_for_everyone() {
        for spec in [
            "sentiment=negative + 0.5*perplexity",
            "min(prob:cola, 1*(regex:'a+ b*'))",
            "contains:a,b + avoids:c + length:3..9 + distinct:2",
            "hf:pocket/judge-sentiment#positive + ppl:pocket/scorer",
            "own:mine",
        ] {
            assert!(allowed(&[], spec), "{spec}");
        }
    }

    #[test]
    fn files_commands_and_hosts_are_for_whom_the_operator_says() {
        for spec in [
            "hf:/etc/passwd#0",
            "hf:'/models/a'#good",
            "ppl:gpt2",
            "nelbo:../x",
            "hf:pocket/../x#a",
            "exec:cat /etc/passwd",
            "prob:(tei+http://10.0.0.1:80#a)",
            "1*(exec:id)",
            "tei+http://127.0.0.1:9#joy",
            "json-schema:/etc/hosts",
            "cola + reward+http://a.b/c",
        ] {
            if spec.parse::<Spec>().is_ok() {
                assert!(!allowed(&[], spec), "{spec}");
            }
        }
        let allow = ["hf:/models/", "tei+http://judge:80", "exec:./score"];
        for spec in [
            "hf:/models/a#good",
            "tei+http://judge:80#joy",
            "cola + 2*exec:./score",
            "prob:hf:/models/a#x",
        ] {
            assert!(allowed(&allow, spec), "{spec}");
        }
        for spec in [
            "hf:/models/../etc#a",
            "hf:/other/a#good",
            "tei+http://judge:8080#joy",
            "tei+http://judge:80.evil.org#joy",
            "tei+http://judge:80/x#joy",
            "tei+http://judge:80,http://evil:80#joy",
            "exec:./score; id",
            "exec:./score#; id",
        ] {
            if spec.parse::<Spec>().is_ok() {
                assert!(!allowed(&allow, spec), "{spec}");
            }
        }
    }
}
