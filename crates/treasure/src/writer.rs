//! Denoisers that write text: a checkpoint, or a function with a tokenizer beside it.

use std::sync::Arc;

use treasure_core::{Denoiser, TokenId, Wrapper};
use treasure_models::Tokenizer;
use treasure_text::{Detokenize, TextModel};

/// The text of a run of tokens, as far as it can be decoded.
pub(crate) fn decode_run(model: &dyn TextModel, tokens: &[TokenId]) -> String {
    let decoded = model.tokenizer().and_then(|tokenizer| tokenizer.decode_fragment(tokens));
    decoded.unwrap_or_default()
}

/// Somebody's own denoiser with a tokenizer: see [`treasure_core::Dense`] for a function from states to
/// logits.
pub struct FunctionModel {
    denoiser: Arc<dyn Denoiser>,
    tokenizer: Tokenizer,
    begin: Option<TokenId>,
    end: Option<TokenId>,
}

impl FunctionModel {
    /// A denoiser that reads and writes with `tokenizer`.
    pub fn new(denoiser: impl Denoiser + 'static, tokenizer: Tokenizer) -> Self {
        Self { denoiser: Arc::new(denoiser), tokenizer, begin: None, end: None }
    }

    /// The tokens that begin and end a text.
    #[must_use]
    pub fn with_ends(mut self, begin: Option<TokenId>, end: Option<TokenId>) -> Self {
        (self.begin, self.end) = (begin, end);
        self
    }
}

impl Wrapper for FunctionModel {
    fn inner(&self) -> &dyn Denoiser {
        &*self.denoiser
    }
}

impl Detokenize for FunctionModel {
    fn decode(&self, ids: &[TokenId]) -> treasure_text::Result<String> {
        Detokenize::decode(&self.tokenizer, ids)
    }
}

impl TextModel for FunctionModel {
    fn tokenizer(&self) -> treasure_text::Result<&Tokenizer> {
        Ok(&self.tokenizer)
    }

    fn bos_id(&self) -> Option<TokenId> {
        self.begin
    }

    fn eos_id(&self) -> Option<TokenId> {
        self.end
    }
}
