//! Forward–backward over positions: which tokens are legal where, given any partial fill.
//!
//! Guarantee: a token is legal at a mask exactly if some fill of the other masks makes the whole text match.
//! So revealing legal tokens, in any order, never meets a dead end.

use treasure_core::{TokenId, bits};

use super::{Error, Result, Span, Tables, TokenSet, tables::Edge};

fn has(words: &[u64], state: u32) -> bool {
    words[state as usize / 64] >> (state % 64) & 1 == 1
}

fn put(words: &mut [u64], state: u32) {
    words[state as usize / 64] |= 1 << (state % 64);
}

/// A partial fill of a span, with the states that lie on its completions.
///
/// A reveal only takes completions away, so the sets are kept as they are met: states on some completion,
/// and nothing else. They shrink from the revealed position outwards.
#[derive(Clone, Debug)]
pub struct Lattice {
    span: Span,
    fill: Vec<Option<TokenId>>,
    /// Words per set.
    width: usize,
    /// Set p: the states before position p on some completion.
    alive: Vec<u64>,
}

impl Lattice {
    /// The lattice of a partial fill; an error if no completion matches.
    pub(super) fn new(span: Span, fill: &[Option<TokenId>]) -> Result<Self> {
        if fill.len() != span.len() {
            return Err(Error::Input {
                what: "fill",
                expected: format!("{} positions", span.len()),
                got: fill.len().to_string(),
            });
        }
        let tables = span.tables().clone();
        let width = tables.states().div_ceil(64);
        let len = span.len();
        // Forwards what can be reached, with no bound yet on what comes after.
        let mut this =
            Self { span, fill: fill.to_vec(), width, alive: vec![u64::MAX; (len + 1) * width] };
        this.alive[..width].fill(0);
        put(&mut this.alive, Tables::START);
        for position in 0..len {
            let after = this.forward(position);
            this.set_mut(position + 1).copy_from_slice(&after);
        }
        // Backwards what of it leads to a match.
        let last = this.set(len).to_vec();
        this.set_mut(len).fill(0);
        for state in bits(&last).filter(|&state| tables.may_end(state)) {
            put(this.set_mut(len), state);
        }
        let reached = this.clone();
        for position in (0..len).rev() {
            let before = this.backward(position);
            this.set_mut(position).copy_from_slice(&before);
        }
        if has(this.set(0), Tables::START) { Ok(this) } else { Err(reached.why_not()) }
    }

    /// What to say when no completion matches; the sets are those that can be reached.
    fn why_not(&self) -> Error {
        if let Err(error) = self.span.check() {
            return error;
        }
        // The first position at which the tokens so far lead nowhere.
        let nowhere = |p: usize| self.set(p + 1).iter().all(|&word| word == 0);
        let stuck = (0..self.fill.len()).find(|&p| self.fill[p].is_some() && nowhere(p));
        let got = match stuck.and_then(|p| Some((p, self.fill[p]?))) {
            Some((p, token)) => format!("token {token} at position {p}"),
            None => {
                let placed = self.fill.iter().flatten().count();
                format!("{placed} placed tokens that leave too little room")
            }
        };
        Error::NoCompletion { got }
    }

    /// The span.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// The tokens placed so far (`None` is a mask).
    pub fn fill(&self) -> &[Option<TokenId>] {
        &self.fill
    }

    /// The exact set of legal tokens at a position: those with which some completion matches. At a
    /// position that is filled, its token.
    ///
    /// # Panics
    /// If the position is outside the span.
    pub fn legal(&self, position: usize, out: &mut TokenSet) {
        let tables = self.span.tables();
        if let Some(token) = self.fill[position] {
            out.reset(tables.vocabulary().size());
            out.insert(token);
            return;
        }
        // One slot more for the tokens that no way uses.
        let mut legal = vec![false; tables.classes() + 1];
        let mut known = vec![false; tables.groups()];
        self.each_edge(position, |_, edge| {
            if !std::mem::replace(&mut known[edge.group as usize], true) {
                for &class in tables.classes_of_group(edge.group) {
                    legal[class as usize] = true;
                }
            }
        });
        out.assign(tables.class_of_tokens().iter().map(|&class| legal[class as usize]));
    }

