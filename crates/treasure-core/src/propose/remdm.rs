//! ReMDM proposals (Wang et al., 2025): ancestral steps that also mask revealed tokens again, so that an
//! early mistake can be repaired.
//!
//! Guarantee: with one σ for all tokens the chance that a token is revealed at time s is α_s, as without
//! remasking. Only what the search generated is masked again, never a prompt. The last step reveals all
//! that is left. Differs from the released code in the loop: its times are those at which the problem's
//! schedule has the loop's α.

use std::sync::Arc;

use super::{DrawBy, Propose, encode_parents, purpose};
use crate::{
    Answer, Context, Draw, Encoded, Flow, Remask, TokenId, Want, Width,
    population::{Child, Expanded, Node, Proposals},
};

/// Ancestral proposals with remasking, drawn by slot and step.
#[derive(Clone, Debug)]
pub struct Remdm {
    /// T.
    pub steps: usize,
    /// Which tokens are masked again.
    pub remask: Remask,
    /// η; by default that of the rule.
    pub eta: Option<f64>,
    /// Children per parent.
    pub candidates: Width,
}

/// The loop: α stays at 0.9 from t = 0.55 to 0.05.
const LOOP: (f64, f64, f64) = (0.55, 0.05, 0.9);

/// One step between two times.
struct Pace {
    /// The time of the prediction and of the children.
    t: f64,
    s: f64,
    alpha_t: f64,
    alpha_s: f64,
    /// The chance that a revealed token is masked again, before it is shared out.
    sigma: f64,
    last: bool,
}

impl Pace {
    /// The chance that a mask is revealed if σ of the revealed tokens are masked again.
    fn reveal(&self, sigma: f64) -> f64 {
        if self.last || self.alpha_t >= 1.0 {
            return 1.0;
        }
        ((self.alpha_s - (1.0 - sigma) * self.alpha_t) / (1.0 - self.alpha_t)).clamp(0.0, 1.0)
    }
}

/// What one candidate does to its parent.
struct Change {
    draws: Vec<Draw>,
    remasked: Vec<usize>,
}

impl Remdm {
    fn pace(&self, cx: &Context<'_, '_>, index: usize) -> Pace {
        let schedule = cx.problem.schedule();
        let time = |index: usize| 1.0 - index as f64 / self.steps as f64;
        let (mut t, mut s) = (time(index), time(index + 1).max(0.0));
        let (mut alpha_t, mut alpha_s) = (schedule.alpha(t), schedule.alpha(s));
        let last = index + 1 == self.steps;
        let eta = self.eta.unwrap_or(match self.remask {
            Remask::Cap => 0.008,
            Remask::Rescale => 0.015,
            Remask::Loop => 0.02,
            Remask::Confidence => 1.0,
        });
        let room = |alpha_t: f64, alpha_s: f64| match alpha_t > 0.0 {
            true => ((1.0 - alpha_s) / alpha_t).min(1.0),
            false => 1.0,
        };
        let sigma = match self.remask {
            Remask::Cap => eta.min(room(alpha_t, alpha_s)),
            Remask::Rescale | Remask::Confidence => eta * room(alpha_t, alpha_s),
            Remask::Loop => {
                let looped = in_the_loop(t);
                (alpha_t, alpha_s) = (loop_alpha(t), loop_alpha(s));
                (t, s) = (schedule.alpha_inv(alpha_t), schedule.alpha_inv(alpha_s));
                if looped { eta.min(room(alpha_t, alpha_s)) } else { 0.0 }
            }
        };
        Pace { t, s, alpha_t, alpha_s, sigma: if last { 0.0 } else { sigma }, last }
    }

    /// σ of every position: the same for all that were generated, or shared out by how unsure each was.
    fn sigmas(&self, cx: &Context<'_, '_>, node: &Node, pace: &Pace) -> Vec<f64> {
        let start = cx.problem.start();
        let generated =
            |at: usize| node.seq.get(at).is_some() && start.get(at).is_none() && pace.sigma > 0.0;
        let all = 0..node.seq.len();
        match (self.remask, &node.placed) {
            (Remask::Confidence, placed) => {
                let sure = |at: usize| placed.as_ref().map_or(1.0, |placed| placed[at]);
                let unsure = |at| if generated(at) { (-sure(at)).exp() } else { 0.0 };
                let total: f64 = all.clone().map(unsure).sum();
                all.map(|at| if total > 0.0 { pace.sigma * unsure(at) / total } else { 0.0 })
                    .collect()
            }
            _ => all.map(|at| if generated(at) { pace.sigma } else { 0.0 }).collect(),
        }
    }

    fn changes(&self, cx: &Context<'_, '_>, node: &Node, pace: &Pace) -> Vec<Change> {
        let step = cx.step;
        let key = DrawBy::Slot.key(cx.key, step.index, node.slot, &node.seq);
        let sigmas = self.sigmas(cx, node, pace);
        // As released: a mask has σ = 0 where σ is shared out among tokens.
        let chance = pace.reveal(if self.remask == Remask::Confidence { 0.0 } else { pace.sigma });
        (0..self.candidates.at(step.index, step.steps) as u64)
            .map(|candidate| {
                let key = key.fold(candidate);
                let hit = |what: u64, at: usize, chance: f64| {
                    chance > 0.0 && key.fold(what).fold(at as u64).uniform() < chance
                };
                let draws = (node.seq.masked())
                    .filter(|&at| hit(purpose::REVEAL, at, chance))
                    .map(|position| {
                        let u = key.fold(purpose::TOKEN).fold(position as u64).uniform();
                        Draw { position, u, text: candidate as u32 }
                    })
                    .collect();
                let remasked =
                    (0..sigmas.len()).filter(|&at| hit(purpose::REMASK, at, sigmas[at])).collect();
                Change { draws, remasked }
            })
            .collect()
    }

