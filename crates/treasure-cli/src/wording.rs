//! Fields of a request as flags: the library's messages name fields, a terminal shows flags.

use treasure::{FIELDS, OPTIONS, Sample, Template, is_known, words::UNMET};

/// A message that begins with a field of the request, with that field as its flag.
pub fn in_message(message: &str) -> String {
    match message.split_once(": ") {
        Some(("reward" | "template" | "prompt" | "text", _)) => message.to_owned(),
        Some((name, rest)) if is_known(&name.replace(' ', "_")) || OTHERS.contains(&name) => {
            format!("{}: {rest}", flag(name))
        }
        _ => message.to_owned(),
    }
}

/// A hint that names options of the request, with those as their flags.
pub fn in_hint(hint: &str) -> String {
    if hint.contains("docs/experiments.md") {
        return hint.to_owned(); // keys of a config are no flags
    }
    let word = |word: &str| {
        let bare = word.trim_matches(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        match bare.contains('_') && is_known(bare) {
            true => word.replace(bare, &flag(bare)),
            false => word.to_owned(),
        }
    };
    let hint = hint.split(' ').map(word).collect::<Vec<_>>().join(" ");
    let hint = SAID.iter().fold(hint, |hint, (said, flag)| hint.replace(said, flag));
    match hint.strip_prefix("take ").and_then(|rest| rest.split_once(' ')) {
        Some((name, rest)) if is_known(name) => format!("take {} {rest}", flag(name)),
        _ => hint,
    }
}

/// What hints say to do, and what it takes.
const SAID: [(&str, &str); 5] = [
    ("write one as the trace of a search", "write one with generate --trace FILE.jsonl"),
    ("resume the run", "run the same command with --resume"),
    ("resume it, name another file", "go on with --out and --resume, name another file"),
    ("name a file of keys", "name a file of keys (--api-key-file)"),
    ("say that it is open to all", "say that it is open to all (--open)"),
];

/// What can be done about a text that does not meet the rule that is its reward.
pub fn unmet(sample: &Sample) -> Option<String> {
    let near = sample.notes.iter().find_map(|note| note.strip_prefix(UNMET))?;
    let wider = match sample.before {
        None => {
            "--tree-width 8, another --length or --min-length, or --matches/--choices where it must hold"
        }
        Some(_) => "more --rounds or a larger --share",
    };
    Some(format!("this text does not meet the rule ({near}); try {wider}"))
}

/// What looks like a slip among the prompts of a command line.
pub fn slips(prompts: &[String]) -> Vec<String> {
    let holes = prompts.iter().filter(|prompt| Template::has_hole(prompt));
    let mut slips: Vec<String> = holes
        .map(|prompt| {
            format!("the hole in {prompt:?} is taken as text; fill holes with --template")
        })
        .collect();
    if prompts.len() > 1 && prompts.iter().all(|prompt| !prompt.contains(' ')) {
        let count = prompts.len();
        slips.push(format!(
            "{count} prompts of one word each; put one prompt of several words in quotes"
        ));
    }
    slips
}

/// Flags of commands that are no fields of a request.
const OTHERS: [&str; 4] = ["continuations", "ids", "match", "methods"];

fn flag(name: &str) -> String {
    let name = name.replace(' ', "_");
    let own = FIELDS.iter().chain(OPTIONS).any(|field| field.name == name);
    match &*name {
        "share_from" | "share_to" => "--share".into(),
        name if own || OTHERS.contains(&name) => format!("--{}", name.replace('_', "-")),
        name => format!("--set {name}"),
    }
}
