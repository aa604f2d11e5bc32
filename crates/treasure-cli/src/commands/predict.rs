//! `treasure predict`: what the denoiser would put at each mask.

use std::{num::NonZeroUsize, path::Path};

use clap::Args;
use serde_json::json;
use treasure::{Field, Group, Plan, Predicted, Session};

use crate::{
    Verdict,
    failure::Outcome,
    input,
    options::{Asks, Common, Flags},
    output::print,
};

/// What the denoiser would put at each mask
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  treasure predict \"The cat [MASK] on the [MASK].\"
  treasure predict --model DIR --ids 5,17,M,42 --json

Log-probabilities come after the two denoiser constraints: the mask token has
none. Positions count tokens from 0, special tokens included. `-` reads a text
from standard input.")]
pub struct Predict {
    /// Texts with holes, such as "The [MASK] sat on the [MASK:2]."
    #[arg(value_name = "TEXT", required_unless_present = "ids")]
    pub text: Vec<String>,
    /// Token ids with M for a mask; needs no tokenizer; may be repeated
    #[arg(long, value_name = "IDS", conflicts_with = "text")]
    pub ids: Vec<String>,
    /// Tokens shown at each mask
    #[arg(long, value_name = "N", default_value = "5", value_parser = crate::options::count("top"))]
    pub top: NonZeroUsize,
    /// The noise level σ of time-conditioned models [default: from the share of masks]
    #[arg(long, value_name = "σ", value_parser = crate::options::number)]
    pub sigma: Option<f64>,
    /// The denoiser.
    #[command(flatten)]
    pub model: Flags<Self>,
}

impl Asks for Predict {
    fn asks(field: &Field) -> bool {
        matches!(field.group, Group::Model | Group::Checkpoint)
    }
}

impl Predict {
    /// Loads the model and answers every input in order.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        let (plan, session) = (Plan::new(&self.model.request(common)?)?, Session::pocket()?);
        let ids = self.ids.iter().map(|ids| treasure::read_ids(ids));
        let given = ids.collect::<treasure::Result<Vec<_>>>()?;
        let mut all: Vec<Vec<Predicted>> = Vec::new();
        for text in &self.text {
            let text = match text.as_str() {
                "-" => input::read(Path::new("-"))?.trim_end_matches('\n').to_owned(),
                text => text.to_owned(),
            };
            all.push(session.predict(&plan, &text, self.top.get(), self.sigma)?);
        }
        for slots in given {
            all.push(session.predict_ids(&plan, slots, self.top.get(), self.sigma)?);
        }
        for (index, positions) in all.iter().enumerate() {
            let apart = if index > 0 { "\n" } else { "" };
            let lines: Vec<String> = positions.iter().map(Predicted::to_string).collect();
            let words = format!("{apart}{}", lines.join("\n"));
            print::either(common, &json!({"positions": positions}), words)?;
        }
        Ok(Verdict::Done)
    }
}
