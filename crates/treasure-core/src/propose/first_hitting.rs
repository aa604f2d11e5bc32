//! First-hitting proposals: jump to the next unmasking event and branch there (Alg. 1, UnmaskBranch).
//!
//! One forward pass per parent gives all its children. With a sampled token this is the first-hitting
//! sampler of Zheng et al. (2024), exact for an exact denoiser.

use std::sync::Arc;

use super::{DrawBy, Propose, carried, encode_parents, purpose};
use crate::{
    At, Draw, Flow, Key, Want, Width,
    population::{Child, Expanded, Node, Proposals, Run, Step},
};

/// What is placed at the position that is revealed.
#[derive(Clone, Debug)]
pub enum Reveal {
    /// The likeliest b tokens, at each of `groups` positions drawn without replacement.
    Top {
        /// b(·), capped by the allowed tokens.
        beam: Width,
        /// Positions per parent, capped by its masks.
        groups: usize,
    },
    /// A token drawn from the prediction, once per candidate, each at its own position.
    Sample {
        /// Children per parent.
        candidates: usize,
    },
}

/// First-hitting proposals.
#[derive(Clone, Debug)]
pub struct FirstHitting {
    /// What is placed.
    pub reveal: Reveal,
    /// What draws depend on.
    pub draws: DrawBy,
    /// Also commit, in every child, the masks whose likeliest token has at least this probability.
    pub commit_threshold: Option<f64>,
}

/// What will be asked about one parent.
struct Branch {
    parent: usize,
    t: f64,
    top: Vec<At>,
    draws: Vec<Draw>,
}

impl FirstHitting {
    fn level(&self, step: usize, masks: usize) -> usize {
        match self.draws {
            DrawBy::State => masks,
            DrawBy::Slot => step,
        }
    }

    fn next_time(run: &Run<'_, '_>, key: Key, masks: usize, t: f64) -> f64 {
        run.problem.schedule().next_event(masks, t, key.fold(purpose::TIME).uniform())
    }

    /// Which positions are revealed, and what is asked there.
    fn branch(
        &self,
        step: &Step,
        run: &mut Run<'_, '_>,
        parent: usize,
        node: &Node,
    ) -> Flow<Branch> {
        let masks = node.seq.n_masked();
        let key = self.draws.key(run.key, self.level(step.index, masks), node.slot, &node.seq);
        // Alg. 1, lines 1–2. One τ per parent, whatever the groups or candidates.
        let t = Self::next_time(run, key, masks, node.t);
        let mut free: Vec<usize> = node.seq.masked().collect();
        let mut branch = Branch { parent, t, top: Vec::new(), draws: Vec::new() };
        match &self.reveal {
            Reveal::Top { beam, groups } => {
                let beam = beam.at(step.index, step.steps);
                // Alg. 1, line 4: ℓ uniform over the masks; further groups without replacement.
                for group in 0..(*groups).min(masks) {
                    let pick = key.fold(purpose::POSITION).fold(group as u64).below(free.len());
                    let position = free.swap_remove(pick);
                    let allowed = run.problem.allowed_at(position);
                    if beam > allowed {
                        run.note("beam width", || {
                            format!(
                                "capped at {allowed} by the allowed tokens at position {position}, \
                                 {beam} asked for"
                            )
                        })?;
                    }
                    branch.top.push(At { position, k: beam.min(allowed) });
                }
            }
            Reveal::Sample { candidates } => {
                for candidate in 0..*candidates as u64 {
                    let pick = key.fold(purpose::POSITION).fold(candidate).below(masks);
                    let u = key.fold(purpose::TOKEN).fold(candidate).uniform();
                    branch.draws.push(Draw { position: free[pick], u });
                }
            }
        }
        Ok(branch)
    }
}

impl Propose for FirstHitting {
    fn steps(&self, masks: usize) -> usize {
        masks
    }

