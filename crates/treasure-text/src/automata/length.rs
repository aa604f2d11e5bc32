//! How many tokens a matching text takes: checked before any forward pass.

use treasure_core::bits;

use super::{Error, Result, Span, Tables};

/// The lengths, in tokens, of the texts that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// The fewest tokens of a matching text.
    pub shortest: usize,
    /// The most, or `None` if there is no bound.
    pub longest: Option<usize>,
}

impl Tables {
    /// The lengths, in tokens, of the texts that match.
    pub fn lengths(&self) -> Lengths {
        // Every state is useful, so a match is reached from the start.
        let mut start = vec![0; self.states().div_ceil(64)];
        start[0] = 1 << Self::START;
        Lengths { shortest: self.nearest_match(start).unwrap_or(0), longest: self.longest() }
    }

    /// The fewest tokens that lead from one of these states to a match: breadth-first, so that every state
    /// is met once.
    fn nearest_match(&self, mut met: Vec<u64>) -> Option<usize> {
        let mut here: Vec<u32> = bits(&met).collect();
        for tokens in 0.. {
            if here.iter().any(|&state| self.may_end(state)) {
                return Some(tokens);
            }
            let mut next = Vec::new();
            for edge in here.iter().flat_map(|&state| self.edges_from(state)) {
                let to = self.edge(edge).to;
                let (word, bit) = (to as usize / 64, 1 << (to % 64));
                if to != self.end_of_text() && met[word] & bit == 0 {
                    met[word] |= bit;
                    next.push(to);
                }
            }
            if next.is_empty() {
                return None;
            }
            here = next;
        }
        None
    }

    /// The longest way from the start to a match, if no state is met twice on any.
    fn longest(&self) -> Option<usize> {
        let texts = self.end_of_text() as usize;
        let mut incoming = vec![0usize; texts];
        let of_text = |edge: &&super::tables::Edge| (edge.to as usize) < texts;
        self.edge_list().iter().filter(of_text).for_each(|edge| incoming[edge.to as usize] += 1);
        let mut left: Vec<u32> = (0..texts as u32).filter(|&s| incoming[s as usize] == 0).collect();
        let (mut depth, mut done, mut longest) = (vec![0; texts], 0, 0);
        while let Some(state) = left.pop() {
            done += 1;
            if self.may_end(state) {
                longest = longest.max(depth[state as usize]);
            }
            for edge in self.edges_from(state).map(|edge| self.edge(edge)) {
                let to = edge.to as usize;
                if to < texts {
                    depth[to] = depth[to].max(depth[state as usize] + 1);
                    incoming[to] -= 1;
                    if incoming[to] == 0 {
                        left.push(edge.to);
                    }
                }
            }
        }
        (done == texts).then_some(longest)
    }
}

impl Span {
    /// Checks that some text of an allowed length matches; the error says which length would do.
    pub fn check(&self) -> Result<()> {
        let (len, min_len) = (self.len(), self.shortest_allowed());
        let tables = self.tables();
        tables.check_positions(len)?;
        let mut last = None;
        for (length, set) in (0..=len).zip(Sets::from_start(tables)) {
            if length >= min_len && set.accepts() {
                return Ok(());
            }
            last = Some(set.states);
        }
        match last.and_then(|states| tables.nearest_match(states)) {
            Some(more) => Err(Error::TooShort { len, shortest: len + more }),
            None => {
                let longest = tables.lengths().longest.unwrap_or(0);
                Err(Error::TooLong { min_len, longest })
            }
        }
    }
}

/// The states of the text that 0, 1, 2, … tokens lead to.
struct Sets<'a> {
    tables: &'a Tables,
    next: Vec<u64>,
}

struct Set<'a> {
    tables: &'a Tables,
    states: Vec<u64>,
}

impl<'a> Sets<'a> {
    fn from_start(tables: &'a Tables) -> Self {
        let mut next = vec![0; tables.states().div_ceil(64)];
        next[0] = 1 << Tables::START;
        Self { tables, next }
    }
}

impl Set<'_> {
    fn accepts(&self) -> bool {
        bits(&self.states).any(|state| self.tables.may_end(state))
    }
}

impl<'a> Iterator for Sets<'a> {
    type Item = Set<'a>;

    fn next(&mut self) -> Option<Set<'a>> {
        let end_of_text = self.tables.end_of_text();
        let mut after = vec![0; self.next.len()];
        for state in bits(&self.next) {
            for edge in self.tables.edges_from(state).map(|edge| self.tables.edge(edge)) {
                if edge.to != end_of_text {
                    after[edge.to as usize / 64] |= 1 << (edge.to % 64);
                }
            }
        }
        let states = std::mem::replace(&mut self.next, after);
        Some(Set { tables: self.tables, states })
    }
}
