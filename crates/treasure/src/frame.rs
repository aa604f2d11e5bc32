//! What a person watches: the whole text at a step, masks marked.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::ControlFlow,
};

use serde::{Deserialize, Serialize};
use treasure_core::{Event, MaskedSeq, NodeEvent, Observer, StepEvent, TokenId, TraceWriter};

use treasure_text::TextModel;

use crate::writer::decode_run;

/// A piece of a text that is forming.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrameToken {
    /// What it reads as; a mask has no text yet.
    pub text: String,
    /// Whether it is still a mask.
    pub masked: bool,
    /// The probability the model gave it when it was committed, where that is known.
    pub probability: Option<f64>,
}

/// The text of the best node at a step.
///
/// ```
/// use std::ops::ControlFlow;
///
/// let session = treasure::Session::pocket()?;
/// let mut masks = Vec::new();
/// session.prompt("The old dog").reward("length:1..9").length(3).watch(|frame| {
///     masks.push(frame.tokens.iter().filter(|token| token.masked).count());
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(masks.last(), Some(&0));
/// # Ok::<(), treasure::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// The step, from 1.
    pub step: usize,
    /// How many there will be.
    pub steps: usize,
    /// Masks left.
    pub masks_left: usize,
    /// The whole text, prompt first, each mask as `▒`.
    pub text: String,
    /// The same piece by piece.
    pub tokens: Vec<FrameToken>,
    /// The best reward of a complete text so far.
    pub reward: Option<f64>,
    /// Model calls so far.
    pub nfe: u64,
    /// Reward calls so far.
    pub reward_calls: u64,
    /// The sequence itself, for programs; no part of the JSON.
    #[serde(skip)]
    pub ids: Vec<Option<TokenId>>,
}

/// Somebody who sees every step of a text; `Break` stops the search.
pub type Show<'a> = dyn FnMut(&Frame) -> ControlFlow<()> + Send + 'a;

/// Somebody who sees every event of a search; `Break` stops it.
pub type Tell<'a> = dyn FnMut(&Event) -> ControlFlow<()> + Send + 'a;

/// What a mask looks like.
pub(crate) const MASK: char = '▒';

/// A state on its way through a search.
#[derive(Clone)]
struct State {
    seq: MaskedSeq,
    log_p: f64,
    /// By position, where a token was committed with a known probability.
    probability: HashMap<usize, f64>,
}

/// Follows a search: frames for whoever watches, a trace for whoever stores.
pub(crate) struct Follower<'a, 'w> {
    writer: &'a dyn TextModel,
    ends: &'a [TokenId],
    show: Option<&'w mut Show<'w>>,
    tell: Option<&'w mut Tell<'w>>,
    /// Whether `tell` looks at nodes.
    nodes: bool,
    trace: Option<TraceWriter<Vec<u8>>>,
    /// Tokens that the trace names.
    tokens: BTreeSet<TokenId>,
    start: Option<MaskedSeq>,
    living: HashMap<u64, State>,
    next: HashMap<u64, State>,
    first: Option<u64>,
}

impl<'a, 'w> Follower<'a, 'w> {
    pub(crate) fn new(
        writer: &'a dyn TextModel,
        ends: &'a [TokenId],
        show: Option<&'w mut Show<'w>>,
        (tell, nodes): (Option<&'w mut Tell<'w>>, bool),
        trace: Option<TraceWriter<Vec<u8>>>,
    ) -> Self {
        let (living, next, tokens) = (HashMap::new(), HashMap::new(), BTreeSet::new());
        let (start, first) = (None, None);
        Self { writer, ends, show, tell, nodes, trace, tokens, start, living, next, first }
    }

    /// The trace, closed by the texts of its tokens, so that a program without the tokenizer can read
    /// it.
    pub(crate) fn into_trace(self) -> std::io::Result<Option<Vec<u8>>> {
        let Some(mut trace) = self.trace else { return Ok(None) };
        let tokenizer = self.writer.tokenizer().ok();
        let texts: BTreeMap<TokenId, String> = (self.tokens.iter())
            .filter_map(|&token| Some((token, tokenizer?.token_text(token)?)))
            .collect();
        trace.line(&serde_json::json!({"event": "texts", "texts": texts}));
        trace.finish().map(Some)
    }

