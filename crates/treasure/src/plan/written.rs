//! A plan as rows carry it, and in a line.

use serde_json::{Map, Value, json};
use treasure_models::exec::{Isa, Precision};
use treasure_rewards::Spec;
use treasure_text::{Rule, printable};

use super::Plan;
use crate::KEYS;

impl Plan {
    /// The plan as rows carry it. Read as a request, it gives this plan again.
    pub fn to_value(&self) -> Value {
        let mut plan = json!({
            "preset": self.preset,
            "model": self.model,
            "tokenizer": self.load.tokenizer,
            "mask_id": self.load.mask_id,
            "dtype": self.load.dtype.to_string(),
            "precision": self.load.precision.to_string(),
            "as": self.load.as_kind.map(|family| family.to_string()),
            "reward": self.reward.to_string(),
            "reward_dtype": self.reward_dtype.to_string(),
            "judge": self.judge.iter().map(Spec::to_string).collect::<Vec<_>>(),
            "template": self.template_text,
            "matches": match &self.rule { Some(Rule::Regex(pattern)) => Some(pattern), _ => None },
            "json_schema": match &self.rule { Some(Rule::JsonSchema(schema)) => Some(schema), _ => None },
            "choices": match &self.rule { Some(Rule::Choices(choices)) => Some(choices), _ => None },
            "length": self.length,
            "min_length": self.min_length,
            "samples": self.samples,
            "seed": self.seed,
            "method": self.method.name(),
        });
        if let Value::Object(plan) = &mut plan {
            plan.extend(self.options());
            let rest = json!({
                "screen": self.screen.as_ref().map(Spec::to_string),
                "answer": self.answer,
                "max_nfe": self.max_nfe,
                "max_reward_calls": self.max_reward_calls,
                "max_seconds": self.max_seconds,
                "target_reward": self.target_reward,
                "keys": KEYS,
            });
            if let Value::Object(rest) = rest {
                plan.extend(rest);
            }
            if self.chat {
                plan.insert("chat".into(), true.into());
                plan.insert("system".into(), json!(self.system));
            }
            if self.cfg_scale > 0.0 {
                plan.insert("cfg_scale".into(), self.cfg_scale.into());
            }
            if let Some(given) = &self.given {
                if !given.prompt.is_empty() {
                    plan.insert("prompt".into(), json!(given.prompt));
                }
                plan.insert("text".into(), json!(given.text));
                plan.insert("keep".into(), json!(given.keep));
            }
        }
        plan
    }

    /// The method's options, as plans are written down: what is younger than stored plans is named where it was
    /// asked for, so that the others are what they were.
    pub fn options(&self) -> Map<String, Value> {
        let mut options = self.method.options();
        let young = |name: &str| ["reuse", "settle"].contains(&name);
        options.retain(|name, value| !(young(name) && value.is_null()));
        options
    }

    /// The plan in a line, for people.
    pub fn line(&self) -> String {
        self.line_of(true)
    }

    /// The same without the width and what it costs, where a budget will say them.
    pub fn line_before_width(&self) -> String {
        self.line_of(false)
    }

    fn line_of(&self, with_width: bool) -> String {
        let mut options = self.method.options();
        if !with_width {
            options.retain(|name, _| !["beam_width", "tree_width", "particles"].contains(&&**name));
        }
        let mut method = self.method.name().to_string();
        let short = [
            ("beam_width", "b"),
            ("tree_width", "m"),
            ("particles", "N"),
            ("steps", "T"),
            ("block", "block"),
            ("remasking", "remasking"),
            ("alg", "alg"),
            ("order", "order"),
            ("prior", "prior"),
            ("variety", "variety"),
            ("min_p", "min-p"),
            ("commit_threshold", "commit"),
            ("select", "select"),
        ];
        for (option, letter) in short {
            match options.get(option) {
                None | Some(Value::Null) => {}
                Some(Value::Number(zero)) if zero.as_f64() == Some(0.0) => {}
                Some(one) if option == "select" && *one == json!("top") => {}
                Some(Value::String(text)) => method += &format!(" {letter}={text}"),
                Some(value) => method += &format!(" {letter}={value}"),
            }
        }
        let mut line = format!("plan: {} · reward {} · {method}", self.model, self.reward);
        if self.given.is_none() {
            line += &format!(" · {} tokens", self.length);
        }
        if self.template.is_none() && self.min_length > 0 {
            line += &format!(" (no end before {})", self.min_length);
        }
        if self.samples > 1 {
            line += &format!(" · {} samples", self.samples);
        }
        if self.load.precision != Precision::F32 {
            // Tiles round in other places than vectors, so that their results are other ones.
            let on = if Isa::best().has_tiles(self.load.precision) { " on AMX" } else { "" };
            line += &format!(" · {} products{on}", self.load.precision);
        }
        let each = if self.samples > 1 { " each" } else { "" };
        line += &format!(" · seed {}", self.seed);
        // What a finished text takes shows once its tokens are counted.
        if with_width && self.given.is_none() {
            line += &format!(" · {}{each}", self.estimate(0));
        }
        // Names of models and rewards may come from strangers.
        printable(&line).into_owned()
    }
}
