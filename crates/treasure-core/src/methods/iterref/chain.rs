//! The chain of iterative refinement: an event places a token, a round moves among states with equally
//! many masks.

use std::sync::Arc;

use super::{
    super::walk::{Told, looked_at, node_at, some_of, tell_change, walk},
    IterRef, Move,
};
use crate::{
    Context, Error, Event, Flow, MaskedSeq, Particle, PruneReason, StepEvent,
    population::{Node, tell_start},
    propose::purpose,
    resample::{LogWeights, draw_one},
    run::{Concluded, Stepper},
};

/// A chain on its way.
pub(super) struct Refined {
    pub(super) options: IterRef,
    pub(super) moves: Vec<Move>,
    pub(super) done: usize,
    /// The current state, alone.
    pub(super) at: Vec<Node>,
    /// What it is worth, once that was asked for.
    pub(super) value: Option<f64>,
    pub(super) best: Option<Particle>,
}

impl Refined {
    /// What states with equally many masks are worth; the best complete one is remembered.
    fn values(&mut self, cx: &Context<'_, '_>, nodes: &mut [Node]) -> Flow<Vec<f64>> {
        let values = looked_at(cx, nodes)?;
        for (node, &reward) in nodes.iter().zip(&values) {
            let better = self.best.as_ref().is_none_or(|best| reward > best.reward);
            if let Some(tokens) = node.seq.complete().filter(|_| better) {
                self.best = Some(Particle::scored(tokens.to_vec(), reward));
            }
        }
        Ok(values)
    }

    /// One more token, as the model would place it.
    fn event(&mut self, cx: &mut Context<'_, '_>) -> Flow<()> {
        let before = self.at[0].clone();
        let mut at = self.at.clone();
        walk(cx, &mut at, before.seq.n_masked() - 1)?;
        self.value = None;
        if at[0].seq.n_masked() == 0 {
            self.value = self.values(cx, &mut at)?.first().copied();
        }
        let told = Told { step: self.done, rank: 0, value: self.value, reason: None };
        tell_change(cx, &before, &mut at[0], told)?;
        self.at = at;
        Ok(())
    }

    /// Masks some tokens again, denoises them several times, and moves to one try or stays.
    fn round(&mut self, cx: &mut Context<'_, '_>) -> Flow<()> {
        let mut now = self.at.clone();
        let own = match self.value {
            Some(value) => Some(value),
            None => self.values(cx, &mut now)?.first().copied(),
        };
        self.at.clone_from(&now);
        self.value = own;
        let Some(own) = own else { return Ok(()) };
        let current = &now[0];
        let start = cx.problem.start();
        let generated: Vec<usize> =
            start.masked().filter(|&at| current.seq.get(at).is_some()).collect();
        let again = self.options.masked_again(generated.len());
        let masked = some_of(generated, again, cx.key.fold(purpose::REMASK));
        let noised: Arc<MaskedSeq> = Arc::new(current.seq.remask(masked));
        // The time at which so many masks are expected.
        let share = 1.0 - noised.n_masked() as f64 / start.n_masked() as f64;
        let t = cx.problem.schedule().alpha_inv(share).max(current.t);
        let mut tries: Vec<Node> =
            (0..self.options.tries).map(|slot| node_at(noised.clone(), t, slot)).collect();
        walk(cx, &mut tries, current.seq.n_masked())?;
        let values = self.values(cx, &mut tries)?;
        let lambda = self.options.lambda;
        let logs: Vec<f64> = values.iter().map(|value| lambda * value).collect();
        let weights = LogWeights::new("tries", &logs)?;
        let chosen = draw_one(&weights, cx.key.fold(purpose::CHOICE));
        // min(1, Σ w(tries) / (Σ w(tries) − w(chosen) + w(current))): all tries against the set they
        // would be seen from, which has the current state in the place of the chosen one.
        let mut from_there = logs.clone();
        from_there[chosen] = lambda * own;
        let back = LogWeights::new("tries", &from_there)?;
        let u = cx.key.fold(purpose::ACCEPT).uniform();
        let accepted = u.ln() < weights.log_sum() - back.log_sum();
        for (rank, (node, &value)) in tries.iter_mut().zip(&values).enumerate() {
            let kept = accepted && rank == chosen;
            let reason = (!kept).then_some(PruneReason::Beaten);
            node.slot = 0;
            tell_change(
                cx,
                current,
                node,
                Told { step: self.done, rank, value: Some(value), reason },
            )?;
        }
        if accepted {
            self.value = Some(values[chosen]);
            self.at = vec![tries.swap_remove(chosen)];
        }
        Ok(())
    }
}

impl Stepper for Refined {
    fn steps(&self) -> usize {
        self.moves.len()
    }

    fn step(&mut self, cx: &mut Context<'_, '_>) -> Flow<bool> {
        cx.problem.check_deadline()?;
        if self.done == 0 {
            tell_start(cx, &self.at)?;
        }
        let children = match self.moves[self.done] {
            Move::Event => {
                self.event(cx)?;
                1
            }
            Move::Round => {
                let sample = cx.key;
                cx.key = sample.fold(purpose::ITERATION).fold(self.done as u64);
                let moved = self.round(cx);
                cx.key = sample;
                moved?;
                self.options.tries
            }
        };
        self.done += 1;
        if cx.wants_steps() {
            cx.tell(&Event::Step(StepEvent {
                step: self.done - 1,
                steps: self.moves.len(),
                masks_left: self.at[0].seq.n_masked(),
                population: 1,
                children,
                distinct: children,
                best_value: self.value,
                best_reward: cx.problem.best_reward(),
                ess: None,
                resampled: false,
                cost: cx.problem.cost(),
            }))?;
        }
        Ok(self.done == self.moves.len())
    }

    fn nodes(&self) -> &[Node] {
        &self.at
    }

    fn conclude(&mut self, _: &mut Context<'_, '_>) -> Flow<Concluded> {
        let last = self.at[0].seq.complete().zip(self.value);
        let (Some(best), Some((tokens, reward))) = (self.best.clone(), last) else {
            let (expected, got) = ("a complete text".into(), "masks".into());
            return Err(Error::Invalid { what: "iterref", expected, got }.into());
        };
        // A drawn answer is where the chain is; the search's own is the best it has seen complete.
        let now = Particle::scored(tokens.to_vec(), reward);
        Ok(Concluded {
            tokens: best.tokens,
            reward: Some(best.reward),
            log_p: None,
            stopped: None,
            finals: vec![now],
        })
    }
}
