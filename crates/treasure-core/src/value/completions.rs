//! Sampled completions, aggregated by log-mean-exp: FK steering's value, and the paper's previous-step
//! scoring. Of the parent's prediction they are blind to the child's token; of the child's own they
//! cost one forward pass, which its expansion reuses. Unbiased for whom they complete, noisy.

use super::{Value, Valued, encode_children, plain};
use crate::{
    Context, Draw, Encoded, Flow, Key, Needs, Problem, TokenId, Want, WeighBy,
    population::{Node, Proposals},
    propose::{DrawBy, purpose},
};

/// log of the mean of exp(λ r), over λ, without overflow.
pub fn log_mean_exp(lambda: f64, rewards: &[f64]) -> f64 {
    let top = rewards.iter().map(|reward| lambda * reward).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = rewards.iter().map(|reward| (lambda * reward - top).exp()).sum();
    (top + (sum / rewards.len() as f64).ln()) / lambda
}

/// Completions that are drawn between two looks at the clock.
const PORTION: usize = 1024;

/// `samples` independent completions of a state from its prediction, each mask on its own. No NFE.
pub fn sample_completions(
    problem: &Problem<'_>,
    encoded: &Encoded,
    key: Key,
    samples: usize,
) -> Flow<Vec<Vec<TokenId>>> {
    let masks: Vec<usize> = encoded.seq().masked().collect();
    if masks.is_empty() {
        return Ok(vec![encoded.seq().complete_with([]); samples]);
    }
    let mut completions = Vec::with_capacity(samples);
    for first in (0..samples).step_by(PORTION) {
        let portion = first as u64..samples.min(first + PORTION) as u64;
        let draws: Vec<Draw> = portion
            .flat_map(|sample| {
                let key = key.fold(purpose::COMPLETION).fold(sample);
                let text = sample as u32;
                let u = move |at: usize| key.fold(at as u64).uniform();
                masks.iter().map(move |&position| Draw { position, u: u(position), text })
            })
            .collect();
        let want = Want { draws: &draws, ..Want::default() };
        let answer = problem.read(&[(encoded, want)])?.pop().unwrap_or_default();
        let fills = answer.draws.chunks(masks.len());
        completions.extend(fills.map(|fill| encoded.seq().complete_with(fill.iter().copied())));
    }
    Ok(completions)
}

/// The soft mean of the rewards of sampled completions, drawn afresh for each child.
#[derive(Clone, Copy, Debug)]
pub struct SampledCompletions {
    /// Completions per child.
    pub samples: usize,
    /// What draws depend on.
    pub draws: DrawBy,
    /// Value complete children by their exact reward; the FK reference does not.
    pub exact_at_the_end: bool,
    /// Whose prediction is completed.
    pub of: WeighBy,
}

impl Value for SampledCompletions {
    fn needs(&self) -> Needs {
        Needs { next_time: self.of == WeighBy::Own, ..Needs::default() }
    }

    fn exact_at_the_end(&self) -> bool {
        self.exact_at_the_end
    }

    fn value(
        &self,
        cx: &mut Context<'_, '_>,
        parents: &[Node],
        proposals: &mut Proposals,
    ) -> Flow<Vec<Valued>> {
        if self.of == WeighBy::Own {
            encode_children(cx, proposals)?;
        }
        let mut completions = Vec::new();
        let mut counts = Vec::with_capacity(proposals.children.len());
        let mut sibling = 0;
        let mut last_parent = None;
        for child in &proposals.children {
            sibling = if last_parent == Some(child.parent) { sibling + 1 } else { 0 };
            last_parent = Some(child.parent);
            let before = completions.len();
            match child.seq.complete() {
                Some(tokens) if self.exact_at_the_end => completions.push(tokens.to_vec()),
                _ => {
                    let node = &parents[child.parent];
                    let level = match self.draws {
                        DrawBy::State => node.seq.n_masked(),
                        DrawBy::Slot => cx.step.index,
                    };
                    let key = self.draws.key(cx.key, level, node.slot, &node.seq).fold(sibling);
                    let parent = &proposals.parents[child.parent].encoded;
                    let of = match (self.of, &child.encoded) {
                        (WeighBy::Own, Some(own)) => own,
                        _ => parent,
                    };
                    completions.extend(sample_completions(cx.problem, of, key, self.samples)?);
                }
            }
            counts.push(completions.len() - before);
        }
        let rewards = cx.problem.score(&completions)?;
        let mut rest = rewards.as_slice();
        let means = counts.into_iter().map(|count| {
            let (own, others) = rest.split_at(count);
            rest = others;
            log_mean_exp(1.0, own)
        });
        Ok(plain(means.collect()))
    }
}