    fn propose(
        &self,
        step: &Step,
        run: &mut Run<'_, '_>,
        parents: &[Node],
        argmax: bool,
    ) -> Flow<Proposals> {
        let mut branches = Vec::with_capacity(parents.len());
        let mut times: Vec<f64> = parents.iter().map(|node| node.t).collect();
        for (parent, node) in parents.iter().enumerate() {
            if node.seq.n_masked() > 0 {
                let branch = self.branch(step, run, parent, node)?;
                times[parent] = branch.t;
                branches.push(branch);
            }
        }
        let encoded = encode_open(run, parents, &times)?;
        let confidence = self.commit_threshold.is_some();
        let wants: Vec<_> = branches
            .iter()
            .map(|branch| {
                let want = Want {
                    argmax: argmax || confidence,
                    confidence,
                    top: &branch.top,
                    draws: &branch.draws,
                    logprobs: &[],
                };
                (&encoded[branch.parent], want)
            })
            .collect();
        let answers = run.problem.read(&wants)?;
        let mut proposals = Proposals {
            children: Vec::new(),
            parents: encoded
                .iter()
                .map(|encoded| Expanded { encoded: encoded.clone(), argmax: Vec::new() })
                .collect(),
        };
        let mut answered = branches.iter().zip(answers).peekable();
        for (parent, node) in parents.iter().enumerate() {
            let Some((branch, answer)) = answered.next_if(|(branch, _)| branch.parent == parent)
            else {
                proposals.children.push(carried(parent, node, node.t));
                continue;
            };
            let sure: Vec<_> = match self.commit_threshold {
                Some(threshold) => (node.seq.masked().zip(&answer.argmax).zip(&answer.confidence))
                    .filter(|(_, confidence)| confidence.exp() >= threshold)
                    .map(|((position, &token), _)| (position, token))
                    .collect(),
                None => Vec::new(),
            };
            let mut push = |position, token, rank| {
                let mut seq = node.seq.reveal(position, token);
                let also: Vec<_> = sure.iter().copied().filter(|&(at, _)| at != position).collect();
                for &(position, token) in &also {
                    seq.reveal_in_place(position, token);
                }
                proposals.children.push(Child {
                    parent,
                    seq: Arc::new(seq),
                    t: branch.t,
                    rank,
                    reveal: Some((position, token)),
                    also,
                    encoded: None,
                });
            };
            for (at, top) in branch.top.iter().zip(&answer.top) {
                for (rank, candidate) in top.iter().enumerate() {
                    push(at.position, candidate.token, rank); // Alg. 1, line 5
                }
            }
            for (rank, (draw, &token)) in branch.draws.iter().zip(&answer.draws).enumerate() {
                push(draw.position, token, rank);
            }
            proposals.parents[parent].argmax = answer.argmax;
        }
        Ok(proposals)
    }

    fn is_last(&self, _: &Step, proposals: &Proposals) -> bool {
        proposals.children.iter().all(|child| child.seq.n_masked() == 0)
    }

    fn prediction_time(&self, step: &Step, run: &Run<'_, '_>, child: &Child, slot: usize) -> f64 {
        let masks = child.seq.n_masked();
        let key = self.draws.key(run.key, self.level(step.index + 1, masks), slot, &child.seq);
        Self::next_time(run, key, masks.max(1), child.t)
    }
}

/// Forward passes for the parents that still have masks; the others ask for nothing.
fn encode_open(run: &Run<'_, '_>, parents: &[Node], times: &[f64]) -> Flow<Vec<crate::Encoded>> {
    if parents.iter().all(|node| node.seq.n_masked() > 0) {
        return encode_parents(run, parents, times);
    }
    let open: Vec<usize> = (0..parents.len()).filter(|&i| parents[i].seq.n_masked() > 0).collect();
    let nodes: Vec<Node> = open.iter().map(|&i| parents[i].clone()).collect();
    let open_times: Vec<f64> = open.iter().map(|&i| times[i]).collect();
    let mut encoded = encode_parents(run, &nodes, &open_times)?.into_iter();
    Ok(parents
        .iter()
        .zip(times)
        .filter_map(|(node, &t)| match node.seq.n_masked() {
            0 => Some(crate::Encoded::complete(node.seq.clone(), t)),
            _ => encoded.next(),
        })
        .collect())
}
