//! With ample length, the legal tokens after a prefix are those that llguidance allows.

use std::sync::Arc;

use llguidance::{
    ParserFactory,
    api::TopLevelGrammar,
    toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie},
};
use treasure_core::TokenId;
use treasure_text::automata::{Span, TokenSet, Vocabulary};

use crate::oracle::{Random, regex, tables};

/// Single bytes, and longer tokens over the characters that random expressions use.
fn words(random: &mut Random) -> Vec<Vec<u8>> {
    // 0xFF marks special tokens there, and no UTF-8 text holds it.
    let mut words: Vec<Vec<u8>> = (0..=0xF4u8).map(|byte| vec![byte]).collect();
    let parts: [&[u8]; 12] = [
        b"a",
        b"b",
        b"c",
        b"B",
        "é".as_bytes(),
        "€".as_bytes(),
        b"\xC3",
        b"\xA9",
        b"\xE2",
        b"\x82\xAC",
        b" ",
        b"x",
    ];
    while words.len() < 400 {
        let word: Vec<u8> =
            (0..2 + random.below(3)).flat_map(|_| random.pick(&parts).to_vec()).collect();
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// How many prefixes agreed.
fn compare(seed: u64, prefixes: usize) -> usize {
    let mut random = Random::new(seed);
    let mut words = words(&mut random);
    let end = words.len() as TokenId;
    let tokens = words.iter().cloned().map(Some).chain([None]);
    let vocabulary = Arc::new(Vocabulary::new(tokens, &[end]).unwrap());
    words.push(b"\xFF<end>".to_vec());
    let info = TokRxInfo::new(words.len() as u32, end);
    let env: TokEnv = Arc::new(ApproximateTokEnv::new(TokTrie::from(&info, &words)));
    let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &[]).unwrap();
    factory.quiet();
    let mut agreed = 0;
    while agreed < prefixes {
        let pattern = regex(&mut random, 4);
        let Some(tables) = tables(&pattern, &vocabulary) else { continue };
        let grammar = TopLevelGrammar::from_regex(&pattern);
        let mut parser = factory.create_parser(grammar).unwrap();
        parser.start_without_prompt();
        let len = tables.lengths().shortest + tables.states() + 12;
        let mut lattice = Span::new(tables, len).lattice(&vec![None; len]).unwrap();
        let mut legal = TokenSet::default();
        for position in 0..10 {
            lattice.legal(position, &mut legal);
            let theirs = parser.compute_mask().unwrap();
            for token in 0..=end {
                assert_eq!(
                    legal.contains(token),
                    theirs.is_allowed(token),
                    "{pattern}: token {:?} after {:?}",
                    String::from_utf8_lossy(vocabulary.bytes(token)),
                    &lattice.fill()[..position]
                );
            }
            agreed += 1;
            let tokens: Vec<TokenId> = legal.iter().filter(|&token| token != end).collect();
            if tokens.is_empty() {
                break;
            }
            let token = *random.pick(&tokens);
            lattice.reveal(position, token).unwrap();
            parser.consume_token(token).unwrap();
        }
    }
    println!("{agreed} prefixes x {} tokens: legal ones are llguidance's", end + 1);
    agreed
}

#[test]
fn legal_tokens_after_a_prefix_are_those_of_llguidance() {
    assert!(compare(31, 10_000) >= 10_000);
}
