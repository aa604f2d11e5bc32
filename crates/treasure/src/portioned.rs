//! Batches of at most so many states.

use std::sync::Arc;

use treasure_core::{Denoiser, Encoding, Result, State, Wrapper};
use treasure_text::{ChatTemplate, TextModel};

/// A denoiser that runs at most so many states at a time.
pub(crate) struct Portioned {
    pub(crate) inner: Arc<dyn TextModel>,
    pub(crate) size: usize,
}

impl Wrapper for Portioned {
    fn inner(&self) -> &dyn Denoiser {
        &*self.inner
    }

    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        let mut encodings = Vec::with_capacity(batch.len());
        for portion in batch.chunks(self.size) {
            encodings.extend(self.inner.encode(portion)?);
        }
        Ok(encodings)
    }

    fn encode_after(
        &self,
        batch: &[State<'_>],
        before: &[Option<&Encoding>],
    ) -> Result<Vec<Encoding>> {
        let mut encodings = Vec::with_capacity(batch.len());
        for (portion, before) in batch.chunks(self.size).zip(before.chunks(self.size)) {
            encodings.extend(self.inner.encode_after(portion, before)?);
        }
        Ok(encodings)
    }
}

impl treasure_text::Detokenize for Portioned {
    fn decode(&self, ids: &[u32]) -> treasure_text::Result<String> {
        self.inner.decode(ids)
    }
}

impl TextModel for Portioned {
    fn tokenizer(&self) -> treasure_text::Result<&treasure_models::Tokenizer> {
        self.inner.tokenizer()
    }

    fn bos_id(&self) -> Option<u32> {
        self.inner.bos_id()
    }

    fn eos_id(&self) -> Option<u32> {
        self.inner.eos_id()
    }

    fn end_ids(&self) -> Vec<u32> {
        self.inner.end_ids()
    }

    fn chat(&self) -> Option<&ChatTemplate> {
        self.inner.chat()
    }
}
