//! Masked language models as denoisers: `x_θ(z, t)` from a checkpoint.
//!
//! Guarantees: the head runs only on rows that are asked about; the mask token and padding rows of the
//! embedding have no mass; answers are bitwise independent of the batch.

mod sorted;

use std::sync::OnceLock;

use sorted::Sorted;
use treasure_core::{Answer, Denoiser, Encoding, Facts, MaskedSeq, Question, State, TokenId};
use treasure_text::{ChatTemplate, Detokenize, TextModel, Tokenizer};

use crate::{
    Error, Family, LoadOptions, Resolver, Result, Role, Source,
    arch::{Shift, sigma_at},
    describe::Description,
    exec::{self, Executor, Keep, Past, Runner, Sequence},
    load::{self, Loaded, Opened},
    stack::Reader,
};

/// A masked diffusion model or masked language model.
#[derive(Debug)]
pub struct MaskedLm {
    runner: Runner,
    shift: Shift,
    facts: Facts,
    mask_id: TokenId,
    tokenizer: Option<Tokenizer>,
    chat: Option<ChatTemplate>,
    borrowed: Option<Source>,
    lazy: OnceLock<std::result::Result<Tokenizer, String>>,
    description: Description,
}

/// The hidden states a head needs, one row per masked position.
struct Rows {
    positions: Vec<usize>,
    values: Vec<f32>,
    /// What the next pass may go on from, where that was asked for.
    past: Option<Past>,
}

load::shell!(MaskedLm, Role::Denoiser, "a denoiser");

impl MaskedLm {
    fn from_opened(
        executor: &dyn Executor,
        opened: &Opened,
        resolver: &Resolver,
        options: &LoadOptions,
    ) -> Result<Self> {
        let Loaded { net, tokenizer, mut description, chat } =
            opened.language_model(resolver, options, true)?;
        let mask_id = description.mask_id.ok_or_else(|| no_mask(&opened.source, opened.family))?;
        let rows = net.rows;
        if mask_id as usize >= rows {
            return Err(Error::expected("mask id", format!("below {rows}"), mask_id));
        }
        let mut never: Vec<TokenId> = (net.vocabulary as u32..rows as u32).collect();
        if let Some(tokenizer) = &tokenizer {
            never.extend((0..net.vocabulary as u32).filter(|&id| !tokenizer.knows(id)));
        }
        never.push(mask_id);
        never.sort_unstable();
        never.dedup();
        // mdlm ships no tokenizer and was trained on GPT-2's.
        let borrowed = match (&tokenizer, opened.family) {
            (None, Family::Mdlm) => resolver.resolve("gpt2", None).ok(),
            _ => None,
        };
        let reader = Reader::Vocabulary(net.head);
        let runner =
            opened.run(executor, net.stack, reader, tokenizer.as_ref(), &mut description)?;
        Ok(Self {
            facts: Facts {
                vocab_size: runner.outline().outputs,
                never,
                time_agnostic: !net.timed,
                max_len: net.max_len,
            },
            runner,
            shift: net.shift,
            mask_id,
            tokenizer,
            chat,
            borrowed,
            lazy: OnceLock::new(),
            description,
        })
    }

