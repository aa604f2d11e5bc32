//! Which law of whole texts the draws give, on joint tables, by enumeration. See `docs/constraints.md`.

use std::sync::Arc;

use treasure_core::{
    Ahead, AnswerKind, Constraint, Key, Limits, MaskedSeq, NoiseSchedule, Problem, Silent, TokenId,
    methods::{Fhs, Search, Smc, Treasure},
    propose::Order,
};
use treasure_testkit::{JointTable, TableReward, exact};
use treasure_text::automata::{Mass, Patterns, Span, TokenSet, Vocabulary};

use crate::oracle::{completions, matcher, tables};

const WORDS: [&[u8]; 4] = [b"", b"a", b"b", b"ab"];
const LEN: usize = 3;
const PATTERN: &str = "a[ab]*";

fn span() -> (Span, Vec<Vec<TokenId>>) {
    let tokens = WORDS.map(|word| Some(word.to_vec()));
    let vocabulary = Arc::new(Vocabulary::new(tokens, &[0]).unwrap());
    let all = completions(&matcher(PATTERN), &vocabulary, 0, &[None; LEN]);
    (Span::new(tables(PATTERN, &vocabulary).unwrap(), LEN), all)
}

/// Where a text ends: the place of its first end, or its length.
fn end_of(tokens: &[TokenId]) -> usize {
    tokens.iter().position(|&token| token == 0).unwrap_or(tokens.len())
}

/// A model that has learnt to pad: nothing but ends behind the first one.
fn padding_table(key: Key) -> JointTable {
    let random = JointTable::random(WORDS.len(), LEN, key);
    let weight = |tokens: Vec<TokenId>| {
        let padded = tokens[end_of(&tokens)..].iter().all(|&token| token == 0);
        if padded { random.prob(&tokens) } else { 0.0 }
    };
    let weights: Vec<f64> = exact::sequences(WORDS.len(), LEN).map(weight).collect();
    JointTable::new(WORDS.len(), LEN, &weights)
}

/// The probability of a text, whatever the model puts behind its end.
fn text_prob(table: &JointTable, text: &[TokenId]) -> f64 {
    let shown = (end_of(text) + 1).min(LEN);
    let same = exact::sequences(WORDS.len(), LEN).filter(|other| other[..shown] == text[..shown]);
    same.map(|tokens| table.prob(&tokens)).sum()
}

/// How the token at a position is drawn.
#[derive(Clone, Copy)]
enum By {
    /// From the row, restricted to the legal set.
    Legal,
    /// From its marginal given that independent draws of all rows match.
    Mass,
}

/// Reveals positions in a given order, with rows that are the true conditionals: the probability of
/// every text and its weight.
fn sequential(
    table: &JointTable,
    span: &Span,
    by: By,
    order: &[usize],
    seq: &MaskedSeq,
    so_far: (f64, f64),
    out: &mut Vec<(Vec<TokenId>, f64, f64)>,
) {
    let Some((&position, rest)) = order.split_first() else {
        out.push((seq.complete().unwrap().to_vec(), so_far.0, so_far.1));
        return;
    };
    let rows = table.conditionals(seq);
    let at = |p: usize| seq.masked().position(|masked| masked == p).unwrap();
    let row = &rows[at(position)];
    let fill: Vec<_> = seq.slots().collect();
    let lattice = span.lattice(&fill).unwrap();
    let mut legal = TokenSet::default();
    lattice.legal(position, &mut legal);
    let drawn: Vec<f64> = match by {
        By::Legal => {
            let mass: f64 = legal.iter().map(|token| row[token as usize]).sum();
            row.iter().map(|p| p / mass).collect()
        }
        By::Mass => {
            let logs: Vec<Vec<f32>> =
                rows.iter().map(|row| row.iter().map(|p| p.ln() as f32).collect()).collect();
            let log_row = |p: usize| logs[at(p)].as_slice();
            let mut marginals = Vec::new();
            let mut mass = Mass::new(&lattice, &log_row).unwrap().unwrap();
            mass.marginals(position, log_row(position), &mut marginals, |log_p| log_p).unwrap();
            marginals.iter().map(|log| log.exp()).collect()
        }
    };
    for token in legal.iter() {
        let (p, q) = (row[token as usize], drawn[token as usize]);
        let so_far = (so_far.0 * q, so_far.1 * p / q);
        sequential(table, span, by, rest, &seq.reveal(position, token), so_far, out);
    }
}

