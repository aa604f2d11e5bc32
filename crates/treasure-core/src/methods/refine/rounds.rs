//! The rounds of a refinement: pick positions, mask them again, search from there, accept or not.

use std::sync::Arc;

use super::{
    super::{
        Method,
        walk::{Told, node_at, some_of, tell_change},
    },
    Accept, Pick, Refine,
};
use crate::{
    AnswerKind, Context, Error, Event, Finished, Flow, Halt, Key, MaskedSeq, Particle, Problem,
    PruneReason, Silent, StepEvent, TokenId, Want,
    population::{Node, tell_start},
    propose::purpose,
    run::{Concluded, Stepper},
};

/// A refinement on its way.
pub(super) struct Rounds {
    options: Refine,
    method: Method,
    done: usize,
    /// The node that was told last of those that went on.
    last: Node,
    /// What there is to hand back.
    at: Vec<Node>,
    /// The text that goes on.
    current: Option<Finished>,
    /// The best text that went on, or was offered to.
    best: Option<Finished>,
}

/// A text that was scored.
fn finished(tokens: Vec<TokenId>, reward: f64) -> Finished {
    Finished { tokens, reward, value: reward, log_p: None }
}

impl Rounds {
    /// A refinement of what a problem was given.
    pub(super) fn new(options: Refine, method: Method, problem: &Problem<'_>) -> Self {
        let start = Node::start(0, 0, problem.start().clone());
        let at = vec![start.clone()];
        Self { options, method, done: 0, last: start, at, current: None, best: None }
    }

    /// Searches from a state with the inner method; nothing if it ends without a score.
    fn search(
        &self,
        cx: &mut Context<'_, '_>,
        from: MaskedSeq,
        key: Key,
    ) -> Flow<Option<Finished>> {
        let inside = cx.problem.continue_from(from).with_answer(AnswerKind::Final);
        let found = match self.method.search().run(&inside, key, &mut Silent) {
            Ok(found) => found,
            Err(Error::Stopped { reason, .. }) => return Err(Halt::Stop(reason)),
            Err(error) => return Err(error.into()),
        };
        for note in &found.notes {
            cx.note(&note.what, || note.message.clone())?;
        }
        if let Some(reason) = found.stopped {
            return Err(Halt::Stop(reason));
        }
        let Some(reward) = found.reward else { return Ok(None) };
        // A search may have scored a better text on its way than it ends with.
        let greedy = self.options.accept == Accept::Greedy;
        let better = found.best_seen.filter(|seen| greedy && seen.reward > reward);
        let (tokens, reward) =
            better.map_or((found.tokens, reward), |seen| (seen.tokens, seen.reward));
        Ok(Some(finished(tokens, reward)))
    }

    /// The text to begin with: what was given, or what the inner method writes.
    fn first(&self, cx: &mut Context<'_, '_>) -> Flow<Option<Finished>> {
        match cx.problem.given() {
            Some(tokens) => {
                let tokens = tokens.to_vec();
                let scored = cx.problem.score(std::slice::from_ref(&tokens));
                // A target that the text itself meets stops the search with its score.
                cx.reward_before = match &scored {
                    Ok(rewards) => rewards.first().copied(),
                    Err(_) => cx.problem.best_reward(),
                };
                Ok(scored?.first().map(|&reward| finished(tokens, reward)))
            }
            None => {
                let start = (**cx.problem.start()).clone();
                self.search(cx, start, cx.key)
            }
        }
    }