    /// The tokenizer: the model's own, the one the caller named, or for mdlm GPT-2's from the hub.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        if let Some(tokenizer) = &self.tokenizer {
            return Ok(tokenizer);
        }
        let Some(source) = &self.borrowed else {
            return Err(self.description.no_tokenizer());
        };
        let loaded = self.lazy.get_or_init(|| {
            let tokenizer = source
                .tokenizer()
                .and_then(|found| found.ok_or_else(|| source.missing("tokenizer.json")))
                .map_err(|error| error.to_string())?;
            tokenizer.check_against(self.facts.vocab_size).map_err(|error| error.to_string())?;
            Ok(tokenizer)
        });
        loaded.as_ref().map_err(|why| {
            Error::new(format!(
                "{}: ships no tokenizer, and gpt2's could not be had: {why}",
                self.description.name
            ))
            .with_hint("name a directory that holds GPT-2's tokenizer.json as the tokenizer")
        })
    }

    /// The tokenizer if it is loaded already; never reads a file or the network.
    pub fn tokenizer_at_hand(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_ref().or_else(|| self.lazy.get()?.as_ref().ok())
    }

    /// The mask token.
    pub fn mask_id(&self) -> TokenId {
        self.mask_id
    }

    /// The token in front of a text, if the tokenizer or the config names one.
    pub fn bos_id(&self) -> Option<TokenId> {
        self.description.bos_id.or_else(|| self.tokenizer_at_hand()?.specials().bos)
    }

    /// The token that ends a text, if the tokenizer or the config names one.
    pub fn eos_id(&self) -> Option<TokenId> {
        self.description.eos_id.or_else(|| self.tokenizer_at_hand()?.specials().eos)
    }

    /// Whether position 0 has no prediction and must be given (DiffuGPT, DiffuLLaMA).
    pub fn needs_first_token(&self) -> bool {
        self.shift == Shift::FirstGiven
    }

    /// Runs the network at a given noise level instead of a time.
    pub fn encode_at_sigma(&self, batch: &[&MaskedSeq], sigma: f64) -> Result<Vec<Encoding>> {
        if !sigma.is_finite() || sigma < 0.0 {
            return Err(Error::expected("sigma", "a finite number, not negative", sigma));
        }
        let batch: Vec<(&MaskedSeq, f32)> = batch.iter().map(|seq| (*seq, sigma as f32)).collect();
        self.run(&batch, None)
    }

    /// Raw logits `[rows, vocabulary]` at the given rows of a sequence of ids, unshifted and
    /// unconstrained: for checks against a reference.
    pub fn raw_logits(&self, ids: &[TokenId], rows: &[usize], sigma: f32) -> Result<Vec<f32>> {
        let sequence = Sequence { tokens: ids, keep: Keep::Positions(rows), sigma };
        let hidden = self.runner.hidden(&[sequence])?;
        self.runner.logits(hidden.values())
    }

    /// With `before`, keys and values of what did not change are those of earlier passes.
    fn run(
        &self,
        batch: &[(&MaskedSeq, f32)],
        before: Option<&[Option<&Encoding>]>,
    ) -> Result<Vec<Encoding>> {
        let mut tokens: Vec<Vec<TokenId>> = Vec::with_capacity(batch.len());
        let mut keep: Vec<Vec<usize>> = Vec::with_capacity(batch.len());
        for (seq, _) in batch {
            if seq.len() > self.facts.max_len {
                return Err(Error::expected(
                    "sequence",
                    format!("at most {} tokens", self.facts.max_len),
                    seq.len(),
                ));
            }
            if self.needs_first_token() && seq.n_masked() > 0 && seq.get(0).is_none() {
                return Err(Error::expected("position 0", "a given token", "a mask").with_hint(
                    "this model predicts each token from the one before: begin with its BOS token",
                ));
            }
            tokens.push(seq.slots().map(|slot| slot.unwrap_or(self.mask_id)).collect());
            keep.push(seq.masked().map(|position| self.row_of(position)).collect());
        }
        let sequences: Vec<Sequence<'_>> = batch
            .iter()
            .zip(&tokens)
            .zip(&keep)
            .map(|(((_, sigma), tokens), keep)| Sequence {
                tokens,
                keep: Keep::Positions(keep),
                sigma: *sigma,
            })
            .collect();
        let (hidden, pasts) = match before {
            None => (self.runner.hidden(&sequences)?, Vec::new()),
            Some(before) => {
                let pasts: Vec<Option<&Past>> = (before.iter())
                    .map(|before| {
                        before.and_then(|before| before.downcast::<Rows>()?.past.as_ref())
                    })
                    .collect();
                self.runner.hidden_after(&sequences, &pasts)?
            }
        };
        let pasts = pasts.into_iter().map(Some).chain(std::iter::repeat(None));
        Ok((batch.iter().enumerate().zip(pasts))
            .map(|((i, (seq, _)), past)| {
                let (positions, values) = (seq.masked().collect(), hidden.of(i).to_vec());
                let rows = Rows { positions, values, past };
                let held = rows.past.as_ref().map_or(0, Past::bytes);
                let bytes = 4 * rows.values.len() + 8 * rows.positions.len() + held;
                Encoding::new(rows, bytes)
            })
            .collect())
    }

    /// Which hidden state predicts a position.
    fn row_of(&self, position: usize) -> usize {
        match self.shift {
            Shift::None => position,
            Shift::KeepFirst | Shift::FirstGiven => position.saturating_sub(1),
        }
    }

    fn answer_all(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        let width = self.runner.outline().width;
        let mut hidden = Vec::new();
        let mut plans = Vec::with_capacity(batch.len());
        for question in batch {
            let sorted = Sorted::new(question, &self.facts.never)?;
            let rows = sorted.rows;
            for ask in &sorted.asks {
                hidden.extend_from_slice(&rows.values[ask.index * width..][..width]);
            }
            plans.push(sorted);
        }
        let questions: Vec<exec::RowQuestion<'_>> = plans
            .iter()
            .flat_map(|sorted| &sorted.asks)
            .enumerate()
            .map(|(row, ask)| exec::RowQuestion {
                row,
                banned: &ask.banned,
                best: ask.best,
                top: ask.top,
                normaliser: ask.normaliser,
                draws: &ask.draws,
                tokens: &ask.tokens,
            })
            .collect();
        let mut answers = self.runner.ask(&hidden, &questions)?;
        let whole: Vec<usize> = (plans.iter().flat_map(|sorted| &sorted.asks).enumerate())
            .filter_map(|(row, ask)| ask.whole.then_some(row))
            .collect();
        if !whole.is_empty() {
            let rows: Vec<f32> =
                whole.iter().flat_map(|row| &hidden[row * width..][..width]).copied().collect();
            let logits = self.runner.logits(&rows)?;
            for (&row, logits) in whole.iter().zip(logits.chunks(self.facts.vocab_size)) {
                let mut logits = logits.to_vec();
                for &token in questions[row].banned {
                    if let Some(logit) = logits.get_mut(token as usize) {
                        *logit = f32::NEG_INFINITY;
                    }
                }
                // Logits that were listed one by one stand in the same place: they come first.
                answers[row].logits.extend(logits);
            }
        }
        let mut answers = answers.into_iter();
        plans
            .iter()
            .zip(batch)
            .map(|(sorted, question)| sorted.assemble(question, &mut answers))
            .collect()
    }
}

