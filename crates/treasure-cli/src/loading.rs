//! From names to models: the pocket models in the binary, directories and hub ids.

use std::{num::NonZeroUsize, sync::Arc};

use treasure_core::{Answer, Denoiser, Encoding, Facts, Question, State};
use treasure_models::{LoadOptions, MaskedLm, Resolver};

use crate::{
    failure::{Failure, OrFail as _, Outcome},
    options::model::{CheckpointOptions, ModelOptions},
};

/// The name of the default denoiser.
pub const POCKET: &str = "pocket";

/// A resolver that knows the models in the binary: `pocket` is the denoiser, `pocket/NAME` any of them.
pub fn resolver() -> Resolver {
    let mut resolver = Resolver::new();
    for model in treasure_pocket::MODELS {
        resolver = resolver.with_embedded(format!("{POCKET}/{}", model.name), model.files);
        if model.name == "denoiser" {
            resolver = resolver.with_embedded(POCKET, model.files);
        }
    }
    resolver
}

/// The error for a pocket model that this binary does not carry.
pub fn no_pocket(name: &str) -> Failure {
    Failure::new(format!("{name}: this binary carries no pocket models")).hint(
        "name a model with --model DIR-or-ID and a reward with --reward (hf:DIR#LABEL, ppl:DIR, \
         regex:…), or build with the feature `pocket` from a full clone",
    )
}

/// Refuses a pocket model that this binary does not carry.
pub fn check_pocket(name: &str) -> Outcome<()> {
    let own = match name.strip_prefix(POCKET) {
        Some("") => "denoiser",
        Some(rest) if rest.starts_with('/') => &rest[1..],
        _ => return Ok(()),
    };
    if treasure_pocket::model(own).is_some() {
        return Ok(());
    }
    if treasure_pocket::MODELS.is_empty() {
        return Err(no_pocket(name));
    }
    let names: Vec<_> = treasure_pocket::MODELS.iter().map(|model| model.name).collect();
    Err(Failure::new(format!("{name}: expected one of {}, got {own:?}", names.join(", ")))
        .hint("`treasure models list` shows what is shipped"))
}

/// How to read a checkpoint.
pub fn load_options(options: &CheckpointOptions) -> Outcome<LoadOptions> {
    Ok(LoadOptions {
        dtype: options.dtype.parse()?,
        mask_id: options.mask_id,
        tokenizer: options.tokenizer.clone(),
        as_kind: options.read_as.as_deref().map(str::parse).transpose()?,
        revision: None,
    })
}

/// Loads the denoiser.
pub fn denoiser(resolver: &Resolver, options: &ModelOptions) -> Outcome<MaskedLm> {
    let name = &options.model;
    check_pocket(name)?;
    MaskedLm::load(resolver, name, &load_options(&options.checkpoint)?)
        .context(|| format!("model {name}"))
}

/// A denoiser that runs at most so many states at a time.
pub struct Batched {
    /// The denoiser.
    pub inner: Arc<MaskedLm>,
    /// The most states in one batch.
    pub size: Option<NonZeroUsize>,
}

impl Denoiser for Batched {
    fn facts(&self) -> &Facts {
        self.inner.facts()
    }

    fn encode(&self, batch: &[State<'_>]) -> treasure_core::Result<Vec<Encoding>> {
        let Some(size) = self.size else { return self.inner.encode(batch) };
        let mut encodings = Vec::with_capacity(batch.len());
        for chunk in batch.chunks(size.get()) {
            encodings.extend(self.inner.encode(chunk)?);
        }
        Ok(encodings)
    }

    fn read(&self, batch: &[Question<'_>]) -> treasure_core::Result<Vec<Answer>> {
        self.inner.read(batch)
    }
}
