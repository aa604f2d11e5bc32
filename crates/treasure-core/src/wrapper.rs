//! Denoisers around denoisers: what one does not do in its own way is handed on here, in one place.

use crate::{Answer, Denoiser, Encoding, Facts, Question, Result, State};

/// A denoiser around another one, which does whatever this leaves as it is.
///
/// Every wrapper is a [`Denoiser`]; what it does not say of itself holds of the inner one.
pub trait Wrapper: Send + Sync {
    /// The denoiser inside.
    fn inner(&self) -> &dyn Denoiser;

    /// [`Denoiser::encode`].
    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        self.inner().encode(batch)
    }

    /// [`Denoiser::encode_after`].
    fn encode_after(
        &self,
        batch: &[State<'_>],
        before: &[Option<&Encoding>],
    ) -> Result<Vec<Encoding>> {
        self.inner().encode_after(batch, before)
    }

    /// [`Denoiser::read`].
    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        self.inner().read(batch)
    }
}

impl<W: Wrapper> Denoiser for W {
    fn facts(&self) -> &Facts {
        self.inner().facts()
    }

    fn row_invariant(&self) -> bool {
        self.inner().row_invariant()
    }

    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        Wrapper::encode(self, batch)
    }

    fn reuses(&self) -> bool {
        self.inner().reuses()
    }

    fn encode_after(
        &self,
        batch: &[State<'_>],
        before: &[Option<&Encoding>],
    ) -> Result<Vec<Encoding>> {
        Wrapper::encode_after(self, batch, before)
    }

    fn passes(&self) -> u64 {
        self.inner().passes()
    }

    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        Wrapper::read(self, batch)
    }

    fn encoding_bytes(&self, masks: usize) -> u64 {
        self.inner().encoding_bytes(masks)
    }
}
