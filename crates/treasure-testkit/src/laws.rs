//! Laws every denoiser and every reward must pass, whatever they are made of.
//!
//! A denoiser: batch equals single, order does not matter, bans hold, ties go to the lowest id, draws
//! are by inverse CDF, probabilities sum to one. A reward: batch equals single, finite, order does not
//! matter, equal sequences have equal views, numbers are of the range it promises.

use treasure_core::{
    Answer, At, Bans, Denoiser, Draw, Encoding, MaskedSeq, Question, Scoring, State, TokenId, View,
    Want,
};

fn encode(denoiser: &dyn Denoiser, seqs: &[&MaskedSeq], t: f64) -> Vec<Encoding> {
    let batch: Vec<_> = seqs.iter().map(|seq| State { seq, t }).collect();
    let encodings = denoiser.encode(&batch).expect("encode succeeds");
    assert_eq!(encodings.len(), batch.len(), "one encoding per state");
    encodings
}

fn ask(
    denoiser: &dyn Denoiser,
    seq: &MaskedSeq,
    encoding: &Encoding,
    bans: &Bans,
    want: Want<'_>,
) -> Answer {
    let mut answers =
        denoiser.read(&[Question { seq, encoding, bans, want }]).expect("read succeeds");
    assert_eq!(answers.len(), 1, "one answer per question");
    answers.remove(0)
}

/// Checks every law of a denoiser on given states (each with at least one mask).
///
/// # Panics
/// If a law is broken, saying which and where.
pub fn denoiser_obeys_the_laws(denoiser: &dyn Denoiser, states: &[MaskedSeq], bans: &Bans) {
    assert!(!states.is_empty(), "laws need states to be checked on");
    let times = if denoiser.facts().time_agnostic { vec![1.0, 0.25] } else { vec![0.7] };
    let mut by_time = Vec::new();
    for t in times {
        for seq in states {
            answers_are_consistent(denoiser, seq, t, bans);
        }
        by_time.push(batch_equals_single(denoiser, states, t, bans));
    }
    if let [first, second] = by_time.as_slice() {
        assert_eq!(first, second, "a time-agnostic denoiser must ignore the time");
    }
}

/// The questions asked of every state for the comparison of batches.
fn survey(seq: &MaskedSeq) -> (Vec<At>, Vec<Draw>) {
    let top = seq.masked().map(|position| At { position, k: 3 }).collect();
    let draws = (seq.masked().enumerate())
        .map(|(i, position)| Draw { position, u: (i as f64 * 0.37 + 0.21).fract(), text: 0 })
        .collect();
    (top, draws)
}

fn batch_equals_single(
    denoiser: &dyn Denoiser,
    states: &[MaskedSeq],
    t: f64,
    bans: &Bans,
) -> Vec<Answer> {
    let surveys: Vec<_> = states.iter().map(survey).collect();
    let masks: Vec<Vec<usize>> = states.iter().map(|seq| seq.masked().collect()).collect();
    let want = |i: usize| Want {
        argmax: true,
        confidence: true,
        top: &surveys[i].0,
        draws: &surveys[i].1,
        logprobs: &[],
        rows: &masks[i],
    };
    let single: Vec<Answer> = states
        .iter()
        .enumerate()
        .map(|(i, seq)| ask(denoiser, seq, &encode(denoiser, &[seq], t)[0], bans, want(i)))
        .collect();
    let together = |order: Vec<usize>| {
        let seqs: Vec<&MaskedSeq> = order.iter().map(|&i| &states[i]).collect();
        let encodings = encode(denoiser, &seqs, t);
        let questions: Vec<_> = (order.iter().zip(&encodings))
            .map(|(&i, encoding)| Question { seq: &states[i], encoding, bans, want: want(i) })
            .collect();
        let answers = denoiser.read(&questions).expect("read succeeds");
        assert_eq!(answers.len(), order.len(), "one answer per question");
        for (&i, answer) in order.iter().zip(&answers) {
            assert_eq!(
                answer, &single[i],
                "batch equals single, bit for bit (state {i}, time {t})"
            );
        }
    };
    together((0..states.len()).collect());
    together((0..states.len()).rev().collect());
    together((0..states.len()).chain(0..states.len()).collect());
    single
}

