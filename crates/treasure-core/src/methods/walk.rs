//! A walk by first hitting: nodes move on, one sampled token an event, until few enough masks are left.
//! What methods that roll out, renoise or remask share.

use std::sync::Arc;

use crate::{
    Context, Error, Event, Flow, Key, MaskedSeq, NodeEvent, Particle, TokenId, Want,
    context::Step,
    population::{Node, Weight, next_population},
    propose::{FirstHitting, Propose, Reveal},
    run::Concluded,
    select::{Kept, Selection},
};

/// Moves nodes with equally many masks on until each has `masks` left. Draws by the context's key, the
/// number of masks and the slot. `at` is where they are, for whoever has to stop.
pub(super) fn walk(cx: &mut Context<'_, '_>, at: &mut Vec<Node>, masks: usize) -> Flow<()> {
    let hitting = FirstHitting::new(Reveal::Sample { candidates: 1.into() });
    let most = |at: &[Node]| at.iter().map(|node| node.seq.n_masked()).max().unwrap_or(0);
    while most(at) > masks {
        cx.problem.check_deadline()?;
        let steps = cx.problem.start().n_masked();
        cx.step = Step { index: steps - most(at).min(steps), steps, ..Step::default() };
        let proposals = hitting.propose(cx, at)?;
        let kept = (at.iter().enumerate())
            .map(|(child, node)| Kept { child, slot: node.slot, weight: Weight::default() })
            .collect();
        let all = Selection { kept, ..Selection::default() };
        *at = next_population(at, &proposals, &all, None, cx);
    }
    Ok(())
}

/// What states with equally many masks are worth: the reward at the end, before it that of the likeliest
/// completion of their own prediction, which is kept.
pub(super) fn looked_at(cx: &Context<'_, '_>, nodes: &mut [Node]) -> Flow<Vec<f64>> {
    let mut texts: Vec<Vec<TokenId>> =
        nodes.iter().filter_map(|node| Some(node.seq.complete()?.to_vec())).collect();
    if texts.is_empty() {
        let states: Vec<_> = nodes.iter().map(|node| (node.seq.clone(), node.t)).collect();
        let encoded = cx.problem.encode(&states)?;
        let want = Want { argmax: true, ..Want::default() };
        let wants: Vec<_> = encoded.iter().map(|encoded| (encoded, want)).collect();
        let answers = cx.problem.read(&wants)?;
        texts = (nodes.iter().zip(answers))
            .map(|(node, answer)| node.seq.complete_with(answer.argmax))
            .collect();
        for (node, encoded) in nodes.iter_mut().zip(encoded) {
            node.encoded = Some(encoded);
        }
    }
    cx.problem.score(&texts)
}

/// The error for what a tree lacks.
pub(super) fn missing(what: &'static str, expected: &str) -> Error {
    Error::Invalid { what, expected: expected.into(), got: "none".into() }
}

/// The end of a search that has seen these texts: the best of them, the first of equals.
pub(super) fn best_of(finals: Vec<Particle>, what: &'static str) -> Flow<Concluded> {
    let better = |best: usize, other: usize| {
        if finals[other].reward > finals[best].reward { other } else { best }
    };
    let best =
        (0..finals.len()).reduce(better).ok_or_else(|| missing(what, "a text that is finished"))?;
    Ok(Concluded {
        tokens: finals[best].tokens.clone(),
        reward: Some(finals[best].reward),
        log_p: None,
        stopped: None,
        finals,
    })
}

/// What turns one state into another: positions masked again, then tokens placed.
pub(super) struct Change {
    pub remasked: Vec<usize>,
    pub placed: Vec<(usize, TokenId)>,
}

impl Change {
    /// From a state to another of the same length.
    pub(super) fn between(from: &MaskedSeq, to: &MaskedSeq) -> Self {
        let differ = |at: &usize| from.get(*at) != to.get(*at);
        let changed: Vec<usize> = (0..from.len()).filter(differ).collect();
        Self {
            remasked: changed.iter().copied().filter(|&at| from.get(at).is_some()).collect(),
            placed: changed.iter().filter_map(|&at| Some((at, to.get(at)?))).collect(),
        }
    }
}

/// What is told about a node beside its state.
pub(super) struct Told {
    pub step: usize,
    pub rank: usize,
    pub value: Option<f64>,
    pub reason: Option<crate::PruneReason>,
}

/// Tells a node that came from a parent by any change, and numbers it.
pub(super) fn tell_change(
    cx: &mut Context<'_, '_>,
    parent: &Node,
    node: &mut Node,
    told: Told,
) -> Flow<()> {
    node.id = cx.number(1);
    if !cx.wants_nodes() {
        return Ok(());
    }
    let Change { remasked, mut placed } = Change::between(&parent.seq, &node.seq);
    let first = (!placed.is_empty()).then(|| placed.remove(0));
    let kept = told.reason.is_none();
    let event = NodeEvent::new(node.id, node.seq.n_masked(), node.t, cx.problem.cost());
    cx.tell(&Event::Node(NodeEvent {
        parent: Some(parent.id),
        step: Some(told.step),
        parent_slot: Some(parent.slot),
        slots: if kept { vec![node.slot] } else { Vec::new() },
        position: first.map(|(position, _)| position),
        token: first.map(|(_, token)| token),
        also: placed,
        remasked,
        rank: told.rank,
        value: told.value,
        kept,
        reason: told.reason,
        ..event
    }))
}

/// A start node with a state of its own.
pub(super) fn node_at(seq: Arc<MaskedSeq>, t: f64, slot: usize) -> Node {
    Node { t, ..Node::start(0, slot, seq) }
}

/// `count` of some positions, each set with equal chance, in increasing order.
pub(super) fn some_of(mut from: Vec<usize>, count: usize, key: Key) -> Vec<usize> {
    let count = count.min(from.len());
    let mut chosen: Vec<usize> =
        (0..count as u64).map(|i| from.swap_remove(key.fold(i).below(from.len()))).collect();
    chosen.sort_unstable();
    chosen
}
