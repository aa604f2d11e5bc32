//! `treasure models`: what is shipped and cached, and what a model is.

use clap::{Args, Subcommand};
use indicatif::DecimalBytes;
use rayon::prelude::*;
use serde_json::{Value, json};
use treasure::{
    Field, Group, Plan, Request, Session,
    models::{Description, LoadOptions, inspect},
    words,
};

use crate::{
    Verdict,
    failure::{OrFail as _, Outcome},
    options::{
        common::Common,
        request::{Asks, Flags},
    },
    output::print,
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
    pub checkpoint: Flags<Self>,
}

impl Asks for Inspect {
    fn asks(field: &Field) -> bool {
        field.group == Group::Checkpoint || field.name == "precision"
    }
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
                let mut row = Description { name: name.clone(), ..what.clone() }.to_value();
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
                let optional = |n: Option<u64>| n.map_or_else(|| "–".into(), words::count);
                vec![
                    name,
                    what.architecture.to_string(),
                    words::count(what.parameters),
                    optional(what.vocabulary.map(|n| n as u64)),
                    optional(what.mask_id.map(u64::from)),
                    DecimalBytes(*bytes as u64).to_string(),
                    what.licence.clone().unwrap_or_else(|| "–".into()),
                ]
            })
            .collect();
        let header =
            ["shipped", "architecture", "parameters", "vocabulary", "mask id", "size", "licence"];
        let right = [false, false, true, true, true, true, false];
        print::line(words::table(&header, &rows, &right))?;
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
        let model = Some(self.name.clone());
        let load = Plan::new(&Request { model, ..self.checkpoint.request(common)? })?.load;
        let what = inspect(Session::pocket()?.store().resolver(), &self.name, &load)
            .context(|| format!("model {}", self.name))?;
        let mut row = Description { name: self.name.clone(), ..what.clone() }.to_value();
        if let Some(needs) = treasure::needs(&what).context(|| "measuring this machine")? {
            row["needs"] = needs;
        }
        if common.json {
            return print::line(row);
        }
        let rows: Vec<Vec<String>> = row
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, _)| *name != "needs")
            .filter(|(_, value)| !value.is_null() && value.as_array().is_none_or(|l| !l.is_empty()))
            .map(|(name, value)| {
                vec![name.replace("_bytes", "").replace('_', " "), shown(name, value)]
            })
            .collect();
        let width = rows.iter().map(|row| row[0].chars().count()).max().unwrap_or(0);
        for row in rows {
            print::line(format!("{:width$}  {}", row[0], row[1]))?;
        }
        match row.get("needs") {
            Some(needs) => {
                let memory = DecimalBytes(needs["memory_bytes"].as_u64().unwrap_or(0));
                print::line(words::needs(needs, &memory.to_string()))
            }
            None => Ok(()),
        }
    }
}

/// A value for people.
fn shown(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_string(),
        Value::Array(list) => {
            list.iter().map(|item| shown(name, item)).collect::<Vec<_>>().join(", ")
        }
        Value::Number(n) => match n.as_u64() {
            Some(n) if name == "memory_bytes" => DecimalBytes(n).to_string(),
            Some(n) if !name.ends_with("_id") => words::count(n),
            _ => n.to_string(),
        },
        other => other.to_string(),
    }
}
