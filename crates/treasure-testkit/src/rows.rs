//! Answers from explicit rows of log-probabilities: the meaning of every part of a `Want`, spelt out.
//! Slow and plain on purpose; fast implementations are compared with it.

use treasure_core::{Answer, Candidate, Question, TokenId};

/// Removes the banned tokens from a row and normalises what is left.
fn allowed(row: &[f64], banned: &[TokenId]) -> Vec<f64> {
    let mut row = row.to_vec();
    for &token in banned {
        if let Some(entry) = row.get_mut(token as usize) {
            *entry = f64::NEG_INFINITY;
        }
    }
    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return row;
    }
    let log_sum = top + row.iter().map(|logprob| (logprob - top).exp()).sum::<f64>().ln();
    row.iter().map(|logprob| logprob - log_sum).collect()
}

/// The tokens of a row by falling probability, ties by lowest id, impossible ones left out.
fn ranked(row: &[f64]) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = (0..)
        .zip(row)
        .filter(|(_, logprob)| **logprob > f64::NEG_INFINITY)
        .map(|(token, &logprob)| Candidate { token, logprob })
        .collect();
    all.sort_by(|a, b| b.logprob.total_cmp(&a.logprob).then(a.token.cmp(&b.token)));
    all
}

/// The first token, in id order, whose cumulative probability passes `u`.
fn inverse_cdf(row: &[f64], u: f64) -> TokenId {
    let mut cumulative = 0.0;
    let mut last = 0;
    for (token, logprob) in (0..).zip(row) {
        let p = logprob.exp();
        cumulative += p;
        if p > 0.0 {
            last = token;
        }
        if u < cumulative {
            return token;
        }
    }
    last
}

/// Answers a question from one row of log-probabilities per masked position, in position order.
pub fn answer_from_rows(question: &Question<'_>, rows: &[Vec<f64>]) -> Answer {
    let want = question.want;
    let positions: Vec<usize> = question.seq.masked().collect();
    let row_at = |position: usize| -> Vec<f64> {
        let index =
            positions.binary_search(&position).expect("questions are about masked positions");
        allowed(&rows[index], &question.bans.at(position))
    };
    let mut answer = Answer::default();
    if want.argmax {
        for &position in &positions {
            let best = ranked(&row_at(position))[0];
            answer.argmax.push(best.token);
            if want.confidence {
                answer.confidence.push(best.logprob);
            }
        }
    }
    for at in want.top {
        let mut top = ranked(&row_at(at.position));
        top.truncate(at.k);
        answer.top.push(top);
    }
    answer.draws =
        want.draws.iter().map(|draw| inverse_cdf(&row_at(draw.position), draw.u)).collect();
    answer.logprobs =
        want.logprobs.iter().map(|&(position, token)| row_at(position)[token as usize]).collect();
    answer
}
