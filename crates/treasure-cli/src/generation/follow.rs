//! What follows a search while it runs: progress line, `--watch`, `--trace` and Ctrl-C.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    sync::{Mutex, MutexGuard, PoisonError},
};

use treasure_core::{Event, MaskedSeq, NodeEvent, Observer, StepEvent, TraceWriter};

use crate::{
    interrupt,
    output::{
        progress::{Progress, Standing},
        watch::Watch,
    },
};

/// What is shown while samples run; shared by all samples in flight.
#[derive(Debug)]
pub struct Screen {
    content: Mutex<Content>,
}

#[derive(Debug)]
struct Content {
    progress: Progress,
    watch: Option<Watch>,
}

impl Screen {
    /// A screen with a progress line, or with a view of the text.
    pub fn new(progress: Progress, watch: Option<Watch>) -> Self {
        Self { content: Mutex::new(Content { progress, watch }) }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        // A line on the screen is never half-made in a way that matters.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many samples begin.
    pub fn begin(&self, samples: usize) {
        self.content().progress.restart(samples);
    }

    /// One of them is done.
    pub fn one_done(&self) {
        self.content().progress.one_done();
    }

    /// Takes everything away, so that something else can be printed.
    pub fn clear(&self) {
        let mut content = self.content();
        content.progress.clear();
        if let Some(watch) = &mut content.watch {
            watch.clear();
        }
    }

    /// Whether the text is shown while it is searched for.
    pub fn watches(&self) -> bool {
        self.content().watch.is_some()
    }
}

/// Follows one search.
pub struct Follower<'a> {
    screen: &'a Screen,
    /// Shows a partly masked sequence as text.
    render: Box<dyn Fn(&MaskedSeq) -> String + 'a>,
    trace: Option<TraceWriter<Vec<u8>>>,
    watches: bool,
    start: Option<MaskedSeq>,
    /// States of the nodes that live, by id, for the view of the text.
    living: HashMap<u64, MaskedSeq>,
    /// Kept children of the step under way.
    next: HashMap<u64, MaskedSeq>,
    /// The node in slot 0.
    first: Option<u64>,
    standing: Standing,
    interrupted: bool,
}

impl<'a> Follower<'a> {
    /// Follows a search on a screen, with a trace if one is asked for.
    pub fn new(
        screen: &'a Screen,
        render: Box<dyn Fn(&MaskedSeq) -> String + 'a>,
        trace: Option<TraceWriter<Vec<u8>>>,
    ) -> Self {
        Self {
            watches: screen.watches(),
            screen,
            render,
            trace,
            start: None,
            living: HashMap::new(),
            next: HashMap::new(),
            first: None,
            standing: Standing::default(),
            interrupted: false,
        }
    }

    /// Whether Ctrl-C stopped this search.
    pub fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// The trace, if one was asked for.
    pub fn into_trace(self) -> std::io::Result<Option<Vec<u8>>> {
        self.trace.map(TraceWriter::finish).transpose()
    }

    fn node(&mut self, node: &NodeEvent) {
        if !self.watches || !node.kept {
            return;
        }
        let state = match node.parent {
            None => self.start.clone(),
            Some(parent) => self.living.get(&parent).cloned(),
        };
        let Some(mut state) = state else { return };
        let reveals = node.position.zip(node.token).into_iter().chain(node.also.iter().copied());
        for (position, token) in reveals {
            if state.get(position).is_none() {
                state.reveal_in_place(position, token);
            }
        }
        if node.slots.contains(&0) {
            self.first = Some(node.id);
        }
        match node.step {
            None => self.living.insert(node.id, state),
            Some(_) => self.next.insert(node.id, state),
        };
    }

    fn step(&mut self, step: &StepEvent) {
        if !self.next.is_empty() {
            self.living = std::mem::take(&mut self.next);
        }
        self.standing.step = step.step + 1;
        self.standing.steps = step.steps;
        self.standing.masks_left = step.masks_left;
        self.standing.best = step.best_reward.or(step.best_value);
        self.standing.nfe = step.cost.nfe;
        self.standing.reward_calls = step.cost.reward_calls;
        let mut content = self.screen.content();
        match &mut content.watch {
            Some(watch) if watch.is_due() || step.masks_left == 0 => {
                if let Some(state) = self.first.and_then(|first| self.living.get(&first)) {
                    watch.draw(&(self.render)(state), &self.standing.line(0.0));
                }
            }
            Some(_) => {}
            None => content.progress.update(&self.standing),
        }
    }
}

impl Observer for Follower<'_> {
    fn observe(&mut self, event: &Event) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        if let Some(trace) = &mut self.trace {
            flow = trace.observe(event);
        }
        match event {
            Event::Start { masks, start, .. } => {
                self.standing.masks = *masks;
                self.start = Some(MaskedSeq::from_slots(start.iter().copied()));
            }
            Event::Node(node) => self.node(node),
            Event::Step(step) => self.step(step),
            _ => {}
        }
        if interrupt::asked() {
            self.interrupted = true;
            flow = ControlFlow::Break(());
        }
        flow
    }
}
