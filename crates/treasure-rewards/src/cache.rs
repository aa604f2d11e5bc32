//! A memory of scored texts, shared by all samples of a run.
//!
//! Guarantee: it saves time only. A text's number is the one its reward gave, and how much is
//! remembered (bounded, the longest unused forgotten first) shows in no result.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;
use treasure_core::TokenId;

use crate::{Explained, Range, Result, TextReward, Window, window};

/// What a run cache may hold unless told otherwise.
pub const RUN_CACHE_BYTES: usize = 64 << 20;

/// Bytes a remembered text takes beside its own: the number, the key's pointer, its place in
/// the order and the table's slack.
const ENTRY_OVERHEAD: usize = 96;

/// A reward that remembers what it has scored.
pub struct RunCache {
    inner: Vec<Arc<dyn TextReward>>,
    memory: Mutex<Memory>,
}

/// Scored texts, the longest unused forgotten first.
struct Memory {
    texts: LruCache<Box<str>, f64>,
    bytes: usize,
    limit: usize,
}

impl Memory {
    fn find(&mut self, text: &str) -> Option<f64> {
        self.texts.get(text).copied()
    }

    fn keep(&mut self, text: &str, value: f64) {
        if text.len() + ENTRY_OVERHEAD > self.limit {
            return;
        }
        if self.texts.put(text.into(), value).is_none() {
            self.bytes += text.len() + ENTRY_OVERHEAD;
        }
        while self.bytes > self.limit
            && let Some((text, _)) = self.texts.pop_lru()
        {
            self.bytes -= text.len() + ENTRY_OVERHEAD;
        }
    }
}

impl RunCache {
    /// Remembers what `inner` scored, in at most `bytes` of memory.
    pub fn new(inner: Arc<dyn TextReward>, bytes: usize) -> Self {
        Self {
            inner: vec![inner],
            memory: Mutex::new(Memory { texts: LruCache::unbounded(), bytes: 0, limit: bytes }),
        }
    }

    fn inner(&self) -> &dyn TextReward {
        self.inner[0].as_ref()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Every update leaves the memory whole, so a thread that died with the lock left nothing half-done.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TextReward for RunCache {
    fn name(&self) -> &str {
        self.inner().name()
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        // Cut for the widest of several rewards before; this one may look at less, and then at equal texts.
        let keys: Vec<&str> =
            texts.iter().map(|text| window::seen(&self.inner, text)).collect::<Result<_>>()?;
        let mut values = vec![None; keys.len()];
        let mut missing: Vec<&str> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        {
            let mut memory = self.memory();
            for (key, value) in keys.iter().zip(&mut values) {
                *value = memory.find(key);
                if value.is_none() && !places.contains_key(key) {
                    places.insert(key, missing.len());
                    missing.push(key);
                }
            }
        }
        let fresh = if missing.is_empty() { Vec::new() } else { self.inner().score(&missing)? };
        if fresh.len() != missing.len() {
            let message = format!("expected {} numbers, got {}", missing.len(), fresh.len());
            return Err(crate::Error::reward(self.name(), message));
        }
        let mut memory = self.memory();
        for (key, &value) in missing.iter().zip(&fresh) {
            // What is no number is an error for whoever asked, and is not worth remembering.
            if value.is_finite() {
                memory.keep(key, value);
            }
        }
        drop(memory);
        Ok(keys
            .iter()
            .zip(values)
            .map(|(key, value)| value.unwrap_or_else(|| fresh[places[key]]))
            .collect())
    }

    fn range(&self) -> Range {
        self.inner().range()
    }

    fn is_rule(&self) -> bool {
        self.inner().is_rule()
    }

    fn prepare(&self) {
        self.inner().prepare();
    }

    fn window(&self, text: &str) -> Result<Window> {
        self.inner().window(text)
    }

    fn cut(&self, text: &str) -> Result<Option<usize>> {
        self.inner().cut(text)
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        self.inner().explain(texts)
    }

    fn explain_ids(&self, ids: &[&[TokenId]]) -> Result<Vec<Explained>> {
        self.inner().explain_ids(ids)
    }

    fn batch_size(&self) -> Option<usize> {
        self.inner().batch_size()
    }
}
