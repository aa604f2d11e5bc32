//! Python models as denoisers: one that keeps its logits on its device and answers questions there, and one
//! that hands its logits over.

use std::sync::Arc;

use treasure::{
    core::{
        Answer, Denoiser, Dense, Encoding, Error, Facts, Question, Result, State, TokenId, Wrapper,
    },
    text::{Detokenize, TextModel, Tokenizer},
};

use crate::bridge::{Ask, Bridge, Message, States};

/// What is known of a Python model before any search.
#[derive(Clone)]
pub(crate) struct Card {
    pub facts: Facts,
    pub mask: TokenId,
    pub tokenizer: Arc<Tokenizer>,
    pub begin: Option<TokenId>,
    pub ends: Vec<TokenId>,
    /// Whether it answers questions itself.
    pub on_device: bool,
}

impl Card {
    /// The model as one search sees it.
    pub(crate) fn model(&self, bridge: Bridge) -> Own {
        let denoiser: Arc<dyn Denoiser> = match self.on_device {
            true => Arc::new(OnDevice { facts: self.facts.clone(), mask: self.mask, bridge }),
            false => {
                let mask = self.mask;
                let logits = move |batch: &[State<'_>]| {
                    let states = flat(batch, mask);
                    bridge.ask(|reply| Message::Logits { states, reply }).map_err(failed)
                };
                Arc::new(Dense::new(self.facts.clone(), logits))
            }
        };
        let (tokenizer, ends) = (self.tokenizer.clone(), self.ends.clone());
        Own { denoiser, tokenizer, begin: self.begin, ends }
    }
}

fn failed(message: String) -> Error {
    Error::Denoiser { message, source: None }
}

fn flat(batch: &[State<'_>], mask: TokenId) -> States {
    let mut flat = States::default();
    for state in batch {
        flat.lengths.push(state.seq.len());
        flat.ids.extend(state.seq.slots().map(|slot| i64::from(slot.unwrap_or(mask))));
        flat.masks.push(state.seq.n_masked());
        flat.positions.extend(state.seq.masked().map(|position| position as i64));
        flat.times.push(state.t);
    }
    flat
}

/// A model whose logits stay where they were made.
struct OnDevice {
    facts: Facts,
    mask: TokenId,
    bridge: Bridge,
}

/// The name of an encoding that Python keeps; Python may forget it when this is dropped.
struct Handle {
    number: u64,
    bridge: Bridge,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.bridge.drop_encoding(self.number);
    }
}

impl Denoiser for OnDevice {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        let (states, dropped) = (flat(batch, self.mask), self.bridge.take_dropped());
        let made =
            self.bridge.ask(|reply| Message::Encode { states, dropped, reply }).map_err(failed)?;
        let keep =
            |(number, bytes)| Encoding::new(Handle { number, bridge: self.bridge.clone() }, bytes);
        Ok(made.into_iter().map(keep).collect())
    }

    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        let asks = batch.iter().map(ask).collect::<Result<Vec<_>>>()?;
        let dropped = self.bridge.take_dropped();
        self.bridge.ask(|reply| Message::Read { asks, dropped, reply }).map_err(failed)
    }
}

/// A question in rows instead of positions.
fn ask(question: &Question<'_>) -> Result<Ask> {
    let handle = question.encoding.downcast::<Handle>();
    let handle = handle.ok_or_else(|| failed("the encoding is another denoiser's".into()))?.number;
    let positions: Vec<usize> = question.seq.masked().collect();
    let row = |position: usize| {
        let found = positions.binary_search(&position);
        found.map_err(|_| failed(format!("position {position}: expected a mask, got a token")))
    };
    let want = question.want;
    let rows_before = |&(token, end): &(TokenId, usize)| {
        (token, positions.partition_point(|&position| position < end))
    };
    Ok(Ask {
        handle,
        everywhere: question.bans.anywhere().to_vec(),
        before: question.bans.early().iter().map(rows_before).collect(),
        argmax: want.argmax,
        confidence: want.confidence,
        top: want.top.iter().map(|at| Ok((row(at.position)?, at.k))).collect::<Result<_>>()?,
        rows: want.rows.iter().map(|&position| row(position)).collect::<Result<_>>()?,
        draws: want.draws.iter().map(|d| Ok((row(d.position)?, d.u))).collect::<Result<_>>()?,
        logprobs: (want.logprobs.iter().map(|&(at, token)| Ok((row(at)?, token))))
            .collect::<Result<_>>()?,
    })
}

/// A Python model with its tokenizer.
pub(crate) struct Own {
    denoiser: Arc<dyn Denoiser>,
    tokenizer: Arc<Tokenizer>,
    begin: Option<TokenId>,
    ends: Vec<TokenId>,
}

impl Wrapper for Own {
    fn inner(&self) -> &dyn Denoiser {
        &*self.denoiser
    }
}

impl Detokenize for Own {
    fn decode(&self, ids: &[TokenId]) -> treasure::text::Result<String> {
        Detokenize::decode(&*self.tokenizer, ids)
    }
}

impl TextModel for Own {
    fn tokenizer(&self) -> treasure::text::Result<&Tokenizer> {
        Ok(&self.tokenizer)
    }

    fn bos_id(&self) -> Option<TokenId> {
        self.begin
    }

    fn eos_id(&self) -> Option<TokenId> {
        self.ends.first().copied()
    }

    fn end_ids(&self) -> Vec<TokenId> {
        self.ends.clone()
    }
}
