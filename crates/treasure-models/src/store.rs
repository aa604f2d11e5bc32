//! Each set of weights once per process, whoever asks: denoiser, reward, judge or screen.
//!
//! Guarantee: two requests for one checkpoint read the same way share its weights; the second waits for
//! the first instead of loading again.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{Classifier, LoadOptions, MaskedLm, Resolver, Result, Scorer};

type Key = (String, LoadOptions);
type Kept<M> = Mutex<HashMap<Key, Arc<Mutex<Option<Arc<M>>>>>>;

/// Loaded models by name and by how they were read.
#[derive(Default)]
pub struct ModelStore {
    resolver: Resolver,
    denoisers: Kept<MaskedLm>,
    scorers: Kept<Scorer>,
    classifiers: Kept<Classifier>,
    loaded: AtomicUsize,
}

impl std::fmt::Debug for ModelStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ModelStore({} loaded)", self.loaded())
    }
}

impl ModelStore {
    /// An empty store that finds models through `resolver`.
    pub fn new(resolver: Resolver) -> Self {
        Self { resolver, ..Self::default() }
    }

    /// Where models are found.
    pub fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// How many sets of weights were loaded so far.
    pub fn loaded(&self) -> usize {
        self.loaded.load(Ordering::Relaxed)
    }

    /// A denoiser.
    pub fn denoiser(&self, name: &str, options: &LoadOptions) -> Result<Arc<MaskedLm>> {
        let load = || MaskedLm::load(&self.resolver, name, options);
        self.once(&self.denoisers, (name.to_owned(), options.clone()), load)
    }

    /// An autoregressive scorer.
    pub fn scorer(&self, name: &str, options: &LoadOptions) -> Result<Arc<Scorer>> {
        let load = || Scorer::load(&self.resolver, name, options);
        self.once(&self.scorers, (name.to_owned(), options.clone()), load)
    }

    /// A classifier, whatever windows those who ask look through ([`Classifier::ids_within`]).
    pub fn classifier(&self, name: &str, options: &LoadOptions) -> Result<Arc<Classifier>> {
        let load = || Classifier::load(&self.resolver, name, options);
        self.once(&self.classifiers, (name.to_owned(), options.clone()), load)
    }

    /// The model of a key, loaded by the first who asks.
    fn once<M>(
        &self,
        kept: &Kept<M>,
        key: Key,
        load: impl FnOnce() -> Result<M>,
    ) -> Result<Arc<M>> {
        let place = {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.entry(key).or_default().clone()
        };
        // Loading holds this model's place alone: others load beside it.
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = &*place {
            return Ok(model.clone());
        }
        let model = Arc::new(load()?);
        self.loaded.fetch_add(1, Ordering::Relaxed);
        *place = Some(model.clone());
        Ok(model)
    }
}