    /// Whether a token is legal at a position: cheaper than the whole set.
    ///
    /// # Panics
    /// If the position is outside the span.
    pub fn is_legal(&self, position: usize, token: TokenId) -> bool {
        match self.fill[position] {
            Some(placed) => placed == token,
            None => self.edges_with(position, token).next().is_some(),
        }
    }

    /// Places a legal token; an error, and no change, if it is not legal or the position is filled.
    /// Only positions whose sets change are gone over again.
    pub fn reveal(&mut self, position: usize, token: TokenId) -> Result<()> {
        let open = self.fill.get(position).is_some_and(Option::is_none);
        if !open || !self.is_legal(position, token) {
            return Err(Error::NoCompletion {
                got: format!("token {token} at position {position}"),
            });
        }
        self.fill[position] = Some(token);
        // Every state behind the position still leads to a match, every state before it is still reached.
        for p in position..self.fill.len() {
            let after = self.forward(p);
            if self.set(p + 1) == after {
                break;
            }
            self.set_mut(p + 1).copy_from_slice(&after);
        }
        for p in (0..=position).rev() {
            let before = self.backward(p);
            if self.set(p) == before {
                break;
            }
            self.set_mut(p).copy_from_slice(&before);
        }
        Ok(())
    }

    fn set(&self, position: usize) -> &[u64] {
        &self.alive[position * self.width..][..self.width]
    }

    fn set_mut(&mut self, position: usize) -> &mut [u64] {
        &mut self.alive[position * self.width..][..self.width]
    }

    /// The states on some completion, before a position.
    pub(super) fn alive(&self, position: usize) -> impl Iterator<Item = u32> + '_ {
        bits(self.set(position))
    }

    /// The edges, with their numbers, that some completion takes at a position.
    pub(super) fn each_edge(&self, position: usize, mut each: impl FnMut(u32, Edge)) {
        let tables = self.span.tables();
        if let Some(token) = self.fill[position] {
            self.edges_with(position, token).for_each(|at| each(at, tables.edge(at)));
            return;
        }
        let after = self.set(position + 1);
        let closed = self.span.closed_group(position);
        for state in self.alive(position) {
            for at in tables.edges_from(state) {
                let edge = tables.edge(at);
                if has(after, edge.to) && edge.group != closed {
                    each(at, edge);
                }
            }
        }
    }

    /// The edges that some completion with this token takes at a position.
    pub(super) fn edges_with(
        &self,
        position: usize,
        token: TokenId,
    ) -> impl Iterator<Item = u32> + '_ {
        let tables = self.span.tables();
        let (before, after) = (self.set(position), self.set(position + 1));
        let closed = self.span.closed_group(position);
        let groups = tables.class(token).map_or(&[][..], |class| tables.groups_of_class(class));
        groups
            .iter()
            .filter(move |&&group| group != closed)
            .flat_map(move |&group| tables.edges_of_group(group))
            .copied()
            .filter(move |&edge| {
                let edge = tables.edge(edge);
                has(before, edge.from) && has(after, edge.to)
            })
    }

    /// What of the set behind a position is reached from the set before it.
    fn forward(&self, position: usize) -> Vec<u64> {
        let mut after = vec![0; self.width];
        self.each_edge(position, |_, edge| put(&mut after, edge.to));
        after
    }

    /// What of the set before a position leads to the set behind it.
    fn backward(&self, position: usize) -> Vec<u64> {
        let mut before = vec![0; self.width];
        self.each_edge(position, |_, edge| put(&mut before, edge.from));
        before
    }
}