    fn node(&mut self, node: &NodeEvent) {
        if self.show.is_none() || !node.kept {
            return;
        }
        let state = match node.parent {
            None => {
                self.start.clone().map(|seq| State { seq, log_p: 0.0, probability: HashMap::new() })
            }
            Some(parent) => self.living.get(&parent).cloned(),
        };
        let Some(mut state) = state else { return };
        let before = state.log_p;
        let reveals = node.position.zip(node.token).into_iter().chain(node.also.iter().copied());
        for (position, token) in reveals {
            if state.seq.get(position).is_none() {
                state.seq.reveal_in_place(position, token);
            }
        }
        if let Some(log_p) = node.log_p {
            state.log_p = log_p;
            if let (Some(position), true) = (node.position, node.also.is_empty()) {
                state.probability.insert(position, (log_p - before).exp().min(1.0));
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

    fn step(&mut self, step: &StepEvent) -> ControlFlow<()> {
        if !self.next.is_empty() {
            self.living = std::mem::take(&mut self.next);
        }
        let state = self.first.and_then(|first| self.living.get(&first));
        let (Some(show), Some(state)) = (&mut self.show, state) else {
            return ControlFlow::Continue(());
        };
        let tokens = pieces(self.writer, self.ends, state);
        show(&Frame {
            step: step.step + 1,
            steps: step.steps,
            masks_left: state.seq.n_masked(),
            text: text_of(&tokens),
            tokens,
            reward: step.best_reward,
            nfe: step.cost.nfe,
            reward_calls: step.cost.reward_calls,
            ids: state.seq.slots().collect(),
        })
    }
}

fn text_of(tokens: &[FrameToken]) -> String {
    tokens.iter().fold(String::new(), |mut text, token| {
        match token.masked {
            true => text.push(MASK),
            false => text.push_str(&token.text),
        }
        text
    })
}

/// A partly masked sequence piece by piece, up to its first end of text.
fn pieces(writer: &dyn TextModel, ends: &[TokenId], state: &State) -> Vec<FrameToken> {
    let mut out: Vec<FrameToken> = Vec::new();
    let mut read = String::new();
    let mut run: Vec<TokenId> = Vec::new();
    for (position, slot) in state.seq.slots().enumerate() {
        match slot {
            // The text after an end of text does not count; the first token may be one too.
            Some(token) if ends.contains(&token) && !out.is_empty() => break,
            Some(token) => {
                run.push(token);
                // Decoding the run as a whole keeps characters that several tokens make together.
                let whole = decode_run(writer, &run);
                let text = whole.strip_prefix(&read).unwrap_or(&whole).to_owned();
                read = whole;
                let probability = state.probability.get(&position).copied();
                out.push(FrameToken { text, masked: false, probability });
            }
            None => {
                run.clear();
                read.clear();
                out.push(FrameToken { text: String::new(), masked: true, probability: None });
            }
        }
    }
    if let Some(first) = out.iter_mut().find(|token| token.masked || !token.text.is_empty()) {
        first.text = first.text.trim_start().to_owned();
    }
    out.retain(|token| token.masked || !token.text.is_empty());
    out
}

impl Observer for Follower<'_, '_> {
    fn observe(&mut self, event: &Event) -> ControlFlow<()> {
        if let Some(trace) = &mut self.trace {
            trace.observe(event)?;
            match event {
                Event::Start { start, .. } => self.tokens.extend(start.iter().flatten()),
                Event::Node(node) => {
                    self.tokens.extend(node.token);
                    self.tokens.extend(node.also.iter().map(|&(_, token)| token));
                }
                _ => {}
            }
        }
        if let Some(tell) = &mut self.tell {
            tell(event)?;
        }
        match event {
            Event::Start { start, .. } => {
                self.start = Some(MaskedSeq::from_slots(start.iter().copied()));
            }
            Event::Node(node) => self.node(node),
            Event::Step(step) => return self.step(step),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn wants_nodes(&self) -> bool {
        self.show.is_some() || self.trace.is_some() || (self.tell.is_some() && self.nodes)
    }

    fn wants_steps(&self) -> bool {
        self.wants_nodes() || self.tell.is_some()
    }
}
