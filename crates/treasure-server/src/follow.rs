//! Follows a search from its events: what its best text looks like after every step.
//!
//! Runs on the search's own thread while others wait for it, so it does no more than place tokens;
//! text is made of them by the reader.

use std::{collections::HashMap, ops::ControlFlow, sync::Arc};

use treasure::core::{Event, NodeEvent, StepEvent, TokenId};

use crate::mailbox::{Letter, Mailbox};

/// Nodes that are told at most: more than anyone can look at.
const TOLD: usize = 50_000;

/// An event with what it says about probabilities.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub event: Event,
    /// Of a node: the probability of the token it revealed, where that is known.
    pub p: Option<f64>,
}

/// The best text at a step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// Steps that are finished.
    pub step: usize,
    pub steps: usize,
    pub masks_left: usize,
    pub nfe: u64,
    pub reward_calls: u64,
    pub value: Option<f64>,
    pub reward: Option<f64>,
    /// The tokens by position.
    pub slots: Vec<Option<TokenId>>,
    /// How sure the model was of each, where that is known.
    pub p: Vec<Option<f64>>,
    /// The node it belongs to.
    pub node: Option<u64>,
    /// What happened since the last one.
    pub events: Vec<Told>,
}

/// What a client wants to know on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// The whole text after every step; with `trace` every event too.
    Frames {
        /// Whether events are told.
        trace: bool,
    },
    /// The tokens that can no longer change.
    Settled,
}

#[derive(Clone)]
struct State {
    slots: Vec<Option<TokenId>>,
    p: Vec<Option<f64>>,
    log_p: f64,
}

impl State {
    fn reveal(&mut self, node: &NodeEvent, p: Option<f64>) {
        for &position in &node.remasked {
            if let (Some(slot), Some(sure)) =
                (self.slots.get_mut(position), self.p.get_mut(position))
            {
                (*slot, *sure) = (None, None);
            }
        }
        for (position, token) in reveals(node) {
            if let (Some(slot), Some(sure)) =
                (self.slots.get_mut(position), self.p.get_mut(position))
            {
                (*slot, *sure) = (Some(token), p.filter(|_| node.also.is_empty()));
            }
        }
        self.log_p = node.log_p.unwrap_or(self.log_p);
    }
}

fn reveals(node: &NodeEvent) -> impl Iterator<Item = (usize, TokenId)> {
    node.position.zip(node.token).into_iter().chain(node.also.iter().copied())
}

/// A node that was told, as far as the answer's line is looked for.
struct Kin {
    parent: Option<u64>,
    reveals: Vec<(usize, TokenId)>,
    p: Option<f64>,
}

/// Follows one search.
pub(crate) struct Follow {
    mailbox: Arc<Mailbox>,
    search: usize,
    telling: Telling,
    start: Vec<Option<TokenId>>,
    steps: usize,
    living: HashMap<u64, State>,
    next: HashMap<u64, State>,
    first: Option<u64>,
    kin: HashMap<u64, Kin>,
    events: Vec<Told>,
    /// The frame that stands, which is not told again.
    told: Vec<Option<TokenId>>,
    settled: usize,
    last: Option<Snapshot>,
}

impl Follow {
    pub fn new(mailbox: Arc<Mailbox>, search: usize, telling: Telling) -> Self {
        Self {
            mailbox,
            search,
            telling,
            start: Vec::new(),
            steps: 0,
            living: HashMap::new(),
            next: HashMap::new(),
            first: None,
            kin: HashMap::new(),
            events: Vec::new(),
            told: Vec::new(),
            settled: 0,
            last: None,
        }
    }

    /// The last frame, once the search has ended.
    pub fn into_last(self) -> Option<Snapshot> {
        self.last
    }

    fn traces(&self) -> bool {
        self.telling == Telling::Frames { trace: true }
    }

    /// Sees an event.
    pub fn see(&mut self, event: &Event) -> ControlFlow<()> {
        let mut p = None;
        match event {
            Event::Start { start, steps, .. } => {
                (self.start, self.steps) = (start.clone(), *steps);
                self.picture(Snapshot {
                    steps: *steps,
                    slots: start.clone(),
                    ..Snapshot::default()
                });
            }
            Event::Node(node) => p = self.node(node),
            Event::Step(step) => self.step(step),
            Event::End { tokens, reward, cost, .. } => {
                self.keep(event, None);
                self.end(tokens, *reward, cost.nfe, cost.reward_calls);
                return ControlFlow::Continue(());
            }
            _ => {}
        }
        self.keep(event, p);
        ControlFlow::Continue(())
    }

    fn keep(&mut self, event: &Event, p: Option<f64>) {
        let counted = matches!(event, Event::Node(_));
        if self.traces() && !(counted && self.kin.len() > TOLD) {
            self.events.push(Told { event: event.clone(), p });
        }
    }

