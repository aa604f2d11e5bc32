//! Hopcroft's minimisation (1971) of a partial automaton, in O(width · states · log states).
//!
//! Missing transitions lead to one more block that is never used as a splitter; leaving out a single block
//! is what the algorithm allows, so all others start on the work list.

use super::dfa::{DEAD, Table};

/// The block of every useful state (`DEAD` for others); states of one block accept the same texts.
pub(super) fn minimize(table: &Table, useful: &[bool]) -> Vec<u32> {
    let width = table.width;
    let sources = Sources::of(table, useful);
    let mut parts = Partition::new(table, useful);
    let mut work: Vec<u32> = (0..parts.blocks() as u32).collect();
    let mut splitter = Vec::new();
    let mut touched = Vec::new();
    while let Some(block) = work.pop() {
        splitter.clear();
        splitter.extend_from_slice(parts.members(block));
        for class in 0..width {
            for &state in &splitter {
                for &source in sources.leading_to(state, class, width) {
                    parts.mark(source, &mut touched);
                }
            }
            for split in touched.drain(..) {
                // The smaller half. If the old block still waits, it stands there for the other half.
                work.extend(parts.split(split));
            }
        }
    }
    parts.block
}

/// The sources of every (state, class), packed.
struct Sources {
    starts: Vec<u32>,
    from: Vec<u32>,
}

impl Sources {
    fn of(table: &Table, useful: &[bool]) -> Self {
        let width = table.width;
        let edges = || {
            (0..useful.len()).filter(|&state| useful[state]).flat_map(move |state| {
                let row = table.row(state as u32).iter().enumerate();
                row.filter(|&(_, &to)| to != DEAD)
                    .map(move |(class, &to)| (state as u32, to as usize * width + class))
            })
        };
        let mut starts = vec![0u32; useful.len() * width + 1];
        edges().for_each(|(_, key)| starts[key + 1] += 1);
        for key in 1..starts.len() {
            starts[key] += starts[key - 1];
        }
        let mut from = vec![0; starts[starts.len() - 1] as usize];
        let mut next = starts.clone();
        for (state, key) in edges() {
            from[next[key] as usize] = state;
            next[key] += 1;
        }
        Self { starts, from }
    }

    fn leading_to(&self, state: u32, class: usize, width: usize) -> &[u32] {
        let key = state as usize * width + class;
        &self.from[self.starts[key] as usize..self.starts[key + 1] as usize]
    }
}

/// Blocks of states; the marked members of a block stand first.
struct Partition {
    elements: Vec<u32>,
    place: Vec<u32>,
    block: Vec<u32>,
    /// Per block: first element, end, and how many are marked.
    bounds: Vec<(u32, u32, u32)>,
}

impl Partition {
    fn new(table: &Table, useful: &[bool]) -> Self {
        let states = 0..useful.len() as u32;
        let (mut elements, others): (Vec<u32>, Vec<u32>) = states
            .filter(|&state| useful[state as usize])
            .partition(|&state| table.accepting[state as usize]);
        let accepting = elements.len() as u32;
        elements.extend(others);
        let mut bounds = vec![(0, accepting, 0)];
        if elements.len() as u32 > accepting {
            bounds.push((accepting, elements.len() as u32, 0));
        }
        let mut place = vec![0; useful.len()];
        let mut block = vec![DEAD; useful.len()];
        for (at, &state) in elements.iter().enumerate() {
            place[state as usize] = at as u32;
            block[state as usize] = u32::from(at as u32 >= accepting);
        }
        Self { elements, place, block, bounds }
    }

    fn blocks(&self) -> usize {
        self.bounds.len()
    }

    fn members(&self, block: u32) -> &[u32] {
        let (first, end, _) = self.bounds[block as usize];
        &self.elements[first as usize..end as usize]
    }

    /// Moves a state to the marked front of its block.
    fn mark(&mut self, state: u32, touched: &mut Vec<u32>) {
        let block = self.block[state as usize];
        let (first, _, marked) = &mut self.bounds[block as usize];
        let (at, to) = (self.place[state as usize], *first + *marked);
        if at < to {
            return;
        }
        if *marked == 0 {
            touched.push(block);
        }
        *marked += 1;
        let other = self.elements[to as usize];
        self.elements.swap(at as usize, to as usize);
        (self.place[state as usize], self.place[other as usize]) = (to, at);
    }

    /// Splits off the smaller of the marked and the unmarked half; `None` if one of them is empty.
    fn split(&mut self, block: u32) -> Option<u32> {
        let (first, end, marked) = self.bounds[block as usize];
        self.bounds[block as usize].2 = 0;
        if marked == end - first {
            return None;
        }
        let middle = first + marked;
        let (kept, moved) = if marked <= end - middle {
            ((middle, end, 0), (first, middle, 0))
        } else {
            ((first, middle, 0), (middle, end, 0))
        };
        let fresh = self.bounds.len() as u32;
        self.bounds[block as usize] = kept;
        self.bounds.push(moved);
        for at in moved.0..moved.1 {
            self.block[self.elements[at as usize] as usize] = fresh;
        }
        Some(fresh)
    }
}
