//! A pattern's automaton over whole tokens, built once per (pattern, vocabulary) and shared.
//!
//! Tokens that do the same to every state are one *class*. The classes that lead from one state to another
//! are that pair's *group*, and equal groups are kept once. So a pass over positions reads each score once
//! per class and then touches pairs of states only. Every state lies on a way, in tokens, from the start to
//! a match.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use treasure_core::TokenId;

use super::{
    Dfa, Error, Limits, Result, Vocabulary,
    functions::{Functions, IDENTITY, NOWHERE},
};

/// While tables are built: a token that no way uses.
const NO_CLASS: u32 = u32::MAX;

/// Lists of numbers, packed one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    fn new() -> Self {
        Self { starts: vec![0], items: Vec::new() }
    }

    fn push(&mut self, items: impl IntoIterator<Item = u32>) {
        self.items.extend(items);
        self.starts.push(self.items.len() as u32);
    }

    /// For keys below `count`: the numbers of the items that have the key, in order.
    fn by_key(count: usize, keys: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0u32; count + 1];
        keys.clone().for_each(|(key, _)| starts[key as usize + 1] += 1);
        for key in 1..starts.len() {
            starts[key] += starts[key - 1];
        }
        let mut next = starts.clone();
        let mut items = vec![0; starts[count] as usize];
        for (key, item) in keys {
            items[next[key as usize] as usize] = item;
            next[key as usize] += 1;
        }
        Self { starts, items }
    }

    pub fn get(&self, key: u32) -> &[u32] {
        &self.items[self.range(key)]
    }

    pub fn range(&self, key: u32) -> std::ops::Range<usize> {
        self.starts[key as usize] as usize..self.starts[key as usize + 1] as usize
    }

    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }
}

/// From one state to another by any token of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub from: u32,
    pub to: u32,
    pub group: u32,
}

/// The automaton over tokens.
#[derive(Debug)]
pub struct Tables {
    vocabulary: Arc<Vocabulary>,
    accepting: Vec<bool>,
    /// By increasing `from`, then `to`.
    edges: Vec<Edge>,
    /// `edges[out[s]..out[s + 1]]` leave state s.
    out: Vec<u32>,
    edges_of_group: Lists,
    classes_of_group: Lists,
    groups_of_class: Lists,
    tokens_of_class: Lists,
    /// One more than the last class for tokens that no way uses.
    class_of_token: Vec<u32>,
    max_cells: usize,
}

impl Tables {
    /// Walks the vocabulary with the automaton. Refused before it starts if states × vocabulary is beyond
    /// the limit.
    pub fn build(dfa: &Dfa, vocabulary: &Arc<Vocabulary>, limits: &Limits) -> Result<Self> {
        let product = dfa.states().saturating_mul(vocabulary.size());
        if product > limits.max_product {
            return Err(Error::TooLarge {
                what: "states × vocabulary",
                limit: limits.max_product,
                got: format!("{} × {} = {product}", dfa.states(), vocabulary.size()),
            });
        }
        let mut functions = Functions::new(&dfa.table, *limits)?;
        let map_of_token = walk(vocabulary, &mut functions)?;
        // Classes in the order of their first token.
        let mut class_of_map = FxHashMap::default();
        let mut maps = Vec::new();
        for &map in map_of_token.iter().filter(|&&map| map != NOWHERE) {
            class_of_map.entry(map).or_insert_with(|| {
                maps.push(map);
                maps.len() as u32 - 1
            });
        }
        let states = dfa.states();
        let pairs = pairs(states, &maps, &functions);
        let useful = useful(&dfa.table.accepting, &pairs)
            .ok_or(Error::Unspellable { tokens: vocabulary.spoken() })?;
        let mut number = vec![u32::MAX; states];
        let mut accepting = Vec::new();
        for state in (0..states).filter(|&state| useful[state]) {
            number[state] = accepting.len() as u32;
            accepting.push(dfa.table.accepting[state]);
        }
        let (mut edges, mut groups) = (Vec::new(), Groups::default());
        for (from, leads) in pairs.iter().enumerate().filter(|&(from, _)| useful[from]) {
            for run in leads.chunk_by(|a, b| a.0 == b.0) {
                if useful[run[0].0 as usize] {
                    let group = groups.intern(run.iter().map(|&(_, class)| class).collect());
                    edges.push(Edge { from: number[from], to: number[run[0].0 as usize], group });
                }
            }
        }
        let class = |map: &u32| class_of_map.get(map).copied().unwrap_or(NO_CLASS);
        let class_of_token = map_of_token.iter().map(class).collect();
        let lists = groups.lists;
        let built = Self::assemble(vocabulary.clone(), accepting, edges, lists, class_of_token);
        Ok(Self { max_cells: limits.max_cells, ..built })
    }