    /// How likely the placed tokens were, parent by parent, where the rule remembers it.
    fn likelihoods(
        &self,
        cx: &Context<'_, '_>,
        encoded: &[Encoded],
        placed: &[Vec<(usize, TokenId)>],
    ) -> Flow<Vec<Vec<f64>>> {
        if self.remask != Remask::Confidence {
            return Ok(vec![Vec::new(); placed.len()]);
        }
        let wants: Vec<_> = (encoded.iter().zip(placed))
            .map(|(encoded, logprobs)| (encoded, Want { logprobs, ..Want::default() }))
            .collect();
        let answers = cx.problem.read(&wants)?;
        Ok(answers
            .into_iter()
            .map(|Answer { logprobs, .. }| logprobs.into_iter().map(f64::exp).collect())
            .collect())
    }
}

/// Whether a time lies where the loop masks tokens again.
fn in_the_loop(t: f64) -> bool {
    let (on, off, _) = LOOP;
    t <= on && t > off
}

/// α on the way to the loop, in it, and behind it.
fn loop_alpha(t: f64) -> f64 {
    let (on, off, alpha) = LOOP;
    match t {
        t if t > on => (1.0 - t) * alpha / (1.0 - on),
        t if t > off => alpha,
        _ => 1.0 - t * (1.0 - alpha) / off,
    }
}

impl Propose for Remdm {
    fn steps(&self, _: usize) -> usize {
        self.steps
    }

    fn propose(&self, cx: &mut Context<'_, '_>, parents: &[Node]) -> Flow<Proposals> {
        let pace = self.pace(cx, cx.step.index);
        // The next prediction is made where this step ends, on the next step's clock.
        let next_t =
            (cx.step.needs.next_time && !pace.last).then(|| self.pace(cx, cx.step.index + 1).t);
        let confidence = cx.step.needs.confidence;
        let argmax = cx.step.needs.argmax || confidence;
        let encoded = encode_parents(cx, parents, &vec![pace.t; parents.len()], None)?;
        let changes: Vec<Vec<Change>> =
            parents.iter().map(|node| self.changes(cx, node, &pace)).collect();
        let draws: Vec<Vec<Draw>> = (changes.iter())
            .map(|own| own.iter().flat_map(|change| change.draws.iter().copied()).collect())
            .collect();
        let wants: Vec<_> = (encoded.iter().zip(&draws))
            .map(|(encoded, draws)| {
                (encoded, Want { argmax, confidence, draws, ..Want::default() })
            })
            .collect();
        let answers = cx.problem.read(&wants)?;
        let placed: Vec<Vec<(usize, TokenId)>> = (draws.iter().zip(&answers))
            .map(|(draws, answer)| {
                draws.iter().map(|draw| draw.position).zip(answer.draws.iter().copied()).collect()
            })
            .collect();
        let likely = self.likelihoods(cx, &encoded, &placed)?;
        let mut proposals = Proposals::default();
        for (parent, (node, answer)) in parents.iter().zip(answers).enumerate() {
            let mut from = 0;
            let share = -(changes[parent].len() as f64).ln();
            for (rank, change) in changes[parent].iter().enumerate() {
                let own = from..from + change.draws.len();
                let legal: f64 = answer.draw_mass.get(own.clone()).unwrap_or_default().iter().sum();
                from = own.end;
                let mut also = placed[parent][own.clone()].to_vec();
                let mut seq = node.seq.remask(change.remasked.iter().copied());
                for &(position, token) in &also {
                    seq.reveal_in_place(position, token);
                }
                let remembered = (self.remask == Remask::Confidence).then(|| {
                    let mut sure = match &node.placed {
                        Some(placed) => placed.to_vec(),
                        None => vec![1.0; seq.len()],
                    };
                    for (&(position, _), &p) in also.iter().zip(&likely[parent][own]) {
                        sure[position] = p;
                    }
                    sure.into()
                });
                let same = also.is_empty() && change.remasked.is_empty();
                let reveal = (!also.is_empty()).then(|| also.remove(0));
                proposals.children.push(Child {
                    seq: if same { node.seq.clone() } else { Arc::new(seq) },
                    next_t,
                    rank,
                    reveal,
                    also,
                    remasked: change.remasked.clone(),
                    log_mass: share + legal,
                    placed: remembered,
                    ..Child::carried(parent, node, pace.s)
                });
            }
            proposals.parents.push(Expanded::new(&encoded[parent], answer));
        }
        Ok(proposals)
    }

    fn is_last(&self, cx: &Context<'_, '_>, _: &Proposals) -> bool {
        cx.step.index + 1 == self.steps
    }
}
