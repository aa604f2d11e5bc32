//! Dist-n: how many different n-grams a set of texts has, by two definitions.
//!
//! The paper says "unique over total n-grams"; the script it uses divides by the number of words
//! (protocol 1.8), so that Dist-3 of short texts cannot reach 1. Both are here; both pool the
//! continuations of one prompt.

use std::collections::HashSet;

/// Dist-n as the reference script computes it: words split at single blanks (so that a leading blank
/// gives an empty word), different n-grams over the number of words.
pub fn reference(texts: &[&str], n: usize) -> Option<f64> {
    let mut different = HashSet::new();
    let mut words = 0;
    for text in texts {
        let split: Vec<&str> = text.split(' ').collect();
        words += split.len();
        different.extend(split.windows(n.max(1)).map(|gram| gram.join("_")));
    }
    (words > 0).then(|| different.len() as f64 / words as f64)
}

/// Dist-n as usually defined: words split at white space, different n-grams over all n-grams.
pub fn usual(texts: &[&str], n: usize) -> Option<f64> {
    let mut different = HashSet::new();
    let mut total = 0;
    for text in texts {
        let split: Vec<&str> = text.split_whitespace().collect();
        for gram in split.windows(n.max(1)) {
            total += 1;
            different.insert(gram.to_vec());
        }
    }
    (total > 0).then(|| different.len() as f64 / total as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_definitions_agree_with_counting_by_hand() {
        let texts = ["a b a", "b a"];
        // Words a b a b a; bigrams ab ba | ba.
        assert_eq!(usual(&texts, 1), Some(2.0 / 5.0));
        assert_eq!(usual(&texts, 2), Some(2.0 / 3.0));
        assert_eq!(reference(&texts, 1), Some(2.0 / 5.0));
        assert_eq!(reference(&texts, 2), Some(2.0 / 5.0));
        assert_eq!(reference(&texts, 3), Some(1.0 / 5.0));
    }

    #[test]
    fn a_leading_blank_is_an_empty_word_to_the_reference_only() {
        assert_eq!(reference(&[" a b"], 1), Some(3.0 / 3.0));
        assert_eq!(reference(&[" a b"], 3), Some(1.0 / 3.0));
        assert_eq!(usual(&[" a b"], 3), None);
    }

    #[test]
    fn the_reference_never_reaches_one_for_trigrams() {
        assert_eq!(reference(&["one two three four"], 3), Some(2.0 / 4.0));
        assert_eq!(usual(&["one two three four"], 3), Some(1.0));
    }
}