#[test]
fn draws_reach_every_matching_text_and_weigh_back_to_the_conditional() {
    let (span, mut all) = span();
    all.sort();
    // Half the sum of distances from the conditional, by how tokens are drawn, over tables and orders.
    let mut off = [0.0; 2];
    for seed in 0..20 {
        let table = padding_table(Key::new(seed));
        let matching: f64 = all.iter().map(|tokens| table.prob(tokens)).sum();
        for (by, off) in [By::Legal, By::Mass].into_iter().zip(&mut off) {
            let mut laws = Vec::new();
            for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
                let mut texts = Vec::new();
                let start = MaskedSeq::empty(LEN);
                sequential(&table, &span, by, &order, &start, (1.0, 1.0), &mut texts);
                texts.sort_by(|a, b| a.0.cmp(&b.0));
                assert!(texts.iter().map(|text| &text.0).eq(&all), "exactly the matching texts");
                assert!((texts.iter().map(|(_, q, _)| q).sum::<f64>() - 1.0).abs() < 1e-6);
                // q(x) w(x) = p(x): weighted draws have the conditional's law.
                for (tokens, q, weight) in &texts {
                    assert!((q * weight - table.prob(tokens)).abs() < 1e-9, "{tokens:?}");
                }
                let mean: f64 = texts.iter().map(|(_, q, weight)| q * weight).sum();
                assert!((mean - matching).abs() < 1e-9, "the mean weight is the mass that matches");
                laws.push(texts.into_iter().map(|(_, q, _)| q).collect::<Vec<f64>>());
            }
            for law in &laws {
                let truth = all.iter().map(|tokens| table.prob(tokens) / matching);
                *off += law.iter().zip(truth).map(|(q, p)| (q - p).abs()).sum::<f64>() / 2.0;
            }
            // Without weights neither is the conditional, and both depend on the order.
            assert!((laws[0][0] - laws[1][0]).abs() > 1e-5, "{seed}");
        }
    }
    assert!(off.iter().all(|&off| off > 1.0), "far from exact without weights: {off:?}");
}

#[test]
fn where_positions_are_independent_marginals_give_the_exact_conditional() {
    let (span, all) = span();
    let probs: Vec<Vec<f64>> = (0..LEN as u64)
        .map(|p| (0..4).map(|v| Key::new(8).fold(p).fold(v).uniform() + 0.05).collect())
        .collect();
    // This one has not learnt to pad: a text counts with all that may stand behind its end.
    let table = JointTable::product(&probs);
    let matching: f64 = all.iter().map(|text| text_prob(&table, text)).sum();
    let rows: Vec<Vec<f32>> = table
        .conditionals(&MaskedSeq::empty(LEN))
        .iter()
        .map(|row| row.iter().map(|p| p.ln() as f32).collect())
        .collect();
    let row = |position: usize| rows[position].as_slice();
    for order in [[0, 1, 2], [2, 0, 1]] {
        for text in &all {
            // Drawing each position from its exact marginal, in any order, gives p(x | match).
            let mut mass = Mass::new(&span.lattice(&[None; LEN]).unwrap(), &row).unwrap().unwrap();
            let (mut q, mut marginals) = (1.0, Vec::new());
            for &position in &order {
                mass.marginals(position, row(position), &mut marginals, |log_p| log_p).unwrap();
                q *= marginals[text[position] as usize].exp();
                mass.place(position, text[position]).unwrap();
            }
            assert!((q - text_prob(&table, text) / matching).abs() < 1e-6, "{text:?}: {q}");
        }
    }
    // Whole draws have the same law: within 4 standard errors of every probability.
    let mut mass = Mass::new(&span.lattice(&[None; LEN]).unwrap(), &row).unwrap().unwrap();
    assert!((mass.log_mass() - matching.ln()).abs() < 1e-6);
    let draws = 20_000;
    let mut counts = vec![0usize; exact::sequences(4, LEN).count()];
    for draw in 0..draws as u64 {
        let key = Key::new(9).fold(draw);
        let tokens = mass.draw(&row, &mut |p| key.fold(p as u64).uniform()).unwrap();
        counts[exact::index(4, &tokens)] += 1;
    }
    for text in &all {
        let p = text_prob(&table, text) / matching;
        let share = counts[exact::index(4, text)] as f64 / draws as f64;
        let error = (p * (1.0 - p) / draws as f64).sqrt();
        assert!((share - p).abs() < 4.0 * error, "{text:?}: {share}, not {p} ± {error}");
    }
}

/// The constraint as a search has it.
fn patterns() -> Patterns {
    // One token more: a joint table's mask.
    let tokens = WORDS.iter().map(|word| Some(word.to_vec())).chain([None]);
    let vocabulary = Arc::new(Vocabulary::new(tokens, &[0]).unwrap());
    let span = Span::new(tables(PATTERN, &vocabulary).unwrap(), LEN);
    Patterns::new(vocabulary, LEN).with(0, span).unwrap()
}

