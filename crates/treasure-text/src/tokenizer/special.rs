//! Which ids mean beginning, end, mask and padding: from `tokenizer_config.json` and friends, never guessed
//! from positions.

use serde_json::Value;
use tokenizers::Tokenizer as Inner;

/// Names under which masked language models publish their mask token.
const MASKS: [&str; 5] = ["[MASK]", "<mask>", "<|mask|>", "<|mdm_mask|>", "[¨M¨]"];

/// The special tokens of a tokenizer, by role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Specials {
    names: [Option<String>; 4],
    /// Which roles a file mentions, if only to say that no token has it.
    mentioned: [bool; 4],
    /// Put in front of a text.
    pub bos: Option<u32>,
    /// Ends a text.
    pub eos: Option<u32>,
    /// Stands for a token to be predicted.
    pub mask: Option<u32>,
    /// Fills up a batch.
    pub pad: Option<u32>,
}

const ROLES: [&str; 4] = ["bos_token", "eos_token", "mask_token", "pad_token"];

impl Specials {
    /// By id, for containers that store ids.
    pub fn from_ids(
        bos: Option<u32>,
        eos: Option<u32>,
        mask: Option<u32>,
        pad: Option<u32>,
    ) -> Self {
        Self { names: Default::default(), mentioned: [true; 4], bos, eos, mask, pad }
    }

    /// Whether a file said which token begins a text, or that none does.
    pub fn bos_is_stated(&self) -> bool {
        self.mentioned[0]
    }

    /// Takes over what a file beside the tokenizer says of the roles, as far as no file before it did.
    pub fn note(&mut self, config: &serde_json::Map<String, Value>) {
        for (i, role) in ROLES.iter().enumerate() {
            self.mentioned[i] |= config.contains_key(*role);
            if self.names[i].is_none() {
                self.names[i] = config.get(*role).and_then(content).map(str::to_owned);
            }
        }
    }

    /// Looks the names up in the vocabulary.
    pub(super) fn complete(&mut self, inner: &Inner) {
        let ids = [&mut self.bos, &mut self.eos, &mut self.mask, &mut self.pad];
        for (id, name) in ids.into_iter().zip(&self.names) {
            *id = id.or_else(|| inner.token_to_id(name.as_deref()?));
        }
        // GPT-2's and RoBERTa's classes have these by default and their files do not repeat them.
        if self.bos.is_none() && !self.mentioned[0] {
            self.bos = ["<s>", "<|endoftext|>"].iter().find_map(|name| inner.token_to_id(name));
        }
        if self.eos.is_none() && !self.mentioned[1] {
            self.eos = ["</s>", "<|endoftext|>"].iter().find_map(|name| inner.token_to_id(name));
        }
        if self.mask.is_none() {
            self.mask = MASKS.iter().find_map(|name| inner.token_to_id(name));
        }
    }
}

/// A token is written as text or as an object with `content`.
fn content(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}
