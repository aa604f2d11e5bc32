//! Legal sets, likeliest completions, max-marginals and exact conditionals, against enumeration.

use std::sync::Arc;

use regex::bytes::Regex;
use treasure_core::TokenId;
use treasure_text::{
    Error,
    automata::{Best, Mass, Scores, Span, TokenSet, Vocabulary},
};

use crate::oracle::{Random, completions, matcher, regex, tables, vocabulary};

/// Everything about one partial fill.
struct Case<'a> {
    name: &'a str,
    matcher: &'a Regex,
    vocabulary: &'a Arc<Vocabulary>,
    span: &'a Span,
    fill: Vec<Option<TokenId>>,
}

impl Case<'_> {
    fn check(&self, random: &mut Random) -> bool {
        let min_len = self.span.shortest_allowed();
        let true_ones = completions(self.matcher, self.vocabulary, min_len, &self.fill);
        let Ok(lattice) = self.span.lattice(&self.fill) else {
            assert!(true_ones.is_empty(), "{}: {:?} can be completed", self.name, self.fill);
            return false;
        };
        assert!(!true_ones.is_empty(), "{}: {:?} cannot be completed", self.name, self.fill);
        let size = self.vocabulary.size();
        let mut legal = TokenSet::default();
        for position in 0..self.fill.len() {
            let mut truth = TokenSet::none(size);
            true_ones.iter().for_each(|tokens| truth.insert(tokens[position]));
            lattice.legal(position, &mut legal);
            assert_eq!(legal, truth, "{}: {:?} at {position}", self.name, self.fill);
            for token in 0..size as TokenId + 2 {
                assert_eq!(lattice.is_legal(position, token), truth.contains(token));
            }
        }
        let rows: Vec<Vec<f32>> = self
            .fill
            .iter()
            .map(|_| (0..size).map(|_| (random.uniform() * -8.0) as f32).collect())
            .collect();
        self.check_best(&lattice, &rows, &true_ones);
        self.check_mass(&lattice, &rows, &true_ones, random);
        true
    }

    /// The sum over masks, as enumeration has it.
    fn score(&self, rows: &[Vec<f32>], tokens: &[TokenId]) -> f64 {
        let masked = (0..tokens.len()).filter(|&p| self.fill[p].is_none());
        masked.map(|p| f64::from(rows[p][tokens[p] as usize])).sum()
    }

    /// log p of a text under normalised rows: the masks up to its first end. Padding is certain; of
    /// several ends it takes each by its share.
    fn log_p(&self, rows: &[Vec<f32>], tokens: &[TokenId]) -> f64 {
        let is_end = |p: usize| self.vocabulary.is_eos(tokens[p]);
        let end = (0..tokens.len()).find(|&p| is_end(p)).unwrap_or(tokens.len());
        let masked = (0..tokens.len()).filter(|&p| self.fill[p].is_none());
        let own = |p: usize| {
            let among = |token: &usize| p <= end || self.vocabulary.is_eos(*token as TokenId);
            let tokens_there = (0..rows[p].len()).filter(among);
            let sum: f64 = tokens_there.map(|token| f64::from(rows[p][token]).exp()).sum();
            f64::from(rows[p][tokens[p] as usize]) - sum.ln()
        };
        masked.map(own).sum()
    }

    fn check_best(
        &self,
        lattice: &treasure_text::automata::Lattice,
        rows: &[Vec<f32>],
        true_ones: &[Vec<TokenId>],
    ) {
        let mut scores = Scores::new(self.span.tables().clone(), rows.len());
        for (position, row) in rows.iter().enumerate() {
            scores.set(position, row).unwrap();
        }
        let best = Best::new(lattice, &Arc::new(scores)).unwrap();
        let most = |of: &mut dyn Iterator<Item = &Vec<TokenId>>| {
            of.map(|tokens| self.score(rows, tokens)).fold(f64::NEG_INFINITY, f64::max)
        };
        let truth = most(&mut true_ones.iter());
        assert!((best.score() - truth).abs() < 1e-9, "{}: {} {truth}", self.name, best.score());
        let completion = best.completion();
        assert!(true_ones.contains(&completion), "{}: {completion:?}", self.name);
        assert!((self.score(rows, &completion) - truth).abs() < 1e-9, "{}", self.name);
        let mut marginals = Vec::new();
        for (position, row) in rows.iter().enumerate() {
            best.max_marginals(position, row, &mut marginals).unwrap();
            for token in 0..self.vocabulary.size() as TokenId {
                let truth = most(&mut true_ones.iter().filter(|x| x[position] == token));
                let got = marginals[token as usize];
                assert!(
                    got == truth || (got - truth).abs() < 1e-9,
                    "{}: {:?}: token {token} at {position}: {got}, not {truth}",
                    self.name,
                    self.fill
                );
                let child = best.child(position, token);
                assert_eq!(child.is_some(), truth > f64::NEG_INFINITY);
                let Some((rest, tokens)) = child else { continue };
                assert!(tokens[position] == token && true_ones.contains(&tokens));
                assert!((self.score(rows, &tokens) - truth).abs() < 1e-9);
                let own = if self.fill[position].is_none() { row[token as usize] } else { 0.0 };
                assert!((rest + f64::from(own) - truth).abs() < 1e-9);
            }
        }
    }

    fn check_mass(
        &self,
        lattice: &treasure_text::automata::Lattice,
        rows: &[Vec<f32>],
        true_ones: &[Vec<TokenId>],
        random: &mut Random,
    ) {
        let row = |position: usize| rows[position].as_slice();
        let mut mass = Mass::new(lattice, &row).unwrap().unwrap();
        let weight = |tokens: &Vec<TokenId>| self.log_p(rows, tokens).exp();
        let total: f64 = true_ones.iter().map(weight).sum();
        assert!((mass.log_mass() - total.ln()).abs() < 1e-9, "{}", self.name);
        let check = |mass: &mut Mass, placed: &[(usize, TokenId)]| {
            let fits = |text: &&Vec<TokenId>| placed.iter().all(|&(p, token)| text[p] == token);
            let left: Vec<_> = true_ones.iter().filter(fits).collect();
            let total: f64 = left.iter().map(|text| weight(text)).sum();
            let mut marginals = Vec::new();
            for position in 0..rows.len() {
                mass.marginals(position, row(position), &mut marginals, |log_p| log_p).unwrap();
                for token in 0..self.vocabulary.size() as TokenId {
                    let with = left.iter().filter(|tokens| tokens[position] == token);
                    let truth = with.map(|text| weight(text)).sum::<f64>() / total;
                    let got = marginals[token as usize].exp();
                    assert!((got - truth).abs() < 1e-9, "{}: {got}, not {truth}", self.name);
                }
            }
        };
        check(&mut mass, &[]);
        let drawn = mass.draw(&row, &mut |_| random.uniform()).unwrap();
        assert!(true_ones.contains(&drawn), "{}: {drawn:?}", self.name);
        // Placing tokens, in any order, conditions on them.
        let mut placed = Vec::new();
        let mut left: Vec<usize> = (0..rows.len()).filter(|&p| self.fill[p].is_none()).collect();
        while !left.is_empty() {
            let position = left.swap_remove(random.below(left.len()));
            mass.place(position, drawn[position]).unwrap();
            placed.push((position, drawn[position]));
            check(&mut mass, &placed);
        }
    }
}

