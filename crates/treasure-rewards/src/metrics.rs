//! Diversity of texts: the share of distinct n-grams.
//!
//! Two definitions, because the paper describes one and its evaluation script computes the other.

use std::collections::HashSet;

/// Dist-n in its usual definition: distinct n-grams of words over all n-grams, pooled over the texts.
/// `None` if no text has an n-gram.
pub fn dist(texts: &[&str], size: usize) -> Option<f64> {
    let mut total = 0usize;
    let mut distinct = HashSet::new();
    for text in texts {
        let words: Vec<&str> = text.split_whitespace().collect();
        for gram in words.windows(size.max(1)) {
            total += 1;
            distinct.insert(gram.to_vec());
        }
    }
    (total > 0).then(|| distinct.len() as f64 / total as f64)
}

/// Dist-n as the reference evaluation script has it: words are split at single spaces (so a leading
/// space makes an empty word), n-grams are joined by `_`, and the number of distinct ones is divided
/// by the number of *words*, whatever n is. `None` without a text.
pub fn dist_reference(texts: &[&str], size: usize) -> Option<f64> {
    let mut words_total = 0usize;
    let mut distinct = HashSet::new();
    for text in texts {
        let words: Vec<&str> = text.split(' ').collect();
        words_total += words.len();
        distinct.extend(words.windows(size.max(1)).map(|gram| gram.join("_")));
    }
    (words_total > 0).then(|| distinct.len() as f64 / words_total as f64)
}
