//! Several holes with text between them, each with a pattern of its own.

use std::sync::Arc;

use treasure_core::{MaskedSeq, TokenId};
use treasure_text::automata::{Cache, Limits, Pattern, Patterns, Span, TokenSet, Vocabulary};

use crate::oracle::{Random, regex, vocabulary};

fn words(words: &[&str], eos: &[TokenId]) -> Arc<Vocabulary> {
    let tokens = words.iter().map(|word| Some(word.as_bytes().to_vec()));
    Arc::new(Vocabulary::new(tokens, eos).unwrap())
}

#[test]
fn each_hole_obeys_its_own_pattern_and_free_masks_take_any_text() {
    let vocabulary = words(&["", "re", "d", "green", "1", "2", " is ", "x"], &[0]);
    let cache = Cache::new(vocabulary.clone(), Limits::default());
    let colour = cache.tables(&Pattern::choices(["red", "green"])).unwrap();
    let number = cache.tables(&Pattern::regex("[0-9]{2}")).unwrap();
    // [colour: 2] " is " [free] [number: up to 3]
    let constraint = Patterns::new(vocabulary, 7)
        .with(4, Span::new(number, 3))
        .unwrap()
        .with(0, Span::exactly(colour, 2))
        .unwrap();
    let ranges: Vec<_> = constraint.parts().map(|(range, _)| range).collect();
    assert_eq!(ranges, [0..2, 4..7]);
    let slots = [None, None, Some(6), None, None, None, None];
    let filled = constraint.fill(&MaskedSeq::from_slots(slots)).unwrap();
    let mut legal = TokenSet::default();
    let mut at = |position: usize| {
        filled.legal(position, &mut legal);
        legal.iter().collect::<Vec<_>>()
    };
    let sets: Vec<Vec<TokenId>> = (0..7).map(&mut at).collect();
    let free = vec![1, 2, 3, 4, 5, 6, 7];
    assert_eq!(
        sets,
        [vec![1], vec![2], vec![6], free, vec![4, 5], vec![4, 5], vec![0]],
        "\"green\" alone would leave a position over"
    );
    let rows: Vec<Vec<f32>> =
        (0..7).map(|p| (0..8).map(|v| -((v * 7 + p * 3) % 5) as f32).collect()).collect();
    let row = |position: usize| rows[position].as_slice();
    let likeliest = filled.likeliest(&row).unwrap();
    let best = likeliest.completion();
    let score: f64 = [0, 1, 3, 4, 5, 6].iter().map(|&p| f64::from(rows[p][best[p] as usize])).sum();
    assert_eq!(likeliest.score(), score);
    let child = likeliest.child(5, 5).unwrap();
    assert_eq!((child[5], &child[..4]), (5, &best[..4]));
    assert!(likeliest.child(5, 7).is_none() && likeliest.child(3, 0).is_none());
    assert_eq!(likeliest.child(3, 7).unwrap()[3], 7);
}

#[test]
fn a_dropped_space_is_not_seen_by_the_pattern() {
    let vocabulary = words(&["a", " a", " ", "b"], &[]);
    let cache = Cache::new(vocabulary.clone(), Limits::default());
    let tables = cache.tables(&Pattern::regex("ab").dropping_first_space()).unwrap();
    let legal = |len: usize| {
        let lattice = Span::exactly(tables.clone(), len).lattice(&vec![None; len]).unwrap();
        let mut legal = TokenSet::default();
        lattice.legal(0, &mut legal);
        legal.iter().collect::<Vec<_>>()
    };
    assert_eq!(legal(2), [0, 1]);
    assert_eq!(legal(3), [2]);
}

#[test]
fn dropping_a_space_is_what_rendering_does_to_random_patterns() {
    let mut random = Random::new(41);
    let limits = Limits::default();
    let mut texts = 0;
    for _ in 0..2000 {
        let pattern = regex(&mut random, 3).replace('c', " ");
        let Ok(plain) = Pattern::regex(&pattern).dfa(&limits) else { continue };
        let dropping = Pattern::regex(&pattern).dropping_first_space().dfa(&limits).unwrap();
        for _ in 0..20 {
            let length = random.below(5);
            let text: String = (0..length).map(|_| *random.pick(&[" ", "a", "b", "é"])).collect();
            let rendered = text.strip_prefix(' ').unwrap_or(&text);
            let expected = plain.accepts(rendered.as_bytes());
            assert_eq!(dropping.accepts(text.as_bytes()), expected, "{pattern}: {text:?}");
            texts += usize::from(expected);
        }
    }
    assert!(texts > 5000, "{texts}");
}

