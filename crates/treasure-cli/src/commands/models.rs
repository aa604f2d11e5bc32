//! `treasure models`: what is shipped and cached, and what a model is.

use clap::{Args, Subcommand};
use rayon::prelude::*;
use serde_json::{Value, json};
use treasure::{
    Plan, Request, Session,
    models::{Description, LoadOptions, Role, inspect},
};

use crate::{
    Verdict,
    failure::{OrFail as _, Outcome},
    options::{common::Common, request::CheckpointOptions},
    output::{number, print},
};

/// What is shipped and cached, and what a model is
#[derive(Args, Debug)]
pub struct Models {
    /// What to show [default: list]
    #[command(subcommand)]
    pub show: Option<Show>,
}

/// What to show.
#[derive(Debug, Subcommand)]
pub enum Show {
    /// The models in the binary and in the hub cache
    List,
    /// Architecture, parameters, vocabulary, mask id and licence of a model
    Inspect(Inspect),
}

/// Architecture, parameters, vocabulary, mask id and licence of a model
#[derive(Args, Debug)]
pub struct Inspect {
    /// `pocket`, `pocket/NAME`, a directory, a GGUF file or a hub id
    #[arg(value_name = "MODEL")]
    pub name: String,
    /// How to read its files.
    #[command(flatten)]
    pub checkpoint: CheckpointOptions,
}

impl Models {
    /// Shows what was asked for.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        match &self.show {
            None | Some(Show::List) => list(common)?,
            Some(Show::Inspect(command)) => command.run(common)?,
        }
        Ok(Verdict::Done)
    }
}

fn list(common: &Common) -> Outcome<()> {
    let session = Session::pocket()?;
    let resolver = session.store().resolver();
    let shipped: Vec<(String, usize, Description)> = treasure_pocket::MODELS
        .par_iter()
        .map(|model| {
            let name = format!("pocket/{}", model.name);
            let what = inspect(resolver, &name, &LoadOptions::default())
                .context(|| format!("model {name}"))?;
            Ok((name, model.bytes(), what))
        })
        .collect::<Outcome<_>>()?;
    let cached = resolver.cached();
    if common.json {
        let rows: Vec<Value> = shipped
            .iter()
            .map(|(name, bytes, what)| {
                let mut row = describe(name, what);
                row["bytes"] = json!(bytes);
                row["default"] = json!(name == "pocket/denoiser");
                row
            })
            .collect();
        let cache = resolver.cache().map(|path| path.display().to_string());
        return print::line(json!({ "shipped": rows, "cache": cache, "cached": cached }));
    }
    if shipped.is_empty() {
        print::line("This binary carries no pocket models.")?;
    } else {
        let rows: Vec<Vec<String>> = shipped
            .iter()
            .map(|(name, bytes, what)| {
                let name = match name.as_str() {
                    "pocket/denoiser" => format!("{name} (the default, `pocket`)"),
                    _ => name.clone(),
                };
                let optional = |n: Option<u64>| n.map_or_else(|| "–".into(), number::count);
                vec![
                    name,
                    what.architecture.to_string(),
                    number::count(what.parameters),
                    optional(what.vocabulary.map(|n| n as u64)),
                    optional(what.mask_id.map(u64::from)),
                    number::bytes(*bytes as u64),
                    what.licence.clone().unwrap_or_else(|| "–".into()),
                ]
            })
            .collect();
        let header =
            ["shipped", "architecture", "parameters", "vocabulary", "mask id", "size", "licence"];
        let right = [false, false, true, true, true, true, false];
        print::line(print::table(&header, &rows, &right))?;
    }
    match resolver.cache() {
        None => print::line("\nno hub cache: neither HF_HOME nor HOME is set"),
        Some(cache) if cached.is_empty() => {
            print::line(format!("\nnothing cached in {}", cache.display()))
        }
        Some(cache) => {
            print::line(format!("\ncached in {}\n  {}", cache.display(), cached.join("\n  ")))
        }
    }
}

impl Inspect {
    fn run(&self, common: &Common) -> Outcome<()> {
        let mut request = Request { model: Some(self.name.clone()), ..Request::default() };
        self.checkpoint.fill(&mut request);
        let load = Plan::new(&request)?.load;
        let what = inspect(Session::pocket()?.store().resolver(), &self.name, &load)
            .context(|| format!("model {}", self.name))?;
        let row = describe(&self.name, &what);
        if common.json {
            return print::line(row);
        }
        let rows: Vec<Vec<String>> = row
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, value)| !value.is_null() && value.as_array().is_none_or(|l| !l.is_empty()))
            .map(|(name, value)| {
                vec![name.replace("_bytes", "").replace('_', " "), words(name, value)]
            })
            .collect();
        let width = rows.iter().map(|row| row[0].chars().count()).max().unwrap_or(0);
        for row in rows {
            print::line(format!("{:width$}  {}", row[0], row[1]))?;
        }
        Ok(())
    }
}

/// What is known of a model, as JSON.
fn describe(name: &str, what: &Description) -> Value {
    json!({
        "name": name,
        "architecture": what.architecture.to_string(),
        "role": role(what.architecture.role()),
        "parameters": what.parameters,
        "layers": what.layers,
        "width": what.width,
        "vocabulary": what.vocabulary,
        "tokenizer_entries": what.tokenizer_entries,
        "mask_id": what.mask_id,
        "bos_id": what.bos_id,
        "eos_id": what.eos_id,
        "max_length": what.max_length,
        "time_conditioned": what.time_conditioned,
        "labels": what.labels,
        "stored_as": what.stored,
        "dtype": what.dtype_name(),
        "memory_bytes": what.memory_bytes,
        "licence": what.licence,
    })
}

/// What a model is used for, in one word.
fn role(role: Role) -> &'static str {
    match role {
        Role::Denoiser => "denoiser",
        Role::Scorer => "scorer",
        Role::Classifier => "classifier",
    }
}

/// A value for people.
fn words(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_string(),
        Value::Array(list) => {
            list.iter().map(|item| words(name, item)).collect::<Vec<_>>().join(", ")
        }
        Value::Number(n) => match n.as_u64() {
            Some(n) if name == "memory_bytes" => number::bytes(n),
            Some(n) if !name.ends_with("_id") => number::count(n),
            _ => n.to_string(),
        },
        other => other.to_string(),
    }
}