/// A random partial fill: of a matching sequence if there is one (mostly), or of any tokens.
fn random_fill(
    random: &mut Random,
    vocabulary: &Vocabulary,
    true_ones: &[Vec<TokenId>],
    len: usize,
) -> Vec<Option<TokenId>> {
    let any: Vec<TokenId> = (0..len).map(|_| random.below(vocabulary.size()) as TokenId).collect();
    let from = match true_ones.is_empty() || random.chance(0.15) {
        true => any,
        false => random.pick(true_ones).clone(),
    };
    let share = random.uniform();
    from.into_iter().map(|token| random.chance(share).then_some(token)).collect()
}

fn compare(seed: u64, regexes: usize) -> (usize, usize) {
    let mut random = Random::new(seed);
    let (mut compared, mut met) = (0, 0);
    while compared < regexes {
        let pattern = regex(&mut random, 3);
        let size = 2 + random.below(5);
        let vocabulary = vocabulary(&mut random, size);
        let len = random.below(5);
        let matcher = matcher(&pattern);
        let empty = vec![None; len];
        let Some(tables) = tables(&pattern, &vocabulary) else {
            assert!(completions(&matcher, &vocabulary, 0, &empty).is_empty(), "{pattern}");
            continue;
        };
        compared += 1;
        let span = match random.below(4) {
            0 => Span::exactly(tables, len),
            1 => Span::new(tables, len).min_len(random.below(len + 2)),
            _ => Span::new(tables, len),
        };
        let true_ones = completions(&matcher, &vocabulary, span.shortest_allowed(), &empty);
        assert_eq!(span.check().is_ok(), !true_ones.is_empty(), "{pattern}: {:?}", span.check());
        for round in 0..3 {
            let fill = match round {
                0 => empty.clone(),
                _ => random_fill(&mut random, &vocabulary, &true_ones, len),
            };
            let name = pattern.as_str();
            let case = Case { name, matcher: &matcher, vocabulary: &vocabulary, span: &span, fill };
            met += usize::from(case.check(&mut random));
        }
    }
    println!("{compared} random regexes x 3 fills equal enumeration, of which {met} can be met");
    (compared, met)
}

