//! `treasure predict`: what the denoiser would put at each mask.

use std::num::NonZeroUsize;

use clap::Args;
use serde::Serialize;
use treasure_core::{At, Bans, Candidate, Denoiser as _, MaskedSeq, Question, State, Want};
use treasure_models::MaskedLm;
use treasure_rewards::Start;

use crate::{
    Verdict,
    failure::{Failure, Outcome},
    input::{ids, template::Template},
    loading,
    options::{common::Common, model::ModelOptions},
    output::{number, print},
};

/// What the denoiser would put at each mask
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  treasure predict \"The cat [MASK] on the [MASK].\"
  treasure predict --model DIR --ids 5,17,M,42 --json

Log-probabilities come after the two denoiser constraints: the mask token has none.
Positions count tokens from 0, special tokens included.")]
pub struct Predict {
    /// Text with [MASK] or [MASK:N]
    #[arg(value_name = "TEXT", required_unless_present = "ids", conflicts_with = "ids")]
    pub text: Vec<String>,
    /// Token ids with M for a mask, such as 1,2,M,4; needs no tokenizer; may be repeated
    #[arg(long, value_name = "IDS")]
    pub ids: Vec<String>,
    /// How many tokens to show at each mask
    #[arg(long, value_name = "K", default_value = "5", value_parser = crate::options::positive)]
    pub top: NonZeroUsize,
    /// The noise level, for time-conditioned models
    #[arg(long, value_name = "SIGMA", allow_negative_numbers = true)]
    pub sigma: Option<f64>,
    /// The denoiser.
    #[command(flatten)]
    pub model: ModelOptions,
}

/// The JSON object of one input.
#[derive(Serialize)]
struct Prediction {
    positions: Vec<Position>,
}

/// What may stand at a mask.
#[derive(Serialize)]
struct Position {
    position: usize,
    top: Vec<Choice>,
}

/// A token and how likely it is.
#[derive(Serialize)]
struct Choice {
    id: u32,
    /// `null` without a tokenizer.
    token: Option<String>,
    logprob: f64,
}

impl Predict {
    /// Loads the model and answers every input in order.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        let templates: Vec<Template> =
            self.text.iter().map(|text| Template::parse(text)).collect::<Outcome<_>>()?;
        let given: Vec<_> =
            self.ids.iter().map(|ids| ids::with_masks(ids)).collect::<Outcome<_>>()?;
        if self.sigma.is_some_and(|sigma| !(sigma.is_finite() && sigma >= 0.0)) {
            return Err(Failure::new("--sigma: expected a number of at least 0"));
        }
        let model = loading::denoiser(&loading::resolver(), &self.model)?;
        if self.sigma.is_some() && model.facts().time_agnostic {
            return Err(Failure::new(format!(
                "--sigma: {} does not look at the noise level",
                self.model.model
            ))
            .hint("leave it out: only time-conditioned models use it"));
        }
        let mut inputs = Vec::new();
        for template in &templates {
            inputs.push(Start::template(&model, &template.parts)?.state);
        }
        for slots in given {
            inputs.push(checked(&model, slots)?);
        }
        for (index, state) in inputs.iter().enumerate() {
            let prediction = self.predict(&model, state)?;
            if common.json {
                print::line(serde_json::to_string(&prediction)?)?;
            } else {
                if index > 0 {
                    print::line("")?;
                }
                print::line(prediction.lines())?;
            }
        }
        Ok(Verdict::Done)
    }

    fn predict(&self, model: &MaskedLm, state: &MaskedSeq) -> Outcome<Prediction> {
        let encoding = match self.sigma {
            Some(sigma) => model.encode_at_sigma(&[state], sigma)?,
            // All masked is the start of the diffusion, t = 1.
            None => model
                .encode(&[State { seq: state, t: state.n_masked() as f64 / state.len() as f64 }])?,
        };
        let top: Vec<At> =
            state.masked().map(|position| At { position, k: self.top.get() }).collect();
        let want = Want { top: &top, ..Want::default() };
        let bans = Bans::none();
        let question = Question { seq: state, encoding: &encoding[0], bans: &bans, want };
        let answer = model.read(&[question])?.swap_remove(0);
        let tokenizer = if self.ids.is_empty() {
            Some(model.tokenizer()?)
        } else {
            // Ids need no tokenizer: one that is not there is no reason to fetch it.
            model.tokenizer_at_hand()
        };
        let choice = |candidate: &Candidate| Choice {
            id: candidate.token,
            token: tokenizer.and_then(|tokenizer| tokenizer.token_text(candidate.token)),
            logprob: candidate.logprob,
        };
        let positions = top
            .iter()
            .zip(&answer.top)
            .map(|(at, list)| Position {
                position: at.position,
                top: list.iter().map(choice).collect(),
            })
            .collect();
        Ok(Prediction { positions })
    }
}

/// Ids as a state, after checking them against the model.
fn checked(model: &MaskedLm, slots: Vec<Option<u32>>) -> Outcome<MaskedSeq> {
    let vocabulary = model.facts().vocab_size;
    if let Some(id) = slots.iter().flatten().find(|&&id| id as usize >= vocabulary) {
        return Err(Failure::new(format!("--ids: expected ids below {vocabulary}, got {id}")));
    }
    if slots.iter().all(Option::is_some) {
        return Err(Failure::new("--ids: expected at least one mask").hint("write M for a mask"));
    }
    Ok(MaskedSeq::from_slots(slots))
}

impl Prediction {
    /// The lines for people.
    fn lines(&self) -> String {
        let line = |position: &Position| {
            let choices: Vec<_> = position.top.iter().map(Choice::words).collect();
            format!("position {}   {}", position.position, choices.join("   "))
        };
        self.positions.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

impl Choice {
    fn words(&self) -> String {
        let token = match &self.token {
            Some(token) => format!("{token:?}"),
            None => self.id.to_string(),
        };
        format!("{token} {}", number::probability(self.logprob.exp()))
    }
}
