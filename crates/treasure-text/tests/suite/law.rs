//! Which law of whole texts the draws give, on joint tables, by enumeration. See `docs/constraints.md`.

use std::sync::Arc;

use treasure_core::{Key, MaskedSeq, TokenId};
use treasure_testkit::{JointTable, exact};
use treasure_text::automata::{Mass, Span, TokenSet, Vocabulary};

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
            let mass = Mass::new(&lattice, &log_row).unwrap();
            mass.marginals(position, log_row(position), &mut marginals).unwrap();
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
    let table = JointTable::random(WORDS.len(), LEN, Key::new(7));
    let matching: f64 = all.iter().map(|tokens| table.prob(tokens)).sum();
    // Half the sum of distances from the conditional, by how tokens are drawn.
    let mut off = Vec::new();
    for by in [By::Legal, By::Mass] {
        let mut laws = Vec::new();
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let mut texts = Vec::new();
            sequential(&table, &span, by, &order, &MaskedSeq::empty(LEN), (1.0, 1.0), &mut texts);
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
        let distance = |law: &Vec<f64>| -> f64 {
            let truth = all.iter().map(|tokens| table.prob(tokens) / matching);
            law.iter().zip(truth).map(|(q, p)| (q - p).abs()).sum::<f64>() / 2.0
        };
        off.push(laws.iter().map(distance).sum::<f64>() / 3.0);
        // Without weights neither is the conditional, and both depend on the order.
        assert!((laws[0][0] - laws[1][0]).abs() > 1e-4);
    }
    assert!(off[1] > 1e-3 && off[0] > 2.0 * off[1], "{off:?}");
}

#[test]
fn where_positions_are_independent_marginals_give_the_exact_conditional() {
    let (span, all) = span();
    let probs: Vec<Vec<f64>> = (0..LEN as u64)
        .map(|p| (0..4).map(|v| Key::new(8).fold(p).fold(v).uniform() + 0.05).collect())
        .collect();
    let table = JointTable::product(&probs);
    let matching: f64 = all.iter().map(|tokens| table.prob(tokens)).sum();
    let rows: Vec<Vec<f32>> = table
        .conditionals(&MaskedSeq::empty(LEN))
        .iter()
        .map(|row| row.iter().map(|p| p.ln() as f32).collect())
        .collect();
    let row = |position: usize| rows[position].as_slice();
    for order in [[0, 1, 2], [2, 0, 1]] {
        for text in &all {
            // Drawing each position from its exact marginal, in any order, gives p(x | match).
            let (mut fill, mut q) = ([None; LEN], 1.0);
            for &position in &order {
                let mass = Mass::new(&span.lattice(&fill).unwrap(), &row).unwrap();
                let mut marginals = Vec::new();
                mass.marginals(position, row(position), &mut marginals).unwrap();
                q *= marginals[text[position] as usize].exp();
                fill[position] = Some(text[position]);
            }
            assert!((q - table.prob(text) / matching).abs() < 1e-6, "{text:?}: {q}");
        }
    }
    // Whole draws have the same law: within 4 standard errors of every probability.
    let mass = Mass::new(&span.lattice(&[None; LEN]).unwrap(), &row).unwrap();
    assert!((mass.log_mass() - matching.ln()).abs() < 1e-6);
    let draws = 20_000;
    let mut counts = vec![0usize; exact::sequences(4, LEN).count()];
    for draw in 0..draws as u64 {
        let key = Key::new(9).fold(draw);
        let tokens = mass.draw(&row, &mut |p| key.fold(p as u64).uniform()).unwrap();
        counts[exact::index(4, &tokens)] += 1;
    }
    for text in &all {
        let p = table.prob(text) / matching;
        let share = counts[exact::index(4, text)] as f64 / draws as f64;
        let error = (p * (1.0 - p) / draws as f64).sqrt();
        assert!((share - p).abs() < 4.0 * error, "{text:?}: {share}, not {p} ± {error}");
    }
}
