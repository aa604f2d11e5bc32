//! With how many tokens a text can be spelt.

use super::Vocabulary;

impl Vocabulary {
    /// Whether a text is the bytes of 0, 1, 2, … tokens, up to as many as it has bytes.
    pub fn spellings(&self, text: &[u8]) -> Vec<bool> {
        let words = text.len() / 64 + 1;
        // By place, the numbers of tokens that lead there.
        let mut counts = vec![vec![0u64; words]; text.len() + 1];
        counts[0][0] = 1;
        for at in 0..text.len() {
            if counts[at].iter().all(|&word| word == 0) {
                continue;
            }
            let (before, after) = counts.split_at_mut(at + 1);
            self.each_token(&text[at..], |bytes| {
                let mut carry = 0;
                for (to, &from) in after[bytes - 1].iter_mut().zip(&before[at]) {
                    *to |= from << 1 | carry;
                    carry = from >> 63;
                }
            });
        }
        let last = &counts[text.len()];
        (0..=text.len()).map(|n| last[n / 64] >> (n % 64) & 1 == 1).collect()
    }

    /// Calls with the number of bytes of every token that a text begins with.
    fn each_token(&self, text: &[u8], mut token: impl FnMut(usize)) {
        let nodes = &self.trie().nodes;
        let (mut at, mut end) = (0, nodes.len());
        for (depth, &byte) in text.iter().enumerate() {
            while at < end && nodes[at].byte < byte {
                at = nodes[at].end as usize;
            }
            match nodes.get(at) {
                Some(node) if at < end && node.byte == byte => {
                    if node.first < node.last {
                        token(depth + 1);
                    }
                    (at, end) = (at + 1, node.end as usize);
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, Pattern, Span, Tables, Vocabulary};
    use std::sync::Arc;

    #[test]
    fn spellings_are_the_lengths_that_a_pattern_of_the_text_takes() {
        let words = ["", "a", "b", "ab", "ba", "aab", "abab"].map(|w| Some(w.as_bytes().to_vec()));
        let vocabulary = Arc::new(Vocabulary::new(words, &[]).unwrap());
        for text in ["a", "ab", "aab", "ababab", "bbaabb", "ca", "abc", "aababaabab"] {
            let limits = Limits::default();
            let dfa = Pattern::choices([text]).dfa(&limits).unwrap();
            let tables = Tables::build(&dfa, &vocabulary, &limits).map(Arc::new);
            for (n, spelt) in vocabulary.spellings(text.as_bytes()).into_iter().enumerate() {
                let fits = |tables: &Arc<Tables>| Span::exactly(tables.clone(), n).check().is_ok();
                assert_eq!(spelt, tables.as_ref().is_ok_and(fits), "{text} with {n}");
            }
        }
        assert_eq!(vocabulary.spellings(b""), [true]);
    }
}
