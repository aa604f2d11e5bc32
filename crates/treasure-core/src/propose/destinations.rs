//! Destination proposals (TreeG, Guo et al., 2025, "SD"): draw K completions of a parent from its
//! prediction; each child takes its tokens at the step's positions from one of them.
//!
//! One forward pass per parent. The positions are those of the step of a sampler, one event of first
//! hitting or all that an ancestral step reveals, and are the same for all K. Draws by state.

use std::sync::Arc;

use super::{DrawBy, Grid, Propose, encode_parents, purpose};
use crate::{
    Answer, Context, Encoded, Flow, Key,
    population::{Child, Expanded, Node, Proposals},
    value::sample_completions,
};

/// Children that are taken from sampled completions.
#[derive(Clone, Copy, Debug)]
pub struct Destinations {
    /// The steps of ancestral sampling; without them, first hitting.
    pub grid: Option<Grid>,
    /// K, the completions per parent.
    pub candidates: usize,
}

/// Where a parent's step goes.
struct Aim {
    key: Key,
    /// When its prediction is made, and where its children stand.
    at: f64,
    to: f64,
    positions: Vec<usize>,
}

impl Destinations {
    fn aim(&self, cx: &Context<'_, '_>, node: &Node) -> Aim {
        let (step, schedule) = (cx.step.index, cx.problem.schedule());
        let free: Vec<usize> = node.seq.masked().collect();
        match self.grid {
            Some(grid) => {
                let key = DrawBy::State.key(cx.key, step, node.slot, &node.seq);
                let (t, s) = grid.times(step);
                let (all, chance) = (step + 1 == grid.steps(), schedule.reveal_prob(s, t));
                let hit = |at: &usize| {
                    all || key.fold(purpose::REVEAL).fold(*at as u64).uniform() < chance
                };
                Aim { key, at: t, to: s, positions: free.into_iter().filter(hit).collect() }
            }
            None if free.is_empty() => {
                let key = DrawBy::State.key(cx.key, 0, node.slot, &node.seq);
                Aim { key, at: node.t, to: node.t, positions: free }
            }
            None => {
                let key = DrawBy::State.key(cx.key, free.len(), node.slot, &node.seq);
                let u = key.fold(purpose::TIME).uniform();
                let t = schedule.next_event(free.len(), node.t, u);
                let position = free[key.fold(purpose::POSITION).below(free.len())];
                Aim { key, at: t, to: t, positions: vec![position] }
            }
        }
    }
}

impl Propose for Destinations {
    fn steps(&self, masks: usize) -> usize {
        self.grid.map_or(masks, Grid::steps)
    }

    fn propose(&self, cx: &mut Context<'_, '_>, parents: &[Node]) -> Flow<Proposals> {
        let aims: Vec<Aim> = parents.iter().map(|node| self.aim(cx, node)).collect();
        let times: Vec<f64> = aims.iter().map(|aim| aim.at).collect();
        let encoded = encode_parents(cx, parents, &times, None)?;
        let mut proposals = Proposals::default();
        for (parent, ((node, aim), encoded)) in parents.iter().zip(aims).zip(encoded).enumerate() {
            self.children(cx, parent, node, &aim, &encoded, &mut proposals.children)?;
            proposals.parents.push(Expanded::new(&encoded, Answer::default()));
        }
        Ok(proposals)
    }

    fn is_last(&self, cx: &Context<'_, '_>, proposals: &Proposals) -> bool {
        match self.grid {
            Some(grid) => cx.step.index + 1 == grid.steps(),
            None => proposals.children.iter().all(|child| child.seq.n_masked() == 0),
        }
    }
}

impl Destinations {
    fn children(
        &self,
        cx: &Context<'_, '_>,
        parent: usize,
        node: &Node,
        aim: &Aim,
        encoded: &Encoded,
        out: &mut Vec<Child>,
    ) -> Flow<()> {
        if node.seq.n_masked() == 0 {
            out.push(Child::carried(parent, node, aim.to));
            return Ok(());
        }
        let drawn = sample_completions(cx.problem, encoded, aim.key, self.candidates)?;
        for (rank, completion) in drawn.into_iter().enumerate() {
            let mut placed: Vec<_> =
                aim.positions.iter().map(|&position| (position, completion[position])).collect();
            let mut seq = (*node.seq).clone();
            for &(position, token) in &placed {
                seq.reveal_in_place(position, token);
            }
            let reveal = (!placed.is_empty()).then(|| placed.remove(0));
            out.push(Child {
                seq: Arc::new(seq),
                rank,
                reveal,
                also: placed,
                log_mass: -(self.candidates as f64).ln(),
                completion: Some(completion),
                ..Child::carried(parent, node, aim.to)
            });
        }
        Ok(())
    }
}
