//! Questions about rows of logits, answered without ever holding the logits.
//!
//! One pass over the vocabulary keeps, per row and panel of 32 tokens, the maximum and the sum of
//! exponentials. Argmax, top-k, draws and single logits then need a panel or two of a row again, which
//! costs a thousandth of the pass and gives bitwise the same logits.

use rayon::prelude::*;

use super::{
    Isa,
    isa::{MulAdd, per_isa},
    linear::{Linear, PANEL},
    math::{exp, fold_lanes, lane_max},
    parallel::{Shared, with_scratch},
    product::{Job, panel_of_row, product},
};
use crate::exec::{RowAnswer, RowQuestion};

/// Rows per pass: bounds the memory for panel maxima and sums.
const ROWS_PER_PASS: usize = 512;

/// Answers questions about rows `hidden[row · width..]`, `width = decoder.inputs()`.
///
/// # Panics
/// If a question names a row or token that does not exist.
pub(crate) fn answer(
    isa: Isa,
    decoder: &Linear,
    hidden: &[f32],
    questions: &[RowQuestion<'_>],
) -> Vec<RowAnswer> {
    questions
        .chunks(ROWS_PER_PASS)
        .flat_map(|part| answer_part(isa, decoder, hidden, part))
        .collect()
}

/// Per row and panel: the largest logit and `Σ exp(logit − largest)`.
struct Panels {
    count: usize,
    largest: Vec<f32>,
    sums: Vec<f32>,
}

fn answer_part(
    isa: Isa,
    decoder: &Linear,
    hidden: &[f32],
    questions: &[RowQuestion<'_>],
) -> Vec<RowAnswer> {
    let width = decoder.inputs();
    let hidden_row = |question: &RowQuestion<'_>| &hidden[question.row * width..][..width];
    let sums_wanted = |q: &RowQuestion<'_>| q.normaliser || !q.draws.is_empty();
    // Questions that only want single logits do not take part in the pass.
    let in_pass = |q: &&RowQuestion<'_>| q.best || q.top > 0 || sums_wanted(q);
    let asked: Vec<&RowQuestion<'_>> = questions.iter().filter(in_pass).collect();
    let count = decoder.outputs().div_ceil(PANEL);
    let mut panels = Panels {
        count,
        largest: vec![f32::NEG_INFINITY; asked.len() * count],
        sums: vec![0.0; if asked.iter().any(|q| sums_wanted(q)) { asked.len() * count } else { 0 }],
    };
    {
        let keep_sums = !panels.sums.is_empty();
        let largest = Shared::new(&mut panels.largest, count);
        let sums = Shared::new(&mut panels.sums, count);
        let job = Job { first: decoder, second: None };
        let load = |row: usize, to: &mut [f32]| to.copy_from_slice(hidden_row(asked[row]));
        product(isa, asked.len(), &[job], load, |spot, tile, _| {
            let bias = decoder.bias().map(|bias| &bias[spot.column..][..spot.width]);
            let panel = spot.column / PANEL;
            for (r, logits) in tile.chunks_exact_mut(PANEL).enumerate() {
                let question = asked[spot.row + r];
                if let Some(bias) = bias {
                    logits.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
                }
                logits[spot.width..].fill(f32::NEG_INFINITY);
                ban(question.banned, spot.column, logits);
                // SAFETY: `product` delivers every (row, panel) once; the two matrices are different ones.
                let (to_largest, to_sum) = unsafe {
                    let sum =
                        if keep_sums { sums.spot(spot.row + r, panel, 1) } else { &mut [][..] };
                    (largest.spot(spot.row + r, panel, 1), sum)
                };
                let (max, sum) = summarise(isa, logits, sums_wanted(question));
                to_largest[0] = max;
                to_sum.iter_mut().for_each(|to| *to = sum);
            }
        });
    }
    let mut slots = asked.len();
    let rows: Vec<Option<usize>> = questions
        .iter()
        .rev()
        .map(|q| {
            in_pass(&q).then(|| {
                slots -= 1;
                slots
            })
        })
        .collect();
    questions
        .par_iter()
        .zip(rows.into_par_iter().rev())
        .with_min_len(8)
        .map(|(question, slot)| {
            let row = hidden_row(question);
            let logits = |panel: usize| {
                let mut logits =
                    with_scratch(|scratch| panel_of_row(isa, decoder, panel, row, scratch));
                let start = panel * PANEL;
                logits[PANEL.min(decoder.outputs() - start)..].fill(f32::NEG_INFINITY);
                ban(question.banned, start, &mut logits);
                logits
            };
            let mut answer = slot
                .map_or_else(RowAnswer::default, |slot| panels.resolve(slot, question, &logits));
            let single = |&token: &u32| logits(token as usize / PANEL)[token as usize % PANEL];
            answer.logits = question.tokens.iter().map(single).collect();
            answer
        })
        .collect()
}

/// Gives banned tokens of a panel that starts at token `start` the logit −∞.
fn ban(banned: &[u32], start: usize, logits: &mut [f32]) {
    let from = banned.partition_point(|&token| (token as usize) < start);
    for &token in &banned[from..] {
        match logits.get_mut(token as usize - start) {
            Some(logit) => *logit = f32::NEG_INFINITY,
            None => break,
        }
    }
}

#[inline(always)]
fn summary<F: MulAdd>(logits: &[f32], with_sum: bool) -> (f32, f32) {
    let max = lane_max(logits);
    if !with_sum || max == f32::NEG_INFINITY {
        return (max, 0.0);
    }
    let mut lanes = [0.0f32; 16];
    for chunk in logits.chunks_exact(16) {
        lanes.iter_mut().zip(chunk).for_each(|(lane, &x)| *lane += exp::<F>(x - max));
    }
    (max, fold_lanes(lanes, |a, b| a + b))
}

per_isa! { fn summarise(logits: &[f32], with_sum: bool) -> (f32, f32) = summary; }

impl Panels {
    fn resolve(
        &self,
        slot: usize,
        question: &RowQuestion<'_>,
        logits: &dyn Fn(usize) -> [f32; PANEL],
    ) -> RowAnswer {
        let largest = &self.largest[slot * self.count..][..self.count];
        let mut answer = RowAnswer::default();
        let Some((best_panel, max)) = first_largest(largest) else { return answer };
        if question.best {
            let best = first_largest(&logits(best_panel));
            answer.best = best.map(|(lane, logit)| ((best_panel * PANEL + lane) as u32, logit));
        }
        if question.top > 0 {
            answer.top = top(largest, question.top, logits);
        }
        if !question.normaliser && question.draws.is_empty() {
            return answer;
        }
        let sums = &self.sums[slot * self.count..][..self.count];
        let mass = |panel: usize| {
            if sums[panel] == 0.0 {
                0.0
            } else {
                f64::from(sums[panel]) * f64::from(largest[panel] - max).exp()
            }
        };
        let total: f64 = (0..self.count).map(mass).sum();
        answer.normaliser = Some(f64::from(max) + total.ln());
        answer.draws = question
            .draws
            .iter()
            .map(|u| draw(u * total, max, self.count, &mass, logits))
            .collect();
        answer
    }
}

/// The first of the largest numbers, if any is above −∞.
fn first_largest(values: &[f32]) -> Option<(usize, f32)> {
    let max = lane_max(values);
    if max == f32::NEG_INFINITY {
        return None;
    }
    values.iter().position(|&x| x == max).map(|at| (at, max))
}

/// The `k` likeliest tokens lie in the `k` panels with the largest maxima: each such panel has a token
/// before any token of the others.
fn top(largest: &[f32], k: usize, logits: &dyn Fn(usize) -> [f32; PANEL]) -> Vec<(u32, f32)> {
    let descending = |a: (usize, f32), b: (usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    let mut panels: Vec<(usize, f32)> =
        largest.iter().copied().enumerate().filter(|(_, max)| *max > f32::NEG_INFINITY).collect();
    if panels.len() > k {
        panels.select_nth_unstable_by(k - 1, |a, b| descending(*a, *b));
        panels.truncate(k);
    }
    let mut tokens: Vec<(usize, f32)> = Vec::with_capacity(panels.len() * PANEL);
    for (panel, _) in panels {
        let values = logits(panel).into_iter().enumerate().filter(|(_, x)| *x > f32::NEG_INFINITY);
        tokens.extend(values.map(|(lane, x)| (panel * PANEL + lane, x)));
    }
    tokens.sort_unstable_by(|a, b| descending(*a, *b));
    tokens.truncate(k);
    tokens.into_iter().map(|(token, x)| (token as u32, x)).collect()
}

/// The first token at which the cumulative mass, relative to `exp(max)`, passes `target`.
fn draw(
    target: f64,
    max: f32,
    count: usize,
    mass: &dyn Fn(usize) -> f64,
    logits: &dyn Fn(usize) -> [f32; PANEL],
) -> u32 {
    let (mut below, mut chosen) = (0.0, 0);
    for panel in 0..count {
        let here = mass(panel);
        if here > 0.0 {
            chosen = panel;
            if below + here > target {
                break;
            }
            below += here;
        }
    }
    let mut token = 0;
    for (lane, logit) in logits(chosen).into_iter().enumerate() {
        if logit > f32::NEG_INFINITY {
            token = chosen * PANEL + lane;
            below += f64::from(logit - max).exp();
            if below > target {
                break;
            }
        }
    }
    token as u32
}