/// The shares of draws of a method within the constraint.
fn drawn(method: &dyn Search, table: &JointTable, reward: &TableReward, draws: u64) -> Vec<f64> {
    let mut counts = vec![0.0; table.probs().len()];
    let (patterns, schedule) = (patterns(), NoiseSchedule::LogLinear { eps: 0.0 });
    for seed in 0..draws {
        let start = MaskedSeq::empty(LEN);
        let limits = Limits::default();
        let problem = Problem::new(start, &schedule, table, reward, patterns.clone(), limits)
            .unwrap()
            .with_answer(AnswerKind::Draw);
        let found = method.run(&problem, Key::new(13).fold(seed), &mut Silent).unwrap();
        counts[exact::index(WORDS.len(), &found.tokens)] += 1.0 / draws as f64;
    }
    counts
}

/// The law of draws in random order, each from its mask's row given that the text matches.
fn looking_ahead(table: &JointTable) -> Vec<f64> {
    fn go(table: &JointTable, patterns: &Patterns, seq: &MaskedSeq, p: f64, law: &mut [f64]) {
        if let Some(tokens) = seq.complete() {
            law[exact::index(WORDS.len(), tokens)] += p;
            return;
        }
        let logs: Vec<Vec<f32>> = (table.conditionals(seq).iter())
            .map(|row| row.iter().map(|p| p.ln() as f32).chain([f32::NEG_INFINITY]).collect())
            .collect();
        let rows: Vec<&[f32]> = logs.iter().map(Vec::as_slice).collect();
        let legal = patterns.open(seq).unwrap().unwrap();
        let mut ahead: Box<dyn Ahead> = legal.ahead(&rows).unwrap().unwrap();
        for (row, position) in rows.iter().zip(seq.masked()) {
            let mut within = Vec::new();
            ahead.row(position, row, &mut within).unwrap();
            for (token, log_q) in (0..).zip(within).filter(|(_, log_q)| *log_q > f32::NEG_INFINITY)
            {
                let share = p * f64::from(log_q).exp() / seq.n_masked() as f64;
                go(table, patterns, &seq.reveal(position, token), share, law);
            }
        }
    }
    let mut law = vec![0.0; table.probs().len()];
    go(table, &patterns(), &MaskedSeq::empty(LEN), 1.0, &mut law);
    law
}

#[test]
fn a_search_draws_ahead_and_weighted_particles_draw_from_the_exact_conditional() {
    let table = padding_table(Key::new(7));
    let reward = TableReward::random(WORDS.len(), LEN, Key::new(2));
    let (_, all) = span();
    let conditional = |lambda: f64| -> Vec<f64> {
        let weight = |tokens: Vec<TokenId>| match all.contains(&tokens) {
            true => table.prob(&tokens) * (lambda * reward.of(&tokens)).exp(),
            false => 0.0,
        };
        let weights: Vec<f64> = exact::sequences(WORDS.len(), LEN).map(weight).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / total).collect()
    };
    // 6,000 draws over some twenty texts scatter by about 0.02.
    let law = looking_ahead(&table);
    let near = exact::total_variation(&drawn(&Fhs {}, &table, &reward, 6000), &law);
    assert!(near < 0.03, "{near}");
    // Without weights it is near the conditional, not the same.
    let off = exact::total_variation(&law, &conditional(0.0));
    assert!(off > 0.005, "{off}");
    for lambda in [1e-9, 2.0] {
        let smc = Smc { particles: 40, beam_width: 2.into(), lambda, ..Smc::default() };
        let distance =
            exact::total_variation(&drawn(&smc, &table, &reward, 3000), &conditional(lambda));
        assert!(distance < 0.045, "λ = {lambda}: {distance}");
    }
}

#[test]
fn padding_behind_an_end_costs_no_model_call() {
    let (schedule, patterns) = (NoiseSchedule::LogLinear { eps: 0.0 }, patterns());
    let mut short = 0;
    // A reward that likes short texts, so that many end early.
    let values = exact::sequences(WORDS.len(), LEN).map(|tokens| -(end_of(&tokens) as f64));
    let reward = TableReward::new(WORDS.len(), values.collect());
    for seed in 0..200 {
        let table = padding_table(Key::new(seed));
        let (start, limits) = (MaskedSeq::empty(LEN), Limits::default());
        let problem =
            Problem::new(start, &schedule, &table, &reward, patterns.clone(), limits).unwrap();
        let tree = Treasure { order: Order::LeftToRight, ..Treasure::new(2, 1) };
        let found = tree.run(&problem, Key::new(seed), &mut Silent).unwrap();
        let end = end_of(&found.tokens);
        assert_eq!(found.cost.nfe as usize, (end + 1).min(LEN), "{:?}", found.tokens);
        short += usize::from(end + 1 < LEN);
    }
    assert!(short > 3, "{short}");
}
