//! A nondeterministic automaton that pieces of a pattern are written into, and its subset construction.

use rustc_hash::FxHashMap;

use super::{
    Error, Limits, Result,
    dfa::{DEAD, Dfa, Table},
};

/// A place between two pieces of text.
pub(super) type Node = u32;

/// An automaton under construction: `from` to `to` by a byte of a range, or by nothing.
#[derive(Debug)]
pub(super) struct Nfa {
    silent: Vec<Vec<Node>>,
    ranges: Vec<Vec<(u8, u8, Node)>>,
    max_nodes: usize,
}

impl Nfa {
    /// An automaton that refuses to grow beyond `max_nodes`.
    pub fn new(max_nodes: usize) -> Self {
        Self { silent: Vec::new(), ranges: Vec::new(), max_nodes }
    }

    pub fn node(&mut self) -> Result<Node> {
        if self.silent.len() >= self.max_nodes {
            return Err(Error::TooLarge {
                what: "nodes of the pattern before it is made deterministic",
                limit: self.max_nodes,
                got: "more".to_owned(),
            });
        }
        self.silent.push(Vec::new());
        self.ranges.push(Vec::new());
        Ok(self.silent.len() as Node - 1)
    }

    pub fn silent(&mut self, from: Node, to: Node) {
        if from != to {
            self.silent[from as usize].push(to);
        }
    }

    pub fn range(&mut self, from: Node, low: u8, high: u8, to: Node) {
        self.ranges[from as usize].push((low, high, to));
    }

    /// From one node to another by exactly these bytes.
    pub fn bytes(&mut self, from: Node, bytes: &[u8], to: Node) -> Result<()> {
        let Some((&last, first)) = bytes.split_last() else {
            self.silent(from, to);
            return Ok(());
        };
        let mut at = from;
        for &byte in first {
            let next = self.node()?;
            self.range(at, byte, byte, next);
            at = next;
        }
        self.range(at, last, last, to);
        Ok(())
    }

    /// From one node to another by any text of an automaton.
    pub fn dfa(&mut self, from: Node, dfa: &Dfa, to: Node) -> Result<()> {
        let table = &dfa.table;
        let first = self.silent.len() as Node;
        for _ in 0..dfa.states() {
            self.node()?;
        }
        self.silent(from, first + table.start);
        for state in 0..dfa.states() as u32 {
            let node = first + state;
            if table.accepting[state as usize] {
                self.silent(node, to);
            }
            let mut low = 0;
            while low < 256 {
                let target = table.step(state, low as u8);
                let same = |byte: &usize| table.step(state, *byte as u8) == target;
                let high = (low..256).take_while(same).last().unwrap_or(low);
                if target != DEAD {
                    self.range(node, low as u8, high as u8, first + target);
                }
                low = high + 1;
            }
        }
        Ok(())
    }

    /// The automaton of all texts that lead from `start` to `end`; `None` if there is none. How many states it
    /// has is not known before, so they and the steps to find them are counted, and it ends at a limit.
    pub fn determinize(&self, start: Node, end: Node, limits: &Limits) -> Result<Option<Dfa>> {
        self.counted(start, end, limits, &mut 0)
    }

    /// How many nodes it has.
    pub fn size(&self) -> usize {
        self.silent.len()
    }

    /// The same with the steps of several of them counted together.
    pub fn counted(
        &self,
        start: Node,
        end: Node,
        limits: &Limits,
        steps: &mut usize,
    ) -> Result<Option<Dfa>> {
        let (classes, width) = self.byte_classes();
        let mut closure = Closure::new(self, end);
        let first = closure.of([start]);
        let mut number: FxHashMap<Box<[Node]>, u32> = FxHashMap::default();
        let mut sets = vec![first.clone()];
        number.insert(first, 0);
        let (mut next, mut accepting) = (Vec::new(), Vec::new());
        let mut targets: Vec<Vec<Node>> = vec![Vec::new(); width];
        let mut at = 0;
        while at < sets.len() {
            *steps += std::mem::take(&mut closure.steps) + width;
            if sets.len() > limits.max_states || *steps > limits.max_steps {
                let (what, limit) = match sets.len() > limits.max_states {
                    true => ("states of the byte automaton", limits.max_states),
                    false => ("steps to build the byte automaton", limits.max_steps),
                };
                let nodes = self.silent.len();
                let got =
                    format!("more at {} states, from {nodes} nodes of the pattern", sets.len());
                return Err(Error::TooLarge { what, limit, got });
            }
            accepting.push(sets[at].binary_search(&end).is_ok());
            for &node in &sets[at] {
                for &(low, high, to) in &self.ranges[node as usize] {
                    let span = classes[usize::from(low)]..=classes[usize::from(high)];
                    span.for_each(|class| targets[usize::from(class)].push(to));
                }
            }
            at += 1;
            for target in &mut targets {
                if target.is_empty() {
                    next.push(DEAD);
                    continue;
                }
                let set = closure.of(target.drain(..));
                let fresh = sets.len() as u32;
                let to = match number.get(&set) {
                    Some(&known) => known,
                    None => {
                        number.insert(set.clone(), fresh);
                        sets.push(set);
                        fresh
                    }
                };
                next.push(to);
            }
        }
        Ok(Dfa::from_table(Table { classes, width, next, accepting, start: 0 }))
    }

    /// Bytes that no range tells apart share a class; classes increase with bytes.
    fn byte_classes(&self) -> ([u8; 256], usize) {
        let mut begins = [false; 257];
        for &(low, high, _) in self.ranges.iter().flatten() {
            begins[usize::from(low)] = true;
            begins[usize::from(high) + 1] = true;
        }
        let mut class = 0;
        let classes = std::array::from_fn(|byte| {
            class += usize::from(byte > 0 && begins[byte]);
            class as u8
        });
        (classes, class + 1)
    }
}

/// Follows silent edges, with marks that need no clearing.
struct Closure<'a> {
    nfa: &'a Nfa,
    end: Node,
    mark: Vec<u32>,
    round: u32,
    /// Nodes and edges that were looked at: the work, and a bound of the memory.
    steps: usize,
}

impl<'a> Closure<'a> {
    fn new(nfa: &'a Nfa, end: Node) -> Self {
        Self { nfa, end, mark: vec![0; nfa.silent.len()], round: 0, steps: 0 }
    }

    fn of(&mut self, nodes: impl IntoIterator<Item = Node>) -> Box<[Node]> {
        self.round += 1;
        let mut set = Vec::new();
        for node in nodes {
            self.steps += 1;
            if self.mark[node as usize] != self.round {
                self.mark[node as usize] = self.round;
                set.push(node);
            }
        }
        let mut at = 0;
        while let Some(&node) = set.get(at) {
            at += 1;
            self.steps += 1 + self.nfa.silent[node as usize].len();
            for &to in &self.nfa.silent[node as usize] {
                if self.mark[to as usize] != self.round {
                    self.mark[to as usize] = self.round;
                    set.push(to);
                }
            }
        }
        // Only nodes that read or end tell sets apart.
        set.retain(|&node| node == self.end || !self.nfa.ranges[node as usize].is_empty());
        set.sort_unstable();
        set.into()
    }
}
