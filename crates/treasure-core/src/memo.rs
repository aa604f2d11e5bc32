//! A bounded memory: the least recently used entries go first.
//!
//! Guarantee: what is forgotten depends only on the order of calls, never on addresses or hash seeds.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, hash_map::Entry as Place},
    hash::{BuildHasher, Hash, Hasher},
    sync::Arc,
};

use rustc_hash::{FxBuildHasher, FxHashMap};

/// A key that is hashed once, however often it is looked up: hashing whole sequences is what a search
/// step would otherwise spend most of its time on.
#[derive(Debug)]
pub(crate) struct Hashed<K> {
    hash: u64,
    key: K,
}

impl<K: Hash> Hashed<K> {
    /// Hashes a key.
    pub(crate) fn new(key: K) -> Self {
        Self { hash: FxBuildHasher.hash_one(&key), key }
    }

    /// The key itself.
    pub(crate) fn key(&self) -> &K {
        &self.key
    }
}

impl<K> Hash for Hashed<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl<K: PartialEq> PartialEq for Hashed<K> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.key == other.key
    }
}

impl<K: Eq> Eq for Hashed<K> {}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    weight: usize,
    last_use: u64,
}

/// A map that forgets beyond a total weight.
#[derive(Debug)]
pub(crate) struct Memo<K, V> {
    entries: FxHashMap<Arc<K>, Entry<V>>,
    by_use: BTreeMap<u64, Arc<K>>,
    capacity: usize,
    weight: usize,
    clock: u64,
}

impl<K: Hash + Eq, V: Clone> Memo<K, V> {
    /// An empty memory that holds entries up to a total weight.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            entries: FxHashMap::default(),
            by_use: BTreeMap::new(),
            capacity,
            weight: 0,
            clock: 0,
        }
    }

    /// What is known about a key; asking makes it the most recently used.
    pub(crate) fn get<Q>(&mut self, key: &Q) -> Option<V>
    where
        Arc<K>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let entry = self.entries.get_mut(key)?;
        self.clock += 1;
        if let Some(owned) = self.by_use.remove(&entry.last_use) {
            self.by_use.insert(self.clock, owned);
        }
        entry.last_use = self.clock;
        Some(entry.value.clone())
    }

    /// Remembers a new key, and forgets the least recently used ones if that is too much.
    pub(crate) fn insert(&mut self, key: Arc<K>, value: V, weight: usize) {
        if weight > self.capacity {
            return;
        }
        let Place::Vacant(place) = self.entries.entry(key.clone()) else { return };
        self.clock += 1;
        self.weight += weight;
        place.insert(Entry { value, weight, last_use: self.clock });
        self.by_use.insert(self.clock, key);
        while self.weight > self.capacity {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            if let Some(entry) = self.entries.remove(&oldest) {
                self.weight -= entry.weight;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_forgotten_first() {
        let mut memo = Memo::new(3);
        for key in [1, 2, 3] {
            memo.insert(Arc::new(key), key * 10, 1);
        }
        assert_eq!(memo.get(&1), Some(10));
        memo.insert(Arc::new(4), 40, 1);
        assert_eq!(memo.get(&2), None);
        assert_eq!([1, 3, 4].map(|key| memo.get(&key)), [Some(10), Some(30), Some(40)]);
    }

    #[test]
    fn the_total_weight_stays_within_the_capacity() {
        let mut memo = Memo::new(10);
        for key in 0..100usize {
            memo.insert(Arc::new(key), (), 1 + key % 4);
            assert!(memo.weight <= 10);
            let total: usize = memo.entries.values().map(|entry| entry.weight).sum();
            assert_eq!(memo.weight, total);
            assert_eq!(memo.entries.len(), memo.by_use.len());
        }
        memo.insert(Arc::new(1000), (), 11);
        assert_eq!(memo.get(&1000), None);
    }
}
