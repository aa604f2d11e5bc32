//! What a search tells its observers while it runs: every node of the tree, every step, every notice.
//!
//! Guarantee: each node is told once, when its fate is known, and after its parent.
//! The JSON form of these events is the trace format of `docs/trace.md`.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::{Cost, Note, StopReason, TokenId};

/// Why a node was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PruneReason {
    /// Others had better values.
    Beaten,
    /// An equal sequence was kept instead.
    Duplicate,
    /// Resampling drew no copy of it.
    Resampled,
    /// A proxy reward ranked it below the share that is scored exactly.
    Screened,
    /// Even the highest reward there is could not have saved it.
    Bounded,
    /// The search was stopped before its fate was decided.
    Stopped,
}

/// A node of the tree, told when its fate is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeEvent {
    /// Its number, unique in the run.
    pub id: u64,
    /// The node it was proposed from; `None` for a start state.
    pub parent: Option<u64>,
    /// The step that proposed it, from 0; start states have none.
    pub step: Option<usize>,
    /// The slot of its parent in the population.
    pub parent_slot: Option<usize>,
    /// Its slots in the next population; empty if pruned, several if it was copied.
    pub slots: Vec<usize>,
    /// Masks left in it.
    pub masks_left: usize,
    /// The position it revealed; `None` if the step revealed nothing.
    pub position: Option<usize>,
    /// The token it revealed there.
    pub token: Option<TokenId>,
    /// Further tokens revealed by the same step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<(usize, TokenId)>,
    /// The positions that the same step masked again, before anything was placed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remasked: Vec<usize>,
    /// Its rank among the tokens of its position, or its number among its parent's candidates.
    pub rank: usize,
    /// Its value, if the step computed values.
    pub value: Option<f64>,
    /// Its reward alone, where the value is more than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<f64>,
    /// log p of what was committed on the way to it, where the value looks at it.
    #[serde(default, rename = "logp", skip_serializing_if = "Option::is_none")]
    pub log_p: Option<f64>,
    /// Whether it lives on.
    pub kept: bool,
    /// Why not, if not.
    pub reason: Option<PruneReason>,
    /// Its diffusion time τ.
    pub tau: f64,
    /// The cost of the run so far.
    pub cost: Cost,
}

impl NodeEvent {
    /// A node of which only number, masks, time and cost are known.
    pub fn new(id: u64, masks_left: usize, tau: f64, cost: Cost) -> Self {
        Self {
            id,
            parent: None,
            step: None,
            parent_slot: None,
            slots: Vec::new(),
            masks_left,
            position: None,
            token: None,
            also: Vec::new(),
            remasked: Vec::new(),
            rank: 0,
            value: None,
            reward: None,
            log_p: None,
            kept: false,
            reason: None,
            tau,
            cost,
        }
    }
}

/// A step that was completed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepEvent {
    /// Its number, from 0.
    pub step: usize,
    /// How many steps there will be.
    pub steps: usize,
    /// The most masks left in the population.
    pub masks_left: usize,
    /// Nodes kept.
    pub population: usize,
    /// Children proposed.
    pub children: usize,
    /// Distinct sequences among them, the "effective branches" of Figure 2.
    pub distinct: usize,
    /// The best value of this step, if it computed values.
    pub best_value: Option<f64>,
    /// The best reward of a complete sequence so far.
    pub best_reward: Option<f64>,
    /// The effective sample size, if the step weighed particles.
    pub ess: Option<f64>,
    /// Whether the population was resampled.
    pub resampled: bool,
    /// The cost so far.
    pub cost: Cost,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The search begins; nothing has been spent.
    Start {
        /// The method's name.
        method: String,
        /// Its options.
        plan: serde_json::Value,
        /// Positions.
        len: usize,
        /// Masks at the start.
        masks: usize,
        /// The steps there will be.
        steps: usize,
        /// The start state, `null` where masked.
        start: Vec<Option<TokenId>>,
    },
    /// A node.
    Node(NodeEvent),
    /// A completed step.
    Step(StepEvent),
    /// A cap or another notice.
    Note(Note),
    /// The search ended; `Break` has no effect any more.
    End {
        /// The answer.
        tokens: Vec<TokenId>,
        /// Its reward.
        reward: Option<f64>,
        /// Why it ended early.
        stopped: Option<StopReason>,
        /// The whole cost.
        cost: Cost,
    },
}

/// Something that watches a search and may stop it.
pub trait Observer {
    /// Sees an event; `Break` stops the search and keeps the best so far.
    fn observe(&mut self, event: &Event) -> ControlFlow<()>;

    /// Whether node events should be built at all.
    fn wants_nodes(&self) -> bool {
        true
    }

    /// Whether step events should be built at all; they cost less.
    fn wants_steps(&self) -> bool {
        self.wants_nodes()
    }
}

/// An observer that looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn observe(&mut self, _: &Event) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn wants_nodes(&self) -> bool {
        false
    }
}

impl<F: FnMut(&Event) -> ControlFlow<()>> Observer for F {
    fn observe(&mut self, event: &Event) -> ControlFlow<()> {
        self(event)
    }
}
