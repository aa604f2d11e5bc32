//! Tables are built once per pattern and vocabulary and then shared.

use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::{Dfa, Limits, Pattern, Result, Tables, Vocabulary};

/// Tables that are kept; a process that serves strangers must not keep them all.
const KEPT: usize = 64;

/// What a pattern was built into.
type Built = (Arc<Dfa>, Arc<Tables>);

/// The tables of one vocabulary, by pattern.
#[derive(Debug)]
pub struct Cache {
    vocabulary: Arc<Vocabulary>,
    limits: Limits,
    tables: Mutex<FxHashMap<Pattern, Built>>,
}

impl Cache {
    /// An empty cache.
    pub fn new(vocabulary: Arc<Vocabulary>, limits: Limits) -> Self {
        Self { vocabulary, limits, tables: Mutex::default() }
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// The tables of a pattern, built the first time it is asked for.
    pub fn tables(&self, pattern: &Pattern) -> Result<Arc<Tables>> {
        Ok(self.built(pattern)?.1)
    }

    /// The automaton of a pattern whose tables are asked for as well.
    pub fn dfa(&self, pattern: &Pattern) -> Result<Arc<Dfa>> {
        Ok(self.built(pattern)?.0)
    }

    fn built(&self, pattern: &Pattern) -> Result<Built> {
        let known = || self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = known().get(pattern) {
            return Ok(built.clone());
        }
        // Built outside the lock: another thread may build the same, and then the first one stays.
        let dfa = pattern.dfa(&self.limits)?;
        let tables = Arc::new(Tables::build(&dfa, &self.vocabulary, &self.limits)?);
        let mut known = known();
        if known.len() >= KEPT {
            known.clear();
        }
        Ok(known.entry(pattern.clone()).or_insert((Arc::new(dfa), tables)).clone())
    }

    /// Forgets all tables.
    pub fn clear(&self) {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