#[test]
fn parts_that_do_not_fit_are_errors() {
    let vocabulary = words(&["a", "b"], &[]);
    let cache = Cache::new(vocabulary.clone(), Limits::default());
    let tables = cache.tables(&Pattern::regex("ab*")).unwrap();
    let constraint =
        Patterns::new(vocabulary, 6).with(1, Span::exactly(tables.clone(), 3)).unwrap();
    let say = |start: usize, len: usize| {
        let span = Span::exactly(tables.clone(), len);
        constraint.clone().with(start, span).unwrap_err().to_string()
    };
    assert_eq!(say(4, 3), "positions of a pattern: expected within 6 positions, got 4..7");
    assert_eq!(
        say(3, 2),
        "positions of a pattern: expected none of 1..4, which has a pattern, got 3..5"
    );
    assert_eq!(say(4, 0), "length: expected at least 1 tokens for a text that matches, got 0");
    let other = Arc::new(words(&["a"], &[]));
    let foreign = Cache::new((*other).clone(), Limits::default());
    let span = Span::exactly(foreign.tables(&Pattern::regex("a")).unwrap(), 1);
    assert!(constraint.clone().with(5, span).unwrap_err().to_string().contains("vocabulary"));
    let stuck = MaskedSeq::from_slots([None, Some(1), None, None, None, None]);
    assert_eq!(
        constraint.fill(&stuck).unwrap_err().to_string(),
        "fill: expected tokens from which a matching text can be completed, got token 1 at position 0"
    );
    let mut filled = constraint.fill(&MaskedSeq::empty(6)).unwrap();
    assert!(filled.reveal(1, 1).is_err() && filled.reveal(9, 0).is_err());
    filled.reveal(1, 0).unwrap();
    assert!(filled.reveal(1, 0).is_err());
    filled.reveal(0, 1).unwrap();
    assert_eq!(filled.slots()[..2], [Some(1), Some(0)]);
}

#[test]
fn a_cache_builds_a_table_once() {
    let mut random = Random::new(42);
    let cache = Cache::new(vocabulary(&mut random, 30), Limits::default());
    let pattern = Pattern::regex("[ab]*");
    let first = cache.tables(&pattern).unwrap();
    assert!(Arc::ptr_eq(&first, &cache.tables(&pattern).unwrap()));
    assert!(!Arc::ptr_eq(&first, &cache.tables(&pattern.dropping_first_space()).unwrap()));
}

#[test]
fn patterns_that_cannot_be_read_say_why() {
    let say = |pattern: Pattern| pattern.dfa(&Limits::default()).unwrap_err().to_string();
    assert_eq!(
        say(Pattern::regex("a(b")),
        "regex: expected a regular expression, got `a(b`: unclosed group"
    );
    assert!(say(Pattern::regex(r"(?-u:\xFF)")).contains("UTF-8"));
    assert!(say(Pattern::regex(r"\bword")).contains(r"(?-u:\b)"));
    assert!(say(Pattern::regex(r"(a)\1")).contains("backreferences"));
    assert!(say(Pattern::regex(r"a)|(b")).contains("unopened group"));
    assert_eq!(
        say(Pattern::regex(r"a[^\s\S]")),
        "regex `a[^\\s\\S]`: expected a pattern that some text matches, got one that none does"
    );
    assert_eq!(
        say(Pattern::choices::<&str>([])),
        "choices: expected a pattern that some text matches, got one that none does: the list is empty"
    );
    // Flags and comments do not leak out of the expression.
    let dfa = Pattern::regex("(?x) a b # c").dfa(&Limits::default()).unwrap();
    assert!(dfa.accepts(b"ab") && !dfa.accepts(b"abc"));
    // Anchors inside are those of the whole text.
    let dfa = Pattern::regex(r"^a$|^(?-u:\b)b+c?").dfa(&Limits::default()).unwrap();
    assert!(dfa.accepts(b"a") && dfa.accepts(b"bbc") && !dfa.accepts(b"ab"));
}