fn answers_are_consistent(denoiser: &dyn Denoiser, seq: &MaskedSeq, t: f64, bans: &Bans) {
    let vocab = denoiser.facts().vocab_size;
    let encoding = encode(denoiser, &[seq], t).remove(0);
    let positions: Vec<usize> = seq.masked().collect();
    assert!(!positions.is_empty(), "laws need states with masks");
    let top: Vec<At> = positions.iter().map(|&position| At { position, k: vocab }).collect();
    let rows = positions.as_slice();
    let want = Want { argmax: true, confidence: true, top: &top, rows, ..Want::default() };
    let answer = ask(denoiser, seq, &encoding, bans, want);
    for (i, &position) in positions.iter().enumerate() {
        let all = &answer.top[i];
        let place = format!("position {position}, time {t}");
        assert!(!all.is_empty(), "some token is allowed at {place}");
        let banned = bans.at(position);
        for candidate in all {
            assert!(
                (candidate.token as usize) < vocab,
                "token ids lie below the vocabulary: {place}"
            );
            assert!(
                !denoiser.facts().never.contains(&candidate.token),
                "never means never: {place}"
            );
            assert!(!banned.contains(&candidate.token), "bans are respected: {place}");
            assert!(candidate.logprob <= 1e-9, "log-probabilities are at most 0: {place}");
        }
        let (row, best) = (&answer.rows[i], all[0]);
        assert_eq!(row.len(), vocab, "a row has a logit for every token: {place}");
        let gap = |token: u32| f64::from(row[token as usize]) - f64::from(row[best.token as usize]);
        for candidate in all {
            let (got, expected) = (gap(candidate.token), candidate.logprob - best.logprob);
            assert!(
                (got - expected).abs() < 2e-3,
                "rows agree with top: {place}, {candidate:?}, {got}"
            );
        }
        let mass = row.iter().filter(|logit| **logit > f32::NEG_INFINITY).count();
        assert!(mass >= all.len(), "what is listed has a logit: {place}");
        for &token in banned.iter().filter(|&&token| (token as usize) < vocab) {
            assert_eq!(row[token as usize], f32::NEG_INFINITY, "bans hold in rows: {place}");
        }
        for pair in all.windows(2) {
            let falls = pair[0].logprob > pair[1].logprob;
            let tie = pair[0].logprob == pair[1].logprob && pair[0].token < pair[1].token;
            assert!(falls || tie, "likeliest first, ties by lowest id: {place}, {pair:?}");
        }
        let mass: f64 = all.iter().map(|candidate| candidate.logprob.exp()).sum();
        assert!((mass - 1.0).abs() < 1e-3, "allowed tokens have mass one, got {mass}: {place}");
        assert_eq!(answer.argmax[i], all[0].token, "argmax is the top of the list: {place}");
        let gap = (answer.confidence[i] - all[0].logprob).abs();
        assert!(gap < 1e-6, "confidence is the argmax's log-probability: {place}");
        draws_invert_the_cdf(denoiser, seq, &encoding, bans, position, all);
        logprobs_agree(denoiser, seq, &encoding, bans, position, all, &banned);
    }
    let short: Vec<At> = positions.iter().map(|&position| At { position, k: 2 }).collect();
    let two = ask(denoiser, seq, &encoding, bans, Want { top: &short, ..Want::default() });
    for (few, all) in two.top.iter().zip(&answer.top) {
        assert_eq!(few.len(), all.len().min(2), "as many as asked for, if there are");
        for (a, b) in few.iter().zip(all) {
            assert_eq!(a.token, b.token, "a shorter list is a prefix of a longer one");
        }
    }
    assert!(two.argmax.is_empty() && two.draws.is_empty(), "only what was asked for is answered");
}

fn draws_invert_the_cdf(
    denoiser: &dyn Denoiser,
    seq: &MaskedSeq,
    encoding: &Encoding,
    bans: &Bans,
    position: usize,
    all: &[treasure_core::Candidate],
) {
    let mut by_id = all.to_vec();
    by_id.sort_by_key(|candidate| candidate.token);
    let mut bounds = Vec::with_capacity(by_id.len());
    let mut cumulative = 0.0;
    for candidate in &by_id {
        cumulative += candidate.logprob.exp();
        bounds.push(cumulative);
    }
    bounds.iter_mut().for_each(|bound| *bound /= cumulative);
    let draws: Vec<Draw> =
        (0..23).map(|i| Draw { position, u: (f64::from(i) + 0.5) / 23.0, text: 0 }).collect();
    let got = ask(denoiser, seq, encoding, bans, Want { draws: &draws, ..Want::default() }).draws;
    for (draw, token) in draws.iter().zip(got) {
        let near = bounds.iter().any(|bound| (bound - draw.u).abs() < 1e-5);
        let expected = bounds.iter().position(|bound| draw.u < *bound).unwrap_or(by_id.len() - 1);
        if near {
            continue; // rounding may decide at a boundary
        }
        assert_eq!(
            token, by_id[expected].token,
            "a draw inverts the CDF over increasing ids: position {position}, u = {}",
            draw.u
        );
    }
}

