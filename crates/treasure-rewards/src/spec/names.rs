//! The names a specification may use, and the one that a misspelt name is nearest to.

use super::{Judge, Protocol};
use crate::rules;

/// Functions of rewards.
pub(super) const FUNCTIONS: [&str; 5] = ["min", "product", "atleast", "atmost", "step"];
/// What may stand before a classifier.
pub(super) const PREFIXES: [&str; 3] = ["prob", "accuracy", "raw"];
/// Names of rewards without a scheme.
pub(super) fn short_names() -> Vec<&'static str> {
    Judge::ALL.iter().map(|(name, _)| *name).chain(["perplexity"]).collect()
}

/// Schemes with their colons.
pub(super) fn schemes() -> Vec<String> {
    let rules = rules::ALL.iter().map(|scheme| scheme.name);
    let names = ["hf", "ppl", "nelbo"].into_iter().chain(rules).chain(["exec"]);
    let plain = names.map(|name| format!("{name}:"));
    let servers = Protocol::ALL.iter().map(|(word, _)| format!("{word}+http://"));
    plain.chain(servers).collect()
}

/// The hint for a name that is none: the nearest, then all.
pub(super) fn unknown(name: &str) -> String {
    let short = short_names();
    let schemes = schemes();
    let functions = FUNCTIONS.map(|name| format!("{name}("));
    let prefixes = PREFIXES.map(|name| format!("{name}:"));
    let known = short
        .iter()
        .copied()
        .chain(["sentiment"])
        .chain(schemes.iter().chain(&functions).chain(&prefixes).map(String::as_str));
    let (short, all) = (short.join(", "), schemes.join(", "));
    let meant = meant(name, known);
    format!("{meant}short names: {short}; schemes: {all}")
}

/// `did you mean …? ` if one of the known names is near, else nothing.
pub(crate) fn meant<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |known| format!("did you mean `{known}`? "))
}

/// The known name nearest to `name` in any case, the first of equals; none if more than a third of the letters
/// differ. What ends a name, as a colon does, is not compared.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let distance = |known: &str| {
        let bare = known.trim_end_matches(['(', ':']).to_lowercase();
        let letters = bare.chars().count().max(name.chars().count());
        Some(strsim::damerau_levenshtein(&name, &bare)).filter(|edits| edits * 3 <= letters)
    };
    let near = known.into_iter().filter_map(|known| Some((distance(known)?, known)));
    near.min_by_key(|(edits, _)| *edits).map(|(_, known)| known)
}
