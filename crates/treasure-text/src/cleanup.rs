//! The clean-up of spaces that the reference protocol's decoder applied by default.
//!
//! Source: the list in section 1.5 of the protocol notes, applied one after the other in that order as
//! transformers 4.38 did; the result is what the reference rewards saw.

/// A space before each of these is dropped; `" ' "` loses both of its spaces.
const REPLACEMENTS: [(&str, &str); 10] = [
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
];

/// A text without the spaces that tokenisers put before punctuation and contractions.
pub fn clean_up_spaces(text: &str) -> String {
    REPLACEMENTS.iter().fold(text.to_string(), |text, (from, to)| text.replace(from, to))
}