fn logprobs_agree(
    denoiser: &dyn Denoiser,
    seq: &MaskedSeq,
    encoding: &Encoding,
    bans: &Bans,
    position: usize,
    all: &[treasure_core::Candidate],
    banned: &[TokenId],
) {
    let asked: Vec<(usize, TokenId)> = (all.iter().take(5).map(|candidate| candidate.token))
        .chain(banned.iter().copied().take(2))
        .map(|token| (position, token))
        .collect();
    let want = Want { logprobs: &asked, ..Want::default() };
    let got = ask(denoiser, seq, encoding, bans, want).logprobs;
    for ((_, token), logprob) in asked.iter().zip(got) {
        match all.iter().find(|candidate| candidate.token == *token) {
            Some(candidate) => assert!(
                (candidate.logprob - logprob).abs() < 1e-6,
                "log-probabilities agree with the list: token {token} at {position}"
            ),
            None => assert_eq!(logprob, f64::NEG_INFINITY, "a banned token has none: {token}"),
        }
    }
}

/// Checks every law of a reward and its reader on given complete sequences.
///
/// # Panics
/// If a law is broken, saying which and where.
pub fn reward_obeys_the_laws<'a>(scoring: impl Into<Scoring<'a>>, sequences: &[Vec<TokenId>]) {
    let Scoring { reader, reward } = scoring.into();
    assert!(!reward.name().is_empty(), "a reward has a name");
    let views: Vec<View> =
        sequences.iter().map(|tokens| reader.view(tokens).expect("a view")).collect();
    for (tokens, view) in sequences.iter().zip(&views) {
        assert_eq!(&reader.view(tokens).expect("a view"), view, "equal sequences have equal views");
    }
    let single: Vec<f64> = views
        .iter()
        .map(|view| {
            let scores = reward.score(&[view]).expect("a score");
            assert_eq!(scores.len(), 1, "one number per view");
            assert!(scores[0].is_finite(), "rewards are finite: {view:?}");
            assert!(reward.range().contains(scores[0]), "promises are kept: {view:?}");
            scores[0]
        })
        .collect();
    let check = |order: Vec<usize>| {
        let batch: Vec<&View> = order.iter().map(|&i| &views[i]).collect();
        let scores = reward.score(&batch).expect("scores");
        assert_eq!(scores.len(), batch.len(), "one number per view");
        for (&i, score) in order.iter().zip(scores) {
            let same = score.to_bits() == single[i].to_bits();
            assert!(same, "batch equals single, bit for bit: {:?}", views[i]);
        }
    };
    check((0..views.len()).collect());
    check((0..views.len()).rev().collect());
    check((0..views.len()).chain(0..views.len()).collect());
    assert!(reward.score(&[]).expect("no scores").is_empty(), "no views, no numbers");
}

#[cfg(test)]
mod tests {
    use treasure_core::Key;

    use super::*;
    use crate::{JointTable, TableReward, exact};

    #[test]
    fn the_joint_table_obeys_the_laws_with_and_without_time() {
        let states = [
            MaskedSeq::empty(3),
            MaskedSeq::from_slots([None, Some(2), None]),
            MaskedSeq::from_slots([Some(0), None, Some(3)]),
        ];
        let bans = Bans::none().everywhere(1).before(3, 2);
        let table = JointTable::random(4, 3, Key::new(1));
        denoiser_obeys_the_laws(&table, &states, &bans);
        denoiser_obeys_the_laws(&table.timed(), &states, &Bans::none());
    }

    #[test]
    fn ties_of_a_uniform_table_go_to_the_lowest_id() {
        let table = JointTable::new(3, 2, &[1.0; 9]);
        denoiser_obeys_the_laws(&table, &[MaskedSeq::empty(2)], &Bans::none());
    }

    #[test]
    fn a_table_reward_obeys_the_laws() {
        let reward = TableReward::random(3, 3, Key::new(2));
        reward_obeys_the_laws(&reward, &exact::sequences(3, 3).collect::<Vec<_>>());
    }
}