    /// The positions of a round.
    fn picked(&self, cx: &Context<'_, '_>, current: &Finished, key: Key) -> Flow<Vec<usize>> {
        let free: Vec<usize> = cx.problem.start().masked().collect();
        let again = self.options.masked_again(self.done - 1, free.len());
        if self.options.pick == Pick::Uniform {
            return Ok(some_of(free, again, key.fold(purpose::REMASK)));
        }
        // Leave one out: what the likeliest token there would gain.
        let whole = MaskedSeq::from_slots(current.tokens.iter().copied().map(Some));
        let t = cx.problem.schedule().alpha_inv(1.0 - 1.0 / free.len() as f64);
        let states: Vec<_> = free.iter().map(|&at| (Arc::new(whole.remask([at])), t)).collect();
        let encoded = cx.problem.encode(&states)?;
        let want = Want { argmax: true, ..Want::default() };
        let wants: Vec<_> = encoded.iter().map(|encoded| (encoded, want)).collect();
        let answers = cx.problem.read(&wants)?;
        let texts: Vec<_> = (states.iter().zip(answers))
            .map(|((state, _), answer)| state.complete_with(answer.argmax))
            .collect();
        let rewards = cx.problem.score(&texts)?;
        let tie = |at: usize| key.fold(purpose::POSITION).fold(at as u64).bits();
        let mut order: Vec<(usize, f64)> = free.into_iter().zip(rewards).collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| tie(a.0).cmp(&tie(b.0))));
        let mut worst: Vec<usize> = order.into_iter().take(again).map(|(at, _)| at).collect();
        worst.sort_unstable();
        Ok(worst)
    }

    /// Goes on with a text, or tells why not.
    fn offered(&mut self, cx: &mut Context<'_, '_>, new: Finished, key: Key) -> Flow<()> {
        let accepted = match (&self.current, self.options.accept) {
            (None, _) => true,
            (Some(current), Accept::Greedy) => new.reward > current.reward,
            (Some(current), Accept::Metropolis) => {
                let u = key.fold(purpose::ACCEPT).uniform();
                u.ln() < self.options.lambda * (new.reward - current.reward)
            }
        };
        let seq = MaskedSeq::from_slots(new.tokens.iter().copied().map(Some));
        let mut node = node_at(Arc::new(seq), 0.0, 0);
        let reason = (!accepted).then_some(PruneReason::Beaten);
        let told = Told { step: self.done, rank: 0, value: Some(new.reward), reason };
        if self.best.as_ref().is_none_or(|best| new.reward > best.reward) {
            self.best = Some(new.clone());
        }
        if accepted {
            self.at = vec![node.clone()];
            self.current = Some(new);
        }
        tell_change(cx, &self.last, &mut node, told)?;
        if accepted {
            self.last = node;
        }
        Ok(())
    }

    fn advance(&mut self, cx: &mut Context<'_, '_>) -> Flow<()> {
        let key = cx.key.fold(purpose::ITERATION).fold(self.done as u64);
        let new = match self.current.clone() {
            None => self.first(cx)?,
            Some(current) => {
                let masked = self.picked(cx, &current, key)?;
                let whole = MaskedSeq::from_slots(current.tokens.iter().copied().map(Some));
                self.search(cx, whole.remask(masked), key)?
            }
        };
        new.map_or(Ok(()), |new| self.offered(cx, new, key))
    }
}

impl Stepper for Rounds {
    fn steps(&self) -> usize {
        self.options.rounds.saturating_add(1)
    }

    fn step(&mut self, cx: &mut Context<'_, '_>) -> Flow<bool> {
        cx.problem.check_deadline()?;
        if self.done == 0 {
            tell_start(cx, &self.at)?;
            if let Some(tokens) = cx.problem.given() {
                // Whatever stops the search, there is something to hand back.
                let seq = MaskedSeq::from_slots(tokens.iter().copied().map(Some));
                self.at[0].seq = Arc::new(seq);
            }
        }
        self.advance(cx)?;
        self.done += 1;
        if cx.wants_steps() {
            let best = self.best.as_ref().map(|best| best.reward);
            cx.tell(&Event::Step(StepEvent {
                step: self.done - 1,
                steps: self.steps(),
                masks_left: 0,
                population: 1,
                children: 1,
                distinct: 1,
                best_value: best,
                best_reward: best,
                ess: None,
                resampled: false,
                cost: cx.problem.cost(),
            }))?;
        }
        Ok(self.done > self.options.rounds)
    }

    fn nodes(&self) -> &[Node] {
        &self.at
    }

    fn holds(&self) -> Option<&Finished> {
        self.best.as_ref()
    }

    fn conclude(&mut self, _: &mut Context<'_, '_>) -> Flow<Concluded> {
        let (Some(current), Some(best)) = (self.current.clone(), self.best.clone()) else {
            let (expected, got) = ("a text".into(), "none".into());
            return Err(Error::Invalid { what: "refine", expected, got }.into());
        };
        let now = Particle::scored(current.tokens, current.reward);
        Ok(Concluded {
            tokens: best.tokens,
            reward: Some(best.reward),
            log_p: None,
            stopped: None,
            finals: vec![now],
        })
    }
}