    /// Adds the end of the text and turns the lists around.
    fn assemble(
        vocabulary: Arc<Vocabulary>,
        accepting: Vec<bool>,
        mut edges: Vec<Edge>,
        mut classes_of_group: Lists,
        mut class_of_token: Vec<u32>,
    ) -> Self {
        // Classes whose every edge was left out are no classes.
        let classes = class_of_token.iter().filter(|&&c| c != NO_CLASS).max();
        let mut used = vec![false; classes.map_or(0, |&class| class as usize + 1)];
        classes_of_group.items.iter().for_each(|&class| used[class as usize] = true);
        let mut fresh = 0;
        let renumbered: Vec<u32> = (used.iter())
            .map(|&used| if used { (fresh, fresh += 1).0 } else { NO_CLASS })
            .collect();
        for class in classes_of_group.items.iter_mut().chain(&mut class_of_token) {
            *class = renumbered.get(*class as usize).copied().unwrap_or(NO_CLASS);
        }
        let end_of_text = accepting.len() as u32;
        if !vocabulary.eos().is_empty() {
            let group = classes_of_group.len() as u32;
            classes_of_group.push([fresh]);
            vocabulary.eos().iter().for_each(|&eos| class_of_token[eos as usize] = fresh);
            fresh += 1;
            let finals = (0..end_of_text).filter(|&state| accepting[state as usize]);
            edges.extend(finals.map(|from| Edge { from, to: end_of_text, group }));
            edges.push(Edge { from: end_of_text, to: end_of_text, group });
        }
        edges.sort_unstable_by_key(|edge| (edge.from, edge.to));
        let mut out = vec![0u32; end_of_text as usize + 2];
        edges.iter().for_each(|edge| out[edge.from as usize + 1] += 1);
        for state in 1..out.len() {
            out[state] += out[state - 1];
        }
        let groups = classes_of_group.len();
        let edge_keys = edges.iter().enumerate().map(|(at, edge)| (edge.group, at as u32));
        let of_group = |group: u32| classes_of_group.get(group).iter().map(move |&c| (c, group));
        let class_keys = (0..groups as u32).flat_map(of_group);
        let spoken = |&(_, &class): &(usize, &u32)| class != NO_CLASS;
        let token_keys = class_of_token.iter().enumerate().filter(spoken);
        let tokens_of_class =
            Lists::by_key(fresh as usize, token_keys.map(|(token, &class)| (class, token as u32)));
        class_of_token.iter_mut().for_each(|class| *class = (*class).min(fresh));
        Self {
            edges_of_group: Lists::by_key(groups, edge_keys),
            groups_of_class: Lists::by_key(
                fresh as usize,
                class_keys.collect::<Vec<_>>().into_iter(),
            ),
            vocabulary,
            accepting,
            edges,
            out,
            classes_of_group,
            tokens_of_class,
            class_of_token,
            max_cells: usize::MAX,
        }
    }

