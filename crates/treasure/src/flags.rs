//! Fields of a request as the flags of a command line: the library's messages name fields, a terminal shows flags.

use crate::is_known;

/// A message that begins with a field of the request, with that field as its flag.
pub fn in_message(message: &str) -> String {
    const OTHERS: [&str; 4] = ["continuations", "ids", "match", "methods"];
    match message.split_once(": ") {
        Some(("reward" | "template" | "prompt" | "text", _)) => message.to_owned(),
        Some((name, rest)) if is_known(name) || OTHERS.contains(&name) => {
            format!("{}: {rest}", flag(name))
        }
        _ => message.to_owned(),
    }
}

/// A hint that names options of the request, with those as their flags.
pub fn in_hint(hint: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_matches(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        match bare.contains('_') && is_known(bare) {
            true => word.replace(bare, &flag(bare)),
            false => word.to_owned(),
        }
    };
    let hint = hint.split(' ').map(word).collect::<Vec<_>>().join(" ");
    match hint.strip_prefix("take ").and_then(|rest| rest.split_once(' ')) {
        Some((name, rest)) if is_known(name) => format!("take {} {rest}", flag(name)),
        _ => hint,
    }
}

fn flag(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_request_are_named_as_flags() {
        assert_eq!(in_message("beam_width: expected a number"), "--beam-width: expected a number");
        assert_eq!(in_message("reward sentiment: failed"), "reward sentiment: failed");
        assert_eq!(in_hint("raise max_nfe or lower it"), "raise --max-nfe or lower it");
        assert_eq!(in_hint("take seed out"), "take --seed out");
    }
}
