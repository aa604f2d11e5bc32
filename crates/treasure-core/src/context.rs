//! What the parts of a search share while it runs: the problem, the key, the step, and whoever watches.

use std::ops::ControlFlow;

use crate::{Event, Flow, Halt, Key, NodeEvent, Note, Observer, Problem, StopReason};

/// What a step asks of a prediction beside its children, so that one question answers all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The likeliest token at each mask of each parent.
    pub argmax: bool,
    /// The log-probabilities of those tokens.
    pub confidence: bool,
    /// The time at which each child's own prediction would be asked for.
    pub next_time: bool,
}

impl Needs {
    /// What either of two asks for.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            argmax: self.argmax || other.argmax,
            confidence: self.confidence || other.confidence,
            next_time: self.next_time || other.next_time,
        }
    }
}

/// Where the loop is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// The step's number, from 0.
    pub index: usize,
    /// How many steps there will be.
    pub steps: usize,
    /// Whether this step completes every sequence; known once the children were proposed.
    pub last: bool,
    /// What the proposal should read along.
    pub needs: Needs,
}

/// What the parts of a search share during a run.
pub struct Context<'r, 'p> {
    /// The problem.
    pub problem: &'r Problem<'p>,
    /// The key of the sample.
    pub key: Key,
    /// Where the loop is.
    pub step: Step,
    /// The running estimate of the log-normaliser, if the selection keeps one.
    pub log_normalizer: Option<f64>,
    /// The reward of the text that was given, once it was scored.
    pub(crate) reward_before: Option<f64>,
    observer: &'r mut dyn Observer,
    pub(crate) notes: Vec<Note>,
    pub(crate) tree: Option<Vec<NodeEvent>>,
    next_id: u64,
}

impl<'r, 'p> Context<'r, 'p> {
    /// A context at the beginning of a run.
    pub fn new(problem: &'r Problem<'p>, key: Key, observer: &'r mut dyn Observer) -> Self {
        Self {
            problem,
            key,
            step: Step::default(),
            log_normalizer: None,
            reward_before: None,
            observer,
            notes: Vec::new(),
            tree: None,
            next_id: 0,
        }
    }

    /// Notes something once.
    pub fn note(&mut self, what: &str, message: impl FnOnce() -> String) -> Flow<()> {
        if self.notes.iter().any(|note| note.what == what) {
            return Ok(());
        }
        let note = Note { what: what.to_owned(), message: message() };
        self.notes.push(note.clone());
        self.tell(&Event::Note(note))
    }

    /// Tells the observer; its `Break` stops the search.
    pub fn tell(&mut self, event: &Event) -> Flow<()> {
        if let (Some(tree), Event::Node(node)) = (&mut self.tree, event) {
            tree.push(node.clone());
        }
        match self.observer.observe(event) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Halt::Stop(StopReason::Observer)),
        }
    }

    /// Whether node events should be built at all.
    pub fn wants_nodes(&self) -> bool {
        self.tree.is_some() || self.observer.wants_nodes()
    }

    /// Whether step events should be built at all.
    pub fn wants_steps(&self) -> bool {
        self.observer.wants_steps()
    }

    /// The number of the first of `count` new nodes.
    pub fn number(&mut self, count: usize) -> u64 {
        let first = self.next_id;
        self.next_id += count as u64;
        first
    }

    /// A context of a run inside this one: the same observer is not bothered, notes are handed up by
    /// the caller, costs and budgets are those of the problem, which both share.
    pub fn nested<'n>(
        problem: &'n Problem<'p>,
        key: Key,
        silent: &'n mut dyn Observer,
    ) -> Context<'n, 'p> {
        Context::new(problem, key, silent)
    }
}
