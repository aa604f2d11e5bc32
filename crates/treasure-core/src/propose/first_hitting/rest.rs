//! The rest of a prediction beside its likeliest tokens: one token drawn from it stands for all of it.
//!
//! Guarantee: with K draws of which the first outside the likeliest is taken, its share is the mass of the
//! rest over the chance that there is one, so that any sum over the children is unbiased for the sum over
//! all tokens.

use super::{Branch, FirstHitting, Reveal};
use crate::{Answer, Context, Encoded, Flow, TokenId, Want, legal::LEAST};

/// A token that stands for all but the likeliest, with its own log-probability.
#[derive(Clone, Copy)]
pub(super) struct Rest {
    pub position: usize,
    pub token: TokenId,
    pub log_p: f64,
    pub log_mass: f64,
}

impl FirstHitting {
    /// The child of the rest, for each branch that has one.
    pub(super) fn rests(
        &self,
        cx: &Context<'_, '_>,
        branches: &[Branch],
        answers: &[Answer],
        encoded: &[Encoded],
    ) -> Flow<Vec<Option<Rest>>> {
        let mut rests: Vec<Option<Rest>> = vec![None; branches.len()];
        let Reveal::Enumerate { tries, .. } = self.reveal else { return Ok(rests) };
        for ((rest, branch), answer) in rests.iter_mut().zip(branches).zip(answers) {
            let [top] = answer.top.as_slice() else { continue };
            let likeliest = |token: &TokenId| top.iter().any(|best| best.token == *token);
            let drawn = answer.draws.iter().position(|token| !likeliest(token));
            let mass = 1.0 - top.iter().map(|best| best.logprob.exp()).sum::<f64>();
            if let (Some(drawn), true) = (drawn, mass > 0.0) {
                let token = answer.draws[drawn];
                // P(some draw falls outside) = 1 − (1 − mass)^tries; given that, it is one of the rest.
                let found = -(tries as f64 * (-mass).ln_1p()).exp_m1();
                // It was drawn within the constraint, if there is one, and stands for the model's law.
                let lacks = answer.draw_mass.get(drawn).copied().unwrap_or(0.0);
                let log_mass = (mass / found).ln() + lacks;
                let position = branch.top[0].position;
                *rest = Some(Rest { position, token, log_p: 0.0, log_mass });
            }
        }
        let asked: Vec<_> =
            rests.iter().map(|rest| rest.map(|rest| [(rest.position, rest.token)])).collect();
        let wants: Vec<_> = (branches.iter().zip(&asked))
            .filter_map(|(branch, asked)| {
                let logprobs = asked.as_ref()?;
                Some((&encoded[branch.parent], Want { logprobs, ..Want::default() }))
            })
            .collect();
        let told = cx.problem.read(&wants)?;
        for (rest, answer) in rests.iter_mut().flatten().zip(told) {
            rest.log_p = (rest.log_p + answer.logprobs.first().copied().unwrap_or(0.0)).max(LEAST);
        }
        Ok(rests)
    }
}