    /// Places a node; the probability of what it revealed, where that is known.
    fn node(&mut self, node: &NodeEvent) -> Option<f64> {
        let parent = match node.parent {
            None => None,
            Some(parent) => Some(self.living.get(&parent)?),
        };
        let log_p = parent.map_or(0.0, |parent| parent.log_p);
        let alone = node.position.is_some() && node.also.is_empty();
        let p = node.log_p.filter(|_| alone).map(|own| (own - log_p).exp().min(1.0));
        if node.kept {
            let masked = vec![None; self.start.len()];
            let mut state = match parent {
                Some(parent) => parent.clone(),
                None => State { slots: self.start.clone(), p: masked, log_p: 0.0 },
            };
            state.reveal(node, p);
            match node.step {
                None => self.living.insert(node.id, state),
                Some(_) => self.next.insert(node.id, state),
            };
            if node.slots.contains(&0) {
                self.first = Some(node.id);
            }
        }
        if self.traces() && self.kin.len() <= TOLD {
            let reveals = reveals(node).collect();
            self.kin.insert(node.id, Kin { parent: node.parent, reveals, p });
        }
        p
    }

    fn step(&mut self, step: &StepEvent) {
        if !self.next.is_empty() {
            self.living = std::mem::take(&mut self.next);
        }
        let Some(state) = self.first.and_then(|first| self.living.get(&first)) else { return };
        let masks_left = state.slots.iter().filter(|slot| slot.is_none()).count();
        // The complete text is the answer's to tell.
        if masks_left == 0 || state.slots == self.told {
            return;
        }
        let frame = Snapshot {
            step: step.step + 1,
            steps: step.steps,
            masks_left,
            nfe: step.cost.nfe,
            reward_calls: step.cost.reward_calls,
            value: step.best_value,
            reward: step.best_reward,
            slots: state.slots.clone(),
            p: state.p.clone(),
            node: self.first,
            events: Vec::new(),
        };
        self.picture(frame);
    }

    /// Tells a frame, or what of it can no longer change.
    fn picture(&mut self, mut frame: Snapshot) {
        frame.masks_left = frame.slots.iter().filter(|slot| slot.is_none()).count();
        self.told.clone_from(&frame.slots);
        match self.telling {
            Telling::Frames { .. } => {
                frame.events = std::mem::take(&mut self.events);
                self.mailbox.put(self.search, Letter::Frame(frame));
            }
            Telling::Settled => {
                let given = self.start.iter().take_while(|slot| slot.is_some()).count();
                let settled = frame.slots.iter().skip(given).map_while(|slot| *slot);
                let settled: Vec<TokenId> = settled.collect();
                if settled.len() > self.settled {
                    self.settled = settled.len();
                    self.mailbox.put(self.search, Letter::Settled(settled));
                }
            }
        }
    }

    fn end(&mut self, tokens: &[TokenId], reward: Option<f64>, nfe: u64, reward_calls: u64) {
        if !matches!(self.telling, Telling::Frames { .. }) {
            return;
        }
        let node = self.line_of(tokens);
        let mut p = vec![None; tokens.len()];
        let mut next = node;
        while let Some(kin) = next.and_then(|node| self.kin.get(&node)) {
            if let [(position, _)] = kin.reveals[..]
                && let Some(sure) = p.get_mut(position)
            {
                *sure = kin.p;
            }
            next = kin.parent;
        }
        let steps = self.steps;
        self.last = Some(Snapshot {
            step: steps,
            steps,
            masks_left: 0,
            nfe,
            reward_calls,
            value: None,
            reward,
            slots: tokens.iter().copied().map(Some).collect(),
            p,
            node,
            events: std::mem::take(&mut self.events),
        });
    }

    /// The node whose line reveals the most of an answer and nothing else.
    fn line_of(&self, tokens: &[TokenId]) -> Option<u64> {
        let mut agrees: HashMap<u64, usize> = HashMap::with_capacity(self.kin.len());
        let mut ids: Vec<u64> = self.kin.keys().copied().collect();
        // Parents have smaller numbers.
        ids.sort_unstable();
        for &id in &ids {
            let kin = &self.kin[&id];
            let before = match kin.parent {
                None => Some(0),
                Some(parent) => agrees.get(&parent).copied(),
            };
            let same = kin.reveals.iter().all(|(at, token)| tokens.get(*at) == Some(token));
            if let (Some(before), true) = (before, same) {
                agrees.insert(id, before + kin.reveals.len());
            }
        }
        ids.into_iter()
            .filter(|id| agrees.contains_key(id))
            .max_by_key(|id| (agrees[id], std::cmp::Reverse(*id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use treasure::core::Cost;

    #[test]
    fn what_a_search_masks_again_is_a_hole_again() {
        let (slots, p) = (vec![Some(7), Some(8), None], vec![Some(0.5), Some(0.5), None]);
        let mut state = State { slots, p, log_p: 0.0 };
        let node = NodeEvent {
            remasked: vec![0, 1],
            position: Some(1),
            token: Some(9),
            ..NodeEvent::new(1, 2, 0.5, Cost::default())
        };
        state.reveal(&node, None);
        assert_eq!((state.slots, state.p), (vec![None, Some(9), None], vec![None; 3]));
    }
}
