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
    options::{Asks, Common, Flags},
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
    let shipped: Vec<Value> = treasure_pocket::MODELS
        .par_iter()
        .map(|model| {
            let name = format!("pocket/{}", model.name);
            let what = inspect(resolver, &name, &LoadOptions::default())
                .context(|| format!("model {name}"))?;
            let is_default = name == "pocket/denoiser";
            let mut row = Description { name, ..what }.to_value();
            row["bytes"] = json!(model.bytes());
            row["default"] = json!(is_default);
            Ok(row)
        })
        .collect::<Outcome<_>>()?;
    let cached = resolver.cached();
    if common.json {
        let cache = resolver.cache().map(|path| path.display().to_string());
        return print::line(json!({ "shipped": shipped, "cache": cache, "cached": cached }));
    }
    if shipped.is_empty() {
        print::line("This binary carries no pocket models.")?;
    } else {
        let fields =
            ["name", "architecture", "parameters", "vocabulary", "mask_id", "bytes", "licence"];
        let cell = |row: &Value, field: &str| match &row[field] {
            Value::Null => "–".into(),
            Value::Number(n) if field == "bytes" => {
                DecimalBytes(n.as_u64().unwrap_or(0)).to_string()
            }
            Value::Number(n) => words::count(n.as_u64().unwrap_or(0)),
            text if field == "name" && row["default"] == true => {
                format!("{} (the default, `pocket`)", shown(field, text))
            }
            text => shown(field, text),
        };
        let cells = |row| fields.iter().map(|field| cell(row, field)).collect();
        let rows: Vec<Vec<String>> = shipped.iter().map(cells).collect();
        let header =
            ["shipped", "architecture", "parameters", "vocabulary", "mask id", "size", "licence"];
        let right = [false, false, true, true, true, true, false];
        print::line(words::table(&header, &rows, &right))?;
    }
    print::line(match resolver.cache() {
        None => "\nno hub cache: neither HF_HOME nor HOME is set".to_owned(),
        Some(cache) if cached.is_empty() => format!("\nnothing cached in {}", cache.display()),
        Some(cache) => format!("\ncached in {}\n  {}", cache.display(), cached.join("\n  ")),
    })
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
