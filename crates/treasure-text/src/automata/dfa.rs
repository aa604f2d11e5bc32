//! A deterministic automaton over bytes: which texts match, whole.
//!
//! Guarantee: the automaton is minimal, every state lies on the way to a match, and states are numbered in
//! the order a breadth-first walk meets them. So equal languages have equal automata.

use std::collections::VecDeque;

use super::minimize::minimize;

/// No transition.
pub(super) const DEAD: u32 = u32::MAX;

/// The texts that match a pattern, as a minimal automaton over bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dfa {
    pub(super) table: Table,
}

/// A transition table over classes of bytes. The start is state 0 once it is a [`Dfa`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// The class of every byte; bytes of one class lead everywhere to the same states.
    pub classes: [u8; 256],
    /// How many classes there are.
    pub width: usize,
    /// `next[state * width + class]`, or [`DEAD`].
    pub next: Vec<u32>,
    pub accepting: Vec<bool>,
    pub start: u32,
}

impl Table {
    pub fn step(&self, state: u32, byte: u8) -> u32 {
        self.next[state as usize * self.width + usize::from(self.classes[usize::from(byte)])]
    }

    pub fn row(&self, state: u32) -> &[u32] {
        &self.next[state as usize * self.width..][..self.width]
    }

    /// Which states are reached from the start, and from which of them an accepting one is.
    fn useful(&self) -> Vec<bool> {
        let states = self.accepting.len();
        let mut reached = vec![false; states];
        let mut order = vec![self.start];
        reached[self.start as usize] = true;
        let mut sources: Vec<Vec<u32>> = vec![Vec::new(); states];
        let mut at = 0;
        while let Some(&state) = order.get(at) {
            at += 1;
            for &to in self.row(state).iter().filter(|&&to| to != DEAD) {
                if sources[to as usize].last() != Some(&state) {
                    sources[to as usize].push(state);
                }
                if !std::mem::replace(&mut reached[to as usize], true) {
                    order.push(to);
                }
            }
        }
        let mut useful = vec![false; states];
        let mut left: Vec<u32> =
            order.into_iter().filter(|&state| self.accepting[state as usize]).collect();
        left.iter().for_each(|&state| useful[state as usize] = true);
        while let Some(state) = left.pop() {
            for &source in &sources[state as usize] {
                if !std::mem::replace(&mut useful[source as usize], true) {
                    left.push(source);
                }
            }
        }
        useful
    }
}

impl Dfa {
    /// The minimal automaton of a table, or `None` if nothing matches.
    pub(super) fn from_table(mut table: Table) -> Option<Self> {
        let useful = table.useful();
        if !useful[table.start as usize] {
            return None;
        }
        for to in &mut table.next {
            if *to != DEAD && !useful[*to as usize] {
                *to = DEAD;
            }
        }
        let block = minimize(&table, &useful);
        Some(Self { table: renumber(&table, &block) })
    }

    /// The number of states.
    pub fn states(&self) -> usize {
        self.table.accepting.len()
    }

    /// Whether the whole text matches.
    pub fn accepts(&self, text: &[u8]) -> bool {
        let mut state = self.table.start;
        for &byte in text {
            state = self.table.step(state, byte);
            if state == DEAD {
                return false;
            }
        }
        self.table.accepting[state as usize]
    }

    /// How many bytes of a text some matching text begins with.
    pub fn begins(&self, text: &[u8]) -> usize {
        let mut state = self.table.start;
        let leads = |byte: &&u8| {
            state = self.table.step(state, **byte);
            state != DEAD
        };
        text.iter().take_while(leads).count()
    }

    /// The texts of which this automaton sees all but one leading space: `" " L`, and what of `L` does not
    /// start with a space. For places where rendering drops a space.
    #[must_use]
    pub fn dropping_first_space(&self) -> Self {
        let mut table = self.table.clone();
        let width = table.width;
        let fresh = table.accepting.len() as u32;
        // The space needs a class of its own.
        let space_class = table.classes[usize::from(b' ')];
        let shared = (0..256).any(|b| b != usize::from(b' ') && table.classes[b] == space_class);
        if shared {
            table.next = (0..fresh)
                .flat_map(|state| {
                    let row = self.table.row(state);
                    row.iter().copied().chain([row[usize::from(space_class)]])
                })
                .collect();
            table.classes[usize::from(b' ')] = width as u8;
            table.width += 1;
        }
        let mut row = table.row(table.start).to_vec();
        row[usize::from(table.classes[usize::from(b' ')])] = table.start;
        table.next.extend(row);
        table.accepting.push(table.accepting[table.start as usize]);
        table.start = fresh;
        Self::from_table(table).expect("a space before any text of L is in it")
    }
}

/// One state per block, numbered breadth-first, over the coarsest classes of bytes.
fn renumber(table: &Table, block: &[u32]) -> Table {
    let of = |state: u32| if state == DEAD { DEAD } else { block[state as usize] };
    let mut number = vec![DEAD; block.len()];
    let mut members = Vec::new();
    let mut queue = VecDeque::from([table.start]);
    number[of(table.start) as usize] = 0;
    members.push(table.start);
    while let Some(state) = queue.pop_front() {
        for &to in table.row(state) {
            let to_block = of(to);
            if to_block != DEAD && number[to_block as usize] == DEAD {
                number[to_block as usize] = members.len() as u32;
                members.push(to);
                queue.push_back(to);
            }
        }
    }
    let column = |class: u8| -> Vec<u32> {
        let next = |&state: &u32| of(table.row(state)[usize::from(class)]);
        members
            .iter()
            .map(next)
            .map(|to| if to == DEAD { DEAD } else { number[to as usize] })
            .collect()
    };
    // Bytes that lead everywhere to the same states share a class; classes in order of their first byte.
    let mut columns: Vec<Vec<u32>> = Vec::new();
    let mut seen = vec![None; table.width];
    let mut known: rustc_hash::FxHashMap<Vec<u32>, u8> = rustc_hash::FxHashMap::default();
    let classes = std::array::from_fn(|byte| {
        let class = table.classes[byte];
        *seen[usize::from(class)].get_or_insert_with(|| {
            let column = column(class);
            *known.entry(column.clone()).or_insert_with(|| {
                columns.push(column);
                (columns.len() - 1) as u8
            })
        })
    });
    let width = columns.len();
    let next = (0..members.len()).flat_map(|state| columns.iter().map(move |to| to[state]));
    Table {
        classes,
        width,
        next: next.collect(),
        accepting: members.iter().map(|&state| table.accepting[state as usize]).collect(),
        start: 0,
    }
}
