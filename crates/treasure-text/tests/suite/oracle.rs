//! Random patterns, vocabularies and fills, and what is true of them by enumeration.

use std::sync::Arc;

use regex::bytes::Regex;
use treasure_core::{Key, TokenId};
use treasure_text::automata::{Limits, Pattern, Tables, Vocabulary};

/// Random numbers in a row.
pub struct Random {
    key: Key,
    drawn: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { key: Key::new(seed), drawn: 0 }
    }

    pub fn next(&mut self) -> Key {
        self.drawn += 1;
        self.key.fold(self.drawn)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.next().below(n)
    }

    pub fn chance(&mut self, p: f64) -> bool {
        self.next().uniform() < p
    }

    pub fn uniform(&mut self) -> f64 {
        self.next().uniform()
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// A random regular expression over few characters, one of them of two and one of three bytes.
pub fn regex(random: &mut Random, depth: usize) -> String {
    let atoms = ["a", "b", "c", "é", "€", "[ab]", "[^a]", ".", "[a-cé]", "ab", "(?:)", "(?i:B)"];
    if depth == 0 || random.chance(0.25) {
        return (*random.pick(&atoms)).to_owned();
    }
    let inner = regex(random, depth - 1);
    match random.below(8) {
        0..=2 => inner + &regex(random, depth - 1),
        3 | 4 => format!("(?:{inner}|{})", regex(random, depth - 1)),
        5 => format!("(?:{inner})*"),
        6 => format!("(?:{inner})?"),
        _ => format!("(?:{inner}){{{},{}}}", random.below(2), 1 + random.below(3)),
    }
}

/// A random vocabulary: whole characters, parts of them, tokens that straddle both, doubles, silent ones.
pub fn vocabulary(random: &mut Random, size: usize) -> Arc<Vocabulary> {
    let texts: [&[u8]; 20] = [
        b"a",
        b"b",
        b"c",
        b"ab",
        b"ba",
        b"aa",
        b"bc",
        b"abc",
        "é".as_bytes(),
        "€".as_bytes(),
        b"\xC3",
        b"\xA9",
        b"\xE2",
        b"\x82\xAC",
        b"a\xC3",
        b"\xA9b",
        b"\xE2\x82",
        b"\xAC",
        b"B",
        b"a",
    ];
    let eos: Vec<TokenId> = match random.below(5) {
        0 => vec![],
        1 => vec![0, size as TokenId - 1],
        _ => vec![random.below(size) as TokenId],
    };
    let tokens: Vec<_> = (0..size)
        .map(|_| match random.below(12) {
            0 => None,
            1 => Some(Vec::new()),
            _ => Some(random.pick(&texts).to_vec()),
        })
        .collect();
    Arc::new(Vocabulary::new(tokens, &eos).unwrap())
}

/// The tables of a regular expression, or `None` if nothing matches or can be spelled.
pub fn tables(regex: &str, vocabulary: &Arc<Vocabulary>) -> Option<Arc<Tables>> {
    let limits = Limits::default();
    let dfa = Pattern::regex(regex).dfa(&limits).ok()?;
    Tables::build(&dfa, vocabulary, &limits).ok().map(Arc::new)
}

/// A matcher of whole texts.
pub fn matcher(regex: &str) -> Regex {
    Regex::new(&format!(r"\A(?:{regex})\z")).unwrap()
}

/// Whether a complete sequence obeys the rules, said once more: text, then only ends, the text matches.
pub fn obeys(matcher: &Regex, vocabulary: &Vocabulary, min_len: usize, tokens: &[TokenId]) -> bool {
    let text = tokens.iter().take_while(|&&t| !vocabulary.is_eos(t)).count();
    let fits = text == tokens.len() || text >= min_len;
    fits && tokens[text..].iter().all(|&t| vocabulary.is_eos(t))
        && tokens[..text].iter().all(|&t| !vocabulary.bytes(t).is_empty())
        && matcher.is_match(&vocabulary.text(tokens))
}

/// All sequences of `len` tokens that agree with a fill and obey.
pub fn completions(
    matcher: &Regex,
    vocabulary: &Vocabulary,
    min_len: usize,
    fill: &[Option<TokenId>],
) -> Vec<Vec<TokenId>> {
    let mut found = Vec::new();
    let mut tokens: Vec<TokenId> = fill.iter().map(|slot| slot.unwrap_or(0)).collect();
    loop {
        if obeys(matcher, vocabulary, min_len, &tokens) {
            found.push(tokens.clone());
        }
        let open = (0..fill.len())
            .rev()
            .filter(|&p| fill[p].is_none())
            .find(|&p| (tokens[p] as usize) + 1 < vocabulary.size());
        let Some(open) = open else { return found };
        tokens[open] += 1;
        for p in (open + 1..fill.len()).filter(|&p| fill[p].is_none()) {
            tokens[p] = 0;
        }
    }
}