#[test]
fn legal_sets_best_completions_and_masses_equal_enumeration() {
    let (compared, met) = compare(1, 10_000);
    assert_eq!(compared, 10_000);
    assert!(met > 12_000, "only {met} of 30,000 fills can be met");
}

/// `cargo test -p treasure-text --test suite -- --ignored legal_sets`
#[test]
#[ignore = "ten times as many regexes: minutes"]
fn legal_sets_best_completions_and_masses_equal_enumeration_at_length() {
    compare(2, 100_000);
}

#[test]
fn errors_name_the_length_that_would_do() {
    let mut random = Random::new(3);
    let mut kinds = [0; 2];
    for _ in 0..3000 {
        let pattern = regex(&mut random, 3);
        let vocabulary = vocabulary(&mut random, 4);
        let Some(tables) = tables(&pattern, &vocabulary) else { continue };
        let matcher = matcher(&pattern);
        // The lengths of matching texts, up to 6 tokens.
        let fits: Vec<bool> = (0..=6)
            .map(|n| {
                let texts = completions(&matcher, &vocabulary, n, &vec![None; n]);
                !texts.is_empty()
            })
            .collect();
        let len = random.below(4);
        let span = Span::new(tables, len).min_len(random.below(5));
        match span.check() {
            Ok(()) => {}
            Err(Error::TooShort { shortest, .. }) => {
                kinds[0] += 1;
                let truth = (span.shortest_allowed()..=6).find(|&n| fits[n]);
                assert!(truth == Some(shortest) || shortest > 6, "{pattern}: {shortest} {truth:?}");
            }
            Err(Error::TooLong { longest, .. }) => {
                kinds[1] += 1;
                assert_eq!((0..=6).rev().find(|&n| fits[n]), Some(longest), "{pattern}");
            }
            Err(other) => panic!("{pattern}: {other}"),
        }
    }
    assert!(kinds.iter().all(|&count| count > 50), "{kinds:?}");
}

#[test]
fn a_token_scored_minus_infinity_is_placed_only_if_nothing_else_will_do() {
    let words: [&[u8]; 4] = [b"", b"a", b"b", b"c"];
    let words = words.map(|word| Some(word.to_vec()));
    let vocabulary = Arc::new(Vocabulary::new(words, &[0]).unwrap());
    let tables = tables("ab|cc", &vocabulary).unwrap();
    let lattice = Span::new(tables.clone(), 2).lattice(&[None, None]).unwrap();
    let never = f32::NEG_INFINITY;
    let best = |rows: [[f32; 4]; 2]| {
        let mut scores = Scores::new(tables.clone(), 2);
        rows.iter().enumerate().for_each(|(p, row)| scores.set(p, row).unwrap());
        let best = Best::new(&lattice, &Arc::new(scores)).unwrap();
        (best.score(), best.completion())
    };
    assert_eq!(best([[0.0, -1.0, 0.0, never], [0.0, 0.0, -2.0, 0.0]]), (-3.0, vec![1, 2]));
    let (score, tokens) = best([[0.0, never, 0.0, never], [0.0, 0.0, never, -5.0]]);
    assert_eq!((score, tokens), (f64::NEG_INFINITY, vec![3, 3]));
    let mut scores = Scores::new(tables.clone(), 2);
    let error = scores.set(1, &[0.0, 0.0, f32::NAN, 0.0]).unwrap_err().to_string();
    assert_eq!(error, "scores at position 1: expected numbers or −∞, got NaN for token 2");
    let short = scores.set(1, &[0.0]).unwrap_err().to_string();
    assert_eq!(short, "scores: expected one for each of 4 tokens, got 1 at position 1");
}