impl Detokenize for MaskedLm {
    fn decode(&self, ids: &[TokenId]) -> treasure_text::Result<String> {
        self.tokenizer()?.decode(ids)
    }
}

impl TextModel for MaskedLm {
    fn tokenizer(&self) -> treasure_text::Result<&Tokenizer> {
        Ok(self.tokenizer()?)
    }

    fn bos_id(&self) -> Option<TokenId> {
        self.bos_id()
    }

    fn eos_id(&self) -> Option<TokenId> {
        self.eos_id()
    }

    fn end_ids(&self) -> Vec<TokenId> {
        let ends = &self.description.end_ids;
        if ends.is_empty() { self.eos_id().into_iter().collect() } else { ends.clone() }
    }

    fn chat(&self) -> Option<&ChatTemplate> {
        self.chat.as_ref()
    }
}

impl Denoiser for MaskedLm {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn row_invariant(&self) -> bool {
        self.runner.facts().row_invariant
    }

    fn encode(&self, batch: &[State<'_>]) -> treasure_core::Result<Vec<Encoding>> {
        Ok(self.run(&levels(batch)?, None)?)
    }

    fn reuses(&self) -> bool {
        self.facts.time_agnostic && self.runner.reuses()
    }

    fn encode_after(
        &self,
        batch: &[State<'_>],
        before: &[Option<&Encoding>],
    ) -> treasure_core::Result<Vec<Encoding>> {
        Ok(self.run(&levels(batch)?, Some(before))?)
    }

    fn read(&self, batch: &[Question<'_>]) -> treasure_core::Result<Vec<Answer>> {
        Ok(self.answer_all(batch)?)
    }

    fn encoding_bytes(&self, masks: usize) -> u64 {
        let row = 4 * self.runner.outline().width + 8;
        (masks as u64).saturating_mul(row as u64)
    }
}

/// States at the noise levels of their times.
fn levels<'a>(batch: &[State<'a>]) -> Result<Vec<(&'a MaskedSeq, f32)>> {
    let level = |state: &State<'a>| match (0.0..=1.0).contains(&state.t) {
        true => Ok((state.seq, sigma_at(state.t) as f32)),
        false => Err(Error::expected("time", "from 0 to 1", state.t)),
    };
    batch.iter().map(level).collect()
}

fn no_mask(source: &Source, family: Family) -> Error {
    let hint = match family {
        Family::DiffuLlama => "name the mask id: DiffuLLaMA's is 811",
        Family::DiffuGpt => "name the mask id: DiffuGPT-s has 10541, DiffuGPT-m 50257",
        _ => "name the mask id: the token that stands for a masked one",
    };
    Error::new(format!("{}: no mask token in config.json or the tokenizer", source.name()))
        .with_hint(hint)
}
