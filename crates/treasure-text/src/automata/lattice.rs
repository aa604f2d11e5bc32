//! Forward–backward over positions: which tokens are legal where, given any partial fill.
//!
//! Guarantee: a token is legal at a mask exactly if some fill of the other masks makes the whole text match.
//! So revealing legal tokens, in any order, never meets a dead end.

use treasure_core::TokenId;

use super::{Error, Result, Span, Tables, TokenSet, token_set::bits};

pub(super) fn has(words: &[u64], state: u32) -> bool {
    words[state as usize / 64] >> (state % 64) & 1 == 1
}

fn put(words: &mut [u64], state: u32) {
    words[state as usize / 64] |= 1 << (state % 64);
}

/// A partial fill of a span, with the states each position can be reached in and left from.
#[derive(Clone, Debug)]
pub struct Lattice {
    span: Span,
    fill: Vec<Option<TokenId>>,
    /// Words per set.
    width: usize,
    /// Set p: states in which position p can be reached from the start.
    reach: Vec<u64>,
    /// Set p: states from which positions p.. can be filled so that the text matches.
    finish: Vec<u64>,
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
        let sets = (span.len() + 1) * width;
        let (mut reach, mut finish) = (vec![0; sets], vec![0; sets]);
        put(&mut reach, Tables::START);
        for state in (0..tables.states() as u32).filter(|&state| tables.may_end(state)) {
            put(&mut finish[span.len() * width..], state);
        }
        let mut this = Self { span, fill: fill.to_vec(), width, reach, finish };
        for position in 0..this.fill.len() {
            let after = this.forward(position);
            this.reach[(position + 1) * width..][..width].copy_from_slice(&after);
        }
        for position in (0..this.fill.len()).rev() {
            let before = this.backward(position);
            this.finish[position * width..][..width].copy_from_slice(&before);
        }
        if has(this.finish(0), Tables::START) { Ok(this) } else { Err(this.why_not()) }
    }

    /// What to say when no completion matches.
    fn why_not(&self) -> Error {
        let placed = self.fill.iter().flatten().count();
        match self.span.check() {
            Err(error) => error,
            // The first position at which the tokens so far lead nowhere.
            Ok(()) => {
                let stuck = (0..self.fill.len())
                    .find(|&p| self.fill[p].is_some() && bits(self.reach(p + 1)).next().is_none());
                let got = match stuck.and_then(|p| Some((p, self.fill[p]?))) {
                    Some((p, token)) => format!("token {token} at position {p}"),
                    None => format!("{placed} placed tokens that leave too little room"),
                };
                Error::NoCompletion { got }
            }
        }
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
        out.reset(tables.vocabulary().size());
        if let Some(token) = self.fill[position] {
            out.insert(token);
            return;
        }
        let mut legal = vec![false; tables.classes()];
        let mut known = vec![false; tables.groups()];
        for edge in self.edges(position).map(|edge| tables.edge(edge)) {
            if !std::mem::replace(&mut known[edge.group as usize], true) {
                for &class in tables.classes_of_group(edge.group) {
                    legal[class as usize] = true;
                }
            }
        }
        let class = tables.class_of_tokens();
        out.fill(|token| legal.get(class[token as usize] as usize).copied().unwrap_or(false));
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
        let width = self.width;
        for p in position..self.fill.len() {
            let after = self.forward(p);
            let old = &mut self.reach[(p + 1) * width..][..width];
            if old == after {
                break;
            }
            old.copy_from_slice(&after);
        }
        for p in (0..=position).rev() {
            let before = self.backward(p);
            let old = &mut self.finish[p * width..][..width];
            if old == before {
                break;
            }
            old.copy_from_slice(&before);
        }
        Ok(())
    }

    pub(super) fn reach(&self, position: usize) -> &[u64] {
        &self.reach[position * self.width..][..self.width]
    }

    pub(super) fn finish(&self, position: usize) -> &[u64] {
        &self.finish[position * self.width..][..self.width]
    }

    /// The states on some completion, before a position.
    pub(super) fn alive(&self, position: usize) -> impl Iterator<Item = u32> + '_ {
        let finish = self.finish(position);
        bits(self.reach(position)).filter(move |&state| has(finish, state))
    }

    /// The edges that some completion takes at a position.
    pub(super) fn edges(&self, position: usize) -> Box<dyn Iterator<Item = u32> + '_> {
        if let Some(token) = self.fill[position] {
            return Box::new(self.edges_with(position, token));
        }
        let tables = self.span.tables();
        let after = self.finish(position + 1);
        let closed = self.span.closed_group(position);
        Box::new(self.alive(position).flat_map(move |state| {
            tables.edges_from(state).filter(move |&edge| {
                let edge = tables.edge(edge);
                has(after, edge.to) && edge.group != closed
            })
        }))
    }

    /// The edges that some completion with this token takes at a position.
    pub(super) fn edges_with(
        &self,
        position: usize,
        token: TokenId,
    ) -> impl Iterator<Item = u32> + '_ {
        let tables = self.span.tables();
        let (before, after) = (self.reach(position), self.finish(position + 1));
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

    fn forward(&self, position: usize) -> Vec<u64> {
        let tables = self.span.tables();
        let before = self.reach(position);
        let closed = self.span.closed_group(position);
        let mut after = vec![0; self.width];
        match self.fill[position] {
            None => {
                for state in bits(before) {
                    for edge in tables.edges_from(state).map(|edge| tables.edge(edge)) {
                        if edge.group != closed {
                            put(&mut after, edge.to);
                        }
                    }
                }
            }
            Some(token) => {
                let groups = tables.class(token).map_or(&[][..], |c| tables.groups_of_class(c));
                for &group in groups.iter().filter(|&&group| group != closed) {
                    for edge in tables.edges_of_group(group).iter().map(|&edge| tables.edge(edge)) {
                        if has(before, edge.from) {
                            put(&mut after, edge.to);
                        }
                    }
                }
            }
        }
        after
    }

    fn backward(&self, position: usize) -> Vec<u64> {
        let tables = self.span.tables();
        let after = self.finish(position + 1);
        let closed = self.span.closed_group(position);
        let mut before = vec![0; self.width];
        match self.fill[position] {
            None => {
                for state in 0..tables.states() as u32 {
                    let leads_on = |edge: u32| {
                        let edge = tables.edge(edge);
                        has(after, edge.to) && edge.group != closed
                    };
                    if tables.edges_from(state).any(leads_on) {
                        put(&mut before, state);
                    }
                }
            }
            Some(token) => {
                let groups = tables.class(token).map_or(&[][..], |c| tables.groups_of_class(c));
                for &group in groups.iter().filter(|&&group| group != closed) {
                    for edge in tables.edges_of_group(group).iter().map(|&edge| tables.edge(edge)) {
                        if has(after, edge.to) {
                            put(&mut before, edge.from);
                        }
                    }
                }
            }
        }
        before
    }
}
