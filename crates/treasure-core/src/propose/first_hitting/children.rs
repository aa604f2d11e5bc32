//! The children of a parent: what each reveals, commits beside it and stands for.

use std::sync::Arc;

use super::{Branch, FirstHitting, MOST_ROOMS, ROOM, Reveal, rest::Rest, sure};
use crate::{
    Answer, Context, Flow, MaskedSeq,
    legal::LEAST,
    population::{Child, Node},
};

impl FirstHitting {
    /// Tokens that a child commits beside its own.
    fn others(&self, cx: &Context<'_, '_>) -> usize {
        match self.pace.steps {
            Some(_) => {
                let stage = self.pace.stage(cx.problem.start(), cx.step.index);
                stage.tokens.saturating_sub(1)
            }
            None => 0,
        }
    }

    /// The time at which a child's own prediction will be asked for.
    fn prediction_time(&self, cx: &Context<'_, '_>, seq: &MaskedSeq, t: f64, slot: usize) -> f64 {
        let masks = seq.n_masked();
        let key = self.draws.key(cx.key, self.level(cx.step.index + 1, masks), slot, seq);
        Self::next_time(cx, key, masks.max(1), t)
    }

    /// The open masks of a parent with their likeliest tokens, the surest first, where a step commits
    /// several.
    fn surest(&self, cx: &Context<'_, '_>, node: &Node, answer: &Answer) -> Vec<(usize, u32, f64)> {
        if self.others(cx) == 0 {
            return Vec::new();
        }
        let open = self.open(cx, &node.seq);
        let mut order: Vec<usize> = (0..open.len()).collect();
        let rank = |index: usize| sure(cx, answer, index, index == 0);
        order.sort_by(|&a, &b| rank(b).total_cmp(&rank(a)).then(a.cmp(&b)));
        let mask = |index: usize| (open[index], answer.argmax[index], answer.confidence[index]);
        order.into_iter().map(mask).collect()
    }

    /// The least log-probability, relative to the likeliest token's, that is tried: log of `min_p`, times
    /// how many [`ROOM`]s the parent's completion is away from the highest reward, but at least once and
    /// at most [`MOST_ROOMS`] times.
    /// A parent that was not scored tries everything; without a highest reward `min_p` holds as it is.
    fn least(&self, cx: &Context<'_, '_>, node: &Node) -> Option<f64> {
        let Reveal::Top { min_p, .. } = self.reveal else { return None };
        let least = (min_p > 0.0).then(|| min_p.ln())?;
        Some(match cx.problem.reward_bound() {
            None => least,
            Some(highest) => least * ((highest - node.worth?.reward) / ROOM).clamp(1.0, MOST_ROOMS),
        })
    }

    /// The children of one parent.
    pub(super) fn children(
        &self,
        cx: &Context<'_, '_>,
        node: &Node,
        branch: &Branch,
        answer: &Answer,
        rest: Option<Rest>,
        out: &mut Vec<Child>,
    ) -> Flow<()> {
        let sure: Vec<(usize, u32, f64)> = match self.commit_threshold {
            Some(threshold) => (node.seq.masked().zip(&answer.argmax).zip(&answer.confidence))
                .filter(|(_, confidence)| confidence.exp() >= threshold)
                .map(|((position, &token), &confidence)| (position, token, confidence))
                .collect(),
            None => Vec::new(),
        };
        let surest = self.surest(cx, node, answer);
        let mut push = |position, token, rank, log_p: f64, log_mass: f64| -> Flow<()> {
            let mut seq = node.seq.reveal(position, token);
            let mut log_p = node.log_p + log_p;
            let mut also = Vec::new();
            // Where a constraint pads behind an end of text, there is nothing to ask the model about.
            for at in cx.problem.padding(position, token) {
                if seq.get(at).is_none() {
                    seq.reveal_in_place(at, token);
                    also.push((at, token));
                }
            }
            // Under a constraint only what agrees with the child's own legal completion is sure.
            let whole = match &answer.prediction {
                Some(prediction) if !sure.is_empty() || !surest.is_empty() => {
                    Some(prediction.complete(&[(position, token)])?)
                }
                _ => None,
            };
            let agrees = |at: usize, token| whole.as_ref().is_none_or(|whole| whole[at] == token);
            let fills = surest.iter().filter(|&&(at, _, _)| seq.get(at).is_none());
            // What a constraint's completion says instead of the likeliest token counts as much.
            let fills = fills.map(|&(at, token, confidence)| match &whole {
                Some(whole) => (at, whole[at], confidence),
                None => (at, token, confidence),
            });
            let fills: Vec<_> = fills.take(self.others(cx)).collect();
            let others = sure.iter().filter(|&&(at, token, _)| agrees(at, token));
            for &(at, token, confidence) in others.chain(&fills) {
                if seq.get(at).is_some() {
                    continue;
                }
                seq.reveal_in_place(at, token);
                log_p += confidence;
                also.push((at, token));
            }
            let next_t = (cx.step.needs.next_time)
                .then(|| self.prediction_time(cx, &seq, branch.t, node.slot));
            out.push(Child {
                seq: Arc::new(seq),
                next_t,
                rank,
                reveal: Some((position, token)),
                also,
                log_mass,
                log_p,
                ..Child::carried(branch.parent, node, branch.t)
            });
            Ok(())
        };
        let least = self.least(cx, node);
        let groups = (branch.top.len() as f64).ln();
        // A child stands for the model's own law, of which a constraint leaves a part.
        let lack = |masses: &[f64], index: usize| masses.get(index).copied().unwrap_or(0.0);
        for (index, (at, top)) in branch.top.iter().zip(&answer.top).enumerate() {
            let lacks = answer.top_mass.get(index).map_or(&[][..], Vec::as_slice);
            let likeliest = top.first().map_or(0.0, |best| best.logprob);
            let tried = |logprob: f64| least.is_none_or(|least| logprob - likeliest >= least);
            for (rank, candidate) in top.iter().enumerate() {
                let logprob = candidate.logprob;
                if rank == 0 || tried(logprob) {
                    let lack = lack(lacks, rank);
                    let log_mass = logprob - (groups - lack);
                    let log_p = logprob.max(LEAST);
                    push(at.position, candidate.token, rank, log_p, log_mass)?; // Alg. 1, line 5
                }
            }
        }
        if let Some(Rest { position, token, log_p, log_mass }) = rest {
            push(position, token, answer.top[0].len(), log_p, log_mass)?;
        }
        if let Reveal::Sample { .. } = self.reveal {
            let share = -(branch.draws.len() as f64).ln();
            for (rank, (draw, &token)) in branch.draws.iter().zip(&answer.draws).enumerate() {
                let log_mass = share + lack(&answer.draw_mass, rank);
                push(draw.position, token, rank, 0.0, log_mass)?;
            }
        }
        Ok(())
    }
}
