//! What a run of bytes does to every state at once: partial maps of states, each kept once.
//!
//! Walking the vocabulary's trie with these instead of with single states visits every node once, whatever
//! the number of states, and tokens with the same map turn out to be one class by themselves.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::{
    Error, Limits, Result,
    dfa::{DEAD, Table},
};

/// Pairs of a state and the state it is led to, by increasing first state.
pub(super) type Map = Rc<[(u32, u32)]>;

/// The maps met so far; 0 leads nowhere, 1 is the map of no byte at all.
pub(super) struct Functions<'a> {
    table: &'a Table,
    maps: Vec<Map>,
    index: FxHashMap<Map, u32>,
    /// `steps[map * width + class]`, or [`UNKNOWN`].
    steps: Vec<u32>,
    pairs: usize,
    /// Pairs that were looked at.
    looked: usize,
    limits: Limits,
}

/// The map that leads nowhere.
pub(super) const NOWHERE: u32 = 0;
/// The map of no byte.
pub(super) const IDENTITY: u32 = 1;
const UNKNOWN: u32 = u32::MAX;

impl<'a> Functions<'a> {
    pub fn new(table: &'a Table, limits: Limits) -> Result<Self> {
        let (maps, index, steps) = (Vec::new(), FxHashMap::default(), Vec::new());
        let mut this = Self { table, maps, index, steps, pairs: 0, looked: 0, limits };
        this.intern(Vec::new())?;
        this.intern((0..table.accepting.len() as u32).map(|state| (state, state)).collect())?;
        Ok(this)
    }

    /// The map after one more byte.
    pub fn step(&mut self, map: u32, byte: u8) -> Result<u32> {
        let class = usize::from(self.table.classes[usize::from(byte)]);
        let at = map as usize * self.table.width + class;
        if self.steps[at] == UNKNOWN {
            self.looked += self.maps[map as usize].len();
            if self.looked > self.limits.max_steps {
                return Err(Error::TooLarge {
                    what: "steps to walk the vocabulary",
                    limit: self.limits.max_steps,
                    got: format!("more, from {} states", self.table.accepting.len()),
                });
            }
            let next = |&(from, to): &(u32, u32)| {
                let next = self.table.row(to)[class];
                (next != DEAD).then_some((from, next))
            };
            let pairs = self.maps[map as usize].iter().filter_map(next).collect();
            self.steps[at] = self.intern(pairs)?;
        }
        Ok(self.steps[at])
    }

    pub fn map(&self, map: u32) -> &Map {
        &self.maps[map as usize]
    }

    fn intern(&mut self, pairs: Vec<(u32, u32)>) -> Result<u32> {
        if let Some(&known) = self.index.get(pairs.as_slice()) {
            return Ok(known);
        }
        // A map's row of steps counts as well: it may be the larger part.
        self.pairs += pairs.len() + self.table.width / 2;
        if self.pairs > self.limits.max_pairs {
            return Err(Error::TooLarge {
                what: "pairs of states that tokens connect",
                limit: self.limits.max_pairs,
                got: format!("more, from {} states", self.table.accepting.len()),
            });
        }
        let id = self.maps.len() as u32;
        let map: Map = pairs.into();
        self.maps.push(map.clone());
        self.index.insert(map, id);
        self.steps.resize(self.steps.len() + self.table.width, UNKNOWN);
        Ok(id)
    }
}
