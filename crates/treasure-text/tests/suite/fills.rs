//! Random fill orders: never a dead end, and every finished text matches.

use std::sync::Arc;

use regex::bytes::Regex;
use treasure_core::TokenId;
use treasure_text::automata::{Span, TokenSet, Vocabulary};

use crate::oracle::{Random, matcher, obeys, regex, tables, vocabulary};

/// Fills a span in random order with random legal tokens, step by step.
fn fill_once(
    random: &mut Random,
    span: &Span,
    matcher: &Regex,
    vocabulary: &Vocabulary,
    name: &str,
) {
    let mut lattice = span.lattice(&vec![None; span.len()]).unwrap();
    let mut left: Vec<usize> = (0..span.len()).collect();
    let mut legal = TokenSet::default();
    while !left.is_empty() {
        let position = left.swap_remove(random.below(left.len()));
        lattice.legal(position, &mut legal);
        let tokens: Vec<TokenId> = legal.iter().collect();
        assert!(!tokens.is_empty(), "{name}: dead end at {position} of {:?}", lattice.fill());
        lattice.reveal(position, *random.pick(&tokens)).unwrap();
        if random.chance(0.02) {
            // What was updated is what a fresh start gives.
            let fresh = span.lattice(lattice.fill()).unwrap();
            let mut other = TokenSet::default();
            for p in 0..span.len() {
                lattice.legal(p, &mut legal);
                fresh.legal(p, &mut other);
                assert_eq!(legal, other, "{name}: {:?} at {p}", lattice.fill());
            }
        }
    }
    let tokens: Vec<TokenId> = lattice.fill().iter().map(|slot| slot.unwrap()).collect();
    assert!(
        obeys(matcher, vocabulary, span.shortest_allowed(), &tokens),
        "{name}: {:?}",
        String::from_utf8_lossy(&vocabulary.text(&tokens))
    );
}

fn fill_many(seed: u64, orders: usize) {
    let mut random = Random::new(seed);
    let mut filled = 0;
    while filled < orders {
        let pattern = regex(&mut random, 4);
        let size = 4 + random.below(30);
        let vocabulary = vocabulary(&mut random, size);
        let Some(tables) = tables(&pattern, &vocabulary) else { continue };
        let len = 1 + random.below(12);
        let span = Span::new(Arc::clone(&tables), len).min_len(random.below(3));
        if span.check().is_err() {
            continue;
        }
        let matcher = matcher(&pattern);
        for _ in 0..40 {
            fill_once(&mut random, &span, &matcher, &vocabulary, &pattern);
        }
        filled += 40;
    }
    println!("{filled} random orders: no dead end, each text accepted by the regex crate");
}

#[test]
fn a_hundred_thousand_random_orders_meet_no_dead_end() {
    fill_many(5, 100_000);
}

/// `cargo test -p treasure-text --test suite -- --ignored --nocapture random_orders`
#[test]
#[ignore = "ten times as many: minutes"]
fn a_million_random_orders_meet_no_dead_end() {
    fill_many(6, 1_000_000);
}
