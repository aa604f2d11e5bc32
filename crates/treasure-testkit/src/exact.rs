//! Oracles by enumeration: what a search, a value or an estimate must equal.

use treasure_core::{Key, MaskedSeq, Schedule, TokenId, resample::LogWeights};

use crate::JointTable;

/// Every sequence of `len` tokens below `vocab`, in lexicographic order.
pub fn sequences(vocab: usize, len: usize) -> impl Iterator<Item = Vec<TokenId>> {
    (0..vocab.pow(len as u32)).map(move |index| sequence(vocab, len, index))
}

/// The sequence at a place of the lexicographic order.
pub fn sequence(vocab: usize, len: usize, mut index: usize) -> Vec<TokenId> {
    let mut tokens = vec![0; len];
    for token in tokens.iter_mut().rev() {
        *token = (index % vocab) as TokenId;
        index /= vocab;
    }
    tokens
}

/// The place of a sequence in the lexicographic order.
pub fn index(vocab: usize, tokens: &[TokenId]) -> usize {
    tokens.iter().fold(0, |index, &token| index * vocab + token as usize)
}

/// The expected reward over completions of a state in which every mask is drawn on its own from given rows
/// (one distribution per masked position): the product distribution of Theorem 2.
pub fn product_expectation(
    seq: &MaskedSeq,
    rows: &[Vec<f64>],
    reward: impl Fn(&[TokenId]) -> f64,
) -> f64 {
    sequences(rows.first().map_or(1, Vec::len), rows.len())
        .map(|fill| {
            let p: f64 = fill.iter().zip(rows).map(|(&token, row)| row[token as usize]).product();
            if p == 0.0 { 0.0 } else { p * reward(&seq.complete_with(fill)) }
        })
        .sum()
}

/// The smallest β for which a reward table is Hamming–Lipschitz: its largest change between
/// neighbours (sequences that differ in one token), since paths of neighbours realise the distance.
pub fn lipschitz_constant(vocab: usize, len: usize, values: &[f64]) -> f64 {
    let mut beta = 0.0f64;
    for x in sequences(vocab, len) {
        for position in 0..len {
            for token in 0..vocab as TokenId {
                let mut y = x.clone();
                y[position] = token;
                beta = beta.max((values[index(vocab, &x)] - values[index(vocab, &y)]).abs());
            }
        }
    }
    beta
}

/// The tilted distribution p·exp(λ r)/Z over given outcomes. λ multiplies the reward; the paper's is its inverse.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// p·exp(λ r)/Z, one per outcome. Eq. (5).
    pub probs: Vec<f64>,
    /// log Z = log Σ p·exp(λ r).
    pub log_normalizer: f64,
}

/// The target of Eq. (5) over outcomes with given log-probabilities and rewards.
pub fn target(lambda: f64, logprobs: &[f64], rewards: &[f64]) -> Target {
    assert_eq!(logprobs.len(), rewards.len(), "one reward per outcome");
    let tilted: Vec<f64> =
        logprobs.iter().zip(rewards).map(|(logprob, reward)| logprob + lambda * reward).collect();
    let weights = LogWeights::new("target p·exp(λ r)", &tilted).expect("some mass");
    Target { probs: weights.normalised().to_vec(), log_normalizer: weights.log_sum() }
}

/// The soft value (1/λ) log E exp(λ r) of Eq. (6), over outcomes with given log-probabilities.
pub fn soft_value(lambda: f64, logprobs: &[f64], rewards: &[f64]) -> f64 {
    let total = LogWeights::new("probabilities", logprobs).expect("some mass").log_sum();
    (target(lambda, logprobs, rewards).log_normalizer - total) / lambda
}

/// The expected maximum of n independent rewards for outcomes with given probabilities.
pub fn expected_max(probs: &[f64], rewards: &[f64], n: u32) -> f64 {
    let mut order: Vec<usize> = (0..probs.len()).collect();
    order.sort_by(|&a, &b| rewards[a].total_cmp(&rewards[b]));
    let (mut below, mut mean) = (0.0f64, 0.0);
    for i in order {
        let upto = below + probs[i];
        mean += rewards[i] * (upto.powi(n as i32) - below.powi(n as i32));
        below = upto;
    }
    mean
}

/// Half the L1 distance of two distributions.
pub fn total_variation(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).map(|(p, q)| (p - q).abs()).sum::<f64>() / 2.0
}