    /// Refuses positions on which the states of a search would take too much memory or time.
    pub(super) fn check_positions(&self, len: usize) -> Result<()> {
        let per_position = self.states().max(self.edges() / 16);
        let cells = per_position.saturating_mul(len.saturating_add(1));
        if cells <= self.max_cells {
            return Ok(());
        }
        let (states, edges) = (self.states(), self.edges());
        Err(Error::TooLarge {
            what: "states × positions",
            limit: self.max_cells,
            got: format!("{cells}, from {states} states with {edges} ways on and {len} positions"),
        })
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// States of the text, and one for its end.
    pub fn states(&self) -> usize {
        self.accepting.len() + 1
    }

    /// Classes of tokens that do the same to every state.
    pub fn classes(&self) -> usize {
        self.tokens_of_class.len()
    }

    /// Distinct sets of classes that lead from some state to another.
    pub fn groups(&self) -> usize {
        self.classes_of_group.len()
    }

    /// Pairs of states that some token connects.
    pub fn edges(&self) -> usize {
        self.edges.len()
    }

    /// The memory the tables take, in bytes.
    pub fn bytes(&self) -> usize {
        let lists = [
            &self.edges_of_group,
            &self.classes_of_group,
            &self.groups_of_class,
            &self.tokens_of_class,
        ];
        let words: usize = lists.iter().map(|list| list.starts.len() + list.items.len()).sum();
        4 * (words + 3 * self.edges.len() + self.out.len() + self.class_of_token.len())
            + self.accepting.len()
    }

    pub(super) const START: u32 = 0;

    /// The state after the first end-of-text token.
    pub(super) fn end_of_text(&self) -> u32 {
        self.accepting.len() as u32
    }

    /// The group of the end-of-text tokens, if there are any.
    pub(super) fn eos_group(&self) -> Option<u32> {
        (!self.vocabulary.eos().is_empty()).then(|| self.groups() as u32 - 1)
    }

    /// Whether a text that uses up all positions may end in this state.
    pub(super) fn may_end(&self, state: u32) -> bool {
        self.accepting.get(state as usize).copied().unwrap_or(true)
    }

    pub(super) fn edge(&self, edge: u32) -> Edge {
        self.edges[edge as usize]
    }

    pub(super) fn edges_from(&self, state: u32) -> std::ops::Range<u32> {
        self.out[state as usize]..self.out[state as usize + 1]
    }

    pub(super) fn edge_list(&self) -> &[Edge] {
        &self.edges
    }

    pub(super) fn edges_of_group(&self, group: u32) -> &[u32] {
        self.edges_of_group.get(group)
    }

    pub(super) fn classes_of_group(&self, group: u32) -> &[u32] {
        self.classes_of_group.get(group)
    }

    pub(super) fn groups_of_class(&self, class: u32) -> &[u32] {
        self.groups_of_class.get(class)
    }

    pub(super) fn tokens_of_class(&self, class: u32) -> &[TokenId] {
        self.tokens_of_class.get(class)
    }

    pub(super) fn class(&self, token: TokenId) -> Option<u32> {
        let class = self.class_of_token.get(token as usize).copied();
        class.filter(|&class| (class as usize) < self.classes())
    }

    /// The class of every token; one more than the last for those that no way uses.
    pub(super) fn class_of_tokens(&self) -> &[u32] {
        &self.class_of_token
    }
}

/// What every token does to the states: one pass over the trie.
fn walk(vocabulary: &Vocabulary, functions: &mut Functions<'_>) -> Result<Vec<u32>> {
    let trie = vocabulary.trie();
    let mut map_of_token = vec![NOWHERE; vocabulary.size()];
    let mut path: Vec<(u32, u32)> = vec![(u32::MAX, IDENTITY)];
    let mut at = 0;
    while let Some(node) = trie.nodes.get(at) {
        while path.last().is_some_and(|&(end, _)| end <= at as u32) {
            path.pop();
        }
        let above = path.last().map_or(NOWHERE, |&(_, map)| map);
        let map = functions.step(above, node.byte)?;
        if map == NOWHERE {
            at = node.end as usize;
            continue;
        }
        for &token in &trie.ids[node.first as usize..node.last as usize] {
            map_of_token[token as usize] = map;
        }
        path.push((node.end, map));
        at += 1;
    }
    Ok(map_of_token)
}

/// For every state the (target, class) pairs that leave it, by target and class.
fn pairs(states: usize, maps: &[u32], functions: &Functions<'_>) -> Vec<Vec<(u32, u32)>> {
    let mut counts = vec![0; states];
    for &map in maps {
        functions.map(map).iter().for_each(|&(from, _)| counts[from as usize] += 1);
    }
    let mut pairs: Vec<Vec<(u32, u32)>> = counts.into_iter().map(Vec::with_capacity).collect();
    for (class, &map) in maps.iter().enumerate() {
        for &(from, to) in functions.map(map).iter() {
            pairs[from as usize].push((to, class as u32));
        }
    }
    pairs.iter_mut().for_each(|leads| leads.sort_unstable());
    pairs
}

/// States on a way of tokens from the start to a match; `None` if there is no way.
fn useful(accepting: &[bool], pairs: &[Vec<(u32, u32)>]) -> Option<Vec<bool>> {
    let states = accepting.len();
    let mut reached = vec![false; states];
    let mut sources: Vec<Vec<u32>> = vec![Vec::new(); states];
    let mut left = vec![Tables::START];
    reached[0] = true;
    while let Some(state) = left.pop() {
        for run in pairs[state as usize].chunk_by(|a, b| a.0 == b.0) {
            let to = run[0].0;
            sources[to as usize].push(state);
            if !std::mem::replace(&mut reached[to as usize], true) {
                left.push(to);
            }
        }
    }
    let mut useful = vec![false; states];
    left.extend((0..states as u32).filter(|&s| reached[s as usize] && accepting[s as usize]));
    left.iter().for_each(|&state| useful[state as usize] = true);
    while let Some(state) = left.pop() {
        for &source in &sources[state as usize] {
            if !std::mem::replace(&mut useful[source as usize], true) {
                left.push(source);
            }
        }
    }
    useful[0].then_some(useful)
}

/// Sets of classes, each kept once.
struct Groups {
    lists: Lists,
    index: FxHashMap<Box<[u32]>, u32>,
}

impl Default for Groups {
    fn default() -> Self {
        Self { lists: Lists::new(), index: FxHashMap::default() }
    }
}

impl Groups {
    fn intern(&mut self, classes: Box<[u32]>) -> u32 {
        let fresh = self.lists.len() as u32;
        let lists = &mut self.lists;
        *self.index.entry(classes).or_insert_with_key(|classes| {
            lists.push(classes.iter().copied());
            fresh
        })
    }
}