/// The χ² statistic of counts against probabilities, as a z-score: (χ² − df)/√(2 df).
pub fn chi_square_z(counts: &[u64], probs: &[f64]) -> f64 {
    let total: f64 = counts.iter().map(|&count| count as f64).sum();
    let mut statistic = 0.0;
    let mut cells = 0.0;
    for (&count, p) in counts.iter().zip(probs) {
        if *p > 0.0 {
            cells += 1.0;
            statistic += (count as f64 - total * p).powi(2) / (total * p);
        } else {
            assert_eq!(count, 0, "an impossible outcome occurred");
        }
    }
    let df: f64 = cells - 1.0;
    (statistic - df) / (2.0 * df).sqrt()
}

/// The continuous NELBO of Appendix B for α from 1 to 0, by enumeration of all masks:
/// Σ_n (1/n) E over the sets of n masks of the cross entropy.
pub fn nelbo(table: &JointTable, tokens: &[TokenId]) -> f64 {
    let len = tokens.len();
    let mut by_count = vec![(0.0, 0.0); len + 1];
    for mask in 1u32..1 << len {
        let masked = |at: usize| mask >> at & 1 == 1;
        let slots = (0..len).map(|at| (!masked(at)).then_some(tokens[at]));
        let seq = MaskedSeq::from_slots(slots);
        let rows = table.conditionals(&seq);
        let loss: f64 =
            seq.masked().zip(&rows).map(|(at, row)| -row[tokens[at] as usize].ln()).sum();
        let (sum, count) = &mut by_count[mask.count_ones() as usize];
        *sum += loss;
        *count += 1.0;
    }
    (1..=len).map(|n| by_count[n].0 / by_count[n].1 / n as f64).sum()
}

/// The discrete NELBO of Appendix B with T steps on a schedule, by enumeration of all masks, with the
/// reconstruction term for masks left at t = 0. The process begins with masks alone, as the sampler does.
pub fn nelbo_discrete(
    table: &JointTable,
    tokens: &[TokenId],
    schedule: &dyn Schedule,
    steps: usize,
) -> f64 {
    let len = tokens.len();
    let loss: Vec<f64> = (0u32..1 << len)
        .map(|mask| {
            let slots = (0..len).map(|at| (mask >> at & 1 == 0).then_some(tokens[at]));
            let seq = MaskedSeq::from_slots(slots);
            let rows = table.conditionals(&seq);
            seq.masked().zip(&rows).map(|(at, row)| -row[tokens[at] as usize].ln()).sum()
        })
        .collect();
    let expected = |t: f64| -> f64 {
        let prior = schedule.alpha(1.0);
        let alpha = (schedule.alpha(t) - prior) / (1.0 - prior);
        (0u32..1 << len)
            .map(|mask| {
                let n = mask.count_ones() as i32;
                (1.0 - alpha).powi(n) * alpha.powi(len as i32 - n) * loss[mask as usize]
            })
            .sum()
    };
    let diffusion: f64 = (1..=steps)
        .map(|i| {
            let (s, t) = ((i - 1) as f64 / steps as f64, i as f64 / steps as f64);
            let weight = (schedule.alpha(s) - schedule.alpha(t)) / (1.0 - schedule.alpha(t));
            weight * expected(t)
        })
        .sum();
    diffusion + expected(0.0)
}

/// The first change of parallel sampling on a uniform grid in γ = −log(1 − α), simulated step by step.
#[derive(Clone, Copy, Debug)]
pub struct FirstChange {
    /// The time of the grid point at which something was revealed.
    pub t: f64,
    /// Which of the n masks, if exactly one was revealed.
    pub position: Option<usize>,
    /// Grid steps taken, each an evaluation of the naive sampler.
    pub evaluations: u64,
}

/// Simulates the naive sampler of Theorem 1 from time `t` with `n` masks and step size `h`.
pub fn first_change(schedule: &dyn Schedule, n: usize, t: f64, h: f64, key: Key) -> FirstChange {
    let mut now = t;
    for step in 1u64.. {
        let next = schedule.alpha_inv(1.0 - (-(schedule.gamma(now) + h)).exp());
        let chance = schedule.reveal_prob(next, now);
        let revealed: Vec<usize> =
            (0..n).filter(|&at| key.fold(step).fold(at as u64).uniform() < chance).collect();
        now = next;
        if let [first, rest @ ..] = revealed.as_slice() {
            let position = rest.is_empty().then_some(*first);
            return FirstChange { t: now, position, evaluations: step };
        }
    }
    unreachable!("the steps do not end before a change")
}
