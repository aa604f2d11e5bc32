//! The rewards by name: short names and schemes, with what each scheme expects behind its colon.

use super::{
    Judge, Leaf, Protocol, Remote, Rule, ValueKind,
    cursor::{Cursor, Piece, Style, next_url},
    names,
};
use crate::{
    Error, Result,
    rules::{self, Scheme},
};

/// What the sentiment judge can be asked for.
const LABELS: [&str; 3] = ["positive", "neutral", "negative"];

/// How rewards are added.
pub(super) const PLUS: &str = "`+` adds rewards only with a space on both sides: cola + perplexity";

/// Whether a character can be part of a short name, a scheme or a function.
pub(super) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '.')
}

pub(super) fn short_name(
    cursor: &mut Cursor<'_>,
    start: usize,
    name: &str,
    value: ValueKind,
) -> Result<Leaf> {
    if name == "sentiment" {
        let at = cursor.at;
        let label = if cursor.eat('=') {
            cursor.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        } else {
            ""
        };
        let written = format!("sentiment={label}");
        return match Judge::ALL.iter().find(|(short, _)| *short == written) {
            Some(&(_, judge)) => Ok(Leaf::Judge(judge, value)),
            None => {
                let at = at + usize::from(cursor.text[at..].starts_with('='));
                let message =
                    format!("sentiment: expected =positive, =neutral or =negative, got {label:?}");
                Err(cursor.fault(at, message).with_hint(match names::nearest(label, LABELS) {
                    Some(label) => format!("did you mean `sentiment={label}`?"),
                    None => {
                        "write sentiment=positive, sentiment=neutral or sentiment=negative".into()
                    }
                }))
            }
        };
    }
    if name == "perplexity" {
        if value != ValueKind::LogProb {
            return not_a_classifier(cursor, start, name);
        }
        return Ok(Leaf::Perplexity);
    }
    if let Some(&(_, judge)) = Judge::ALL.iter().find(|(short, _)| *short == name) {
        return Ok(Leaf::Judge(judge, value));
    }
    let got = if name.is_empty() { cursor.found() } else { format!("{name:?}") };
    if let Some(plus) = name.find('+') {
        return Err(cursor
            .fault(start + plus, format!("expected a reward, got {got}"))
            .with_hint(PLUS));
    }
    let fault = cursor.fault(start, format!("expected a reward, got {got}"));
    Err(fault.with_hint(names::unknown(name)))
}

fn not_a_classifier<T>(cursor: &Cursor<'_>, at: usize, name: &str) -> Result<T> {
    let message = format!("prob:, accuracy: and raw: expect a classifier, got {name}");
    let hint = "leave it out, or name a classifier: hf:DIR#LABEL or a judge such as cola";
    Err(cursor.fault(at, message).with_hint(hint))
}

pub(super) fn scheme(cursor: &mut Cursor<'_>, start: usize, name: &str) -> Result<Leaf> {
    let value = match name {
        "prob" => ValueKind::Prob,
        "accuracy" => ValueKind::Accuracy,
        "raw" => ValueKind::Raw,
        _ => return leaf(cursor, start, name, ValueKind::LogProb),
    };
    let start = cursor.at;
    let name = cursor.take_while(is_name);
    if cursor.eat(':') {
        leaf(cursor, start, name, value)
    } else {
        short_name(cursor, start, name, value)
    }
}

fn leaf(cursor: &mut Cursor<'_>, start: usize, name: &str, value: ValueKind) -> Result<Leaf> {
    let leaf = match name {
        "hf" => {
            let (piece, label) = labelled(cursor, "hf: expected a directory or a hub id")?;
            Leaf::Classifier { model: piece.text, label: label.map(|label| label.text), value }
        }
        "ppl" => {
            Leaf::Scorer { model: whole(cursor, "ppl: expected a directory or a hub id")?.text }
        }
        "nelbo" => {
            Leaf::Nelbo { model: whole(cursor, "nelbo: expected a directory or a hub id")?.text }
        }
        "own" => Leaf::Own(whole(cursor, "own: expected the name of a reward")?.text),
        "exec" => {
            let command = whole(cursor, "exec: expected a command")?;
            if cfg!(not(feature = "exec")) {
                return missing(cursor, start, "exec:", "exec");
            }
            Leaf::Exec(command.text)
        }
        _ => match (rules::ALL.iter().find(|rule| rule.name == name), name.split_once('+')) {
            (Some(scheme), _) => rule(cursor, start, scheme)?,
            (None, Some((word, secure @ ("http" | "https")))) => {
                Leaf::Remote(server(cursor, start, word, secure, value)?)
            }
            _ => return Err(no_scheme(cursor, start, name)),
        },
    };
    let classifies = match &leaf {
        Leaf::Classifier { .. } => true,
        Leaf::Remote(remote) => remote.classifies(),
        _ => false,
    };
    if value != ValueKind::LogProb && !classifies {
        return not_a_classifier(cursor, start, &format!("{name}:"));
    }
    Ok(leaf)
}

/// What to say of `name:` if there is no such scheme.
fn no_scheme(cursor: &Cursor<'_>, start: usize, name: &str) -> Error {
    let colon = start + name.len();
    if name == "sentiment" {
        let behind = cursor.rest();
        let word = &behind[..behind.find(|c| !is_name(c)).unwrap_or(behind.len())];
        let label = names::nearest(word, LABELS).unwrap_or(LABELS[0]);
        return cursor
            .fault(colon, "sentiment: expected `=` before its label, got `:`")
            .with_hint(format!("write sentiment={label}"));
    }
    if names::short_names().contains(&name) {
        return cursor
            .fault(colon, format!("{name}: expected nothing behind a short name, got `:`"))
            .with_hint(format!("write {name}"));
    }
    cursor.fault(start, format!("expected a scheme, got {name:?}")).with_hint(names::unknown(name))
}

/// A reward that this build leaves out.
fn missing<T>(cursor: &Cursor<'_>, at: usize, what: &str, feature: &str) -> Result<T> {
    let message = format!("{what} is not in this build, which lacks the cargo feature `{feature}`");
    let hint = format!("take a build with the cargo feature `{feature}`");
    Err(cursor.fault(at, message).with_hint(hint))
}

fn server(
    cursor: &mut Cursor<'_>,
    start: usize,
    word: &str,
    secure: &str,
    value: ValueKind,
) -> Result<Remote> {
    let Some(&(_, protocol)) = Protocol::ALL.iter().find(|(known, _)| *known == word) else {
        let known = Protocol::ALL.map(|(word, _)| word);
        let message =
            format!("expected one of {} before +{secure}, got {word:?}", known.join(", "));
        return Err(cursor.fault(start, message).with_hint(match names::nearest(word, known) {
            Some(known) => format!("did you mean `{known}+{secure}`?"),
            None => format!("a server of one's own is reward+{secure}://HOST:PORT"),
        }));
    };
    let (piece, label) = labelled(cursor, "expected //HOST:PORT")?;
    let urls = addresses(cursor, secure, &piece)?;
    if cfg!(not(feature = "remote")) {
        return missing(cursor, start, "a server", "remote");
    }
    Ok(Remote { protocol, urls, label: label.map(|label| label.text), value })
}

fn rule(cursor: &mut Cursor<'_>, start: usize, scheme: &'static Scheme) -> Result<Leaf> {
    let name = scheme.name;
    let wanted = format!("{name}: expected {}", scheme.wants);
    let pieces = match scheme.style {
        Style::Whole => vec![whole(cursor, &wanted)?],
        Style::List => list(cursor, &wanted)?,
        Style::Labelled => {
            let (first, label) = labelled(cursor, &wanted)?;
            std::iter::once(first).chain(label).collect()
        }
    };
    if let Some(feature) = scheme.missing {
        return missing(cursor, start, &format!("{name}:"), feature);
    }
    let arguments = pieces.iter().map(|piece| piece.text.clone()).collect();
    Rule::checked(scheme, arguments).map(Leaf::Rule).map_err(|fault| {
        let at = pieces.get(fault.argument).map_or(cursor.at, |piece| piece.place(fault.at));
        let error = cursor.fault(at, format!("{name}: {}", fault.message));
        fault.hint.into_iter().fold(error, Error::with_hint)
    })
}

fn whole(cursor: &mut Cursor<'_>, wanted: &str) -> Result<Piece> {
    let mut pieces = cursor.pieces(Style::Whole)?;
    nonempty(cursor, pieces.pop(), wanted)
}

fn nonempty(cursor: &Cursor<'_>, piece: Option<Piece>, wanted: &str) -> Result<Piece> {
    match piece {
        Some(piece) if !piece.text.is_empty() => Ok(piece),
        other => {
            let at = other.map_or(cursor.at, |piece| piece.at);
            Err(cursor.fault(at, format!("{wanted}, got nothing")))
        }
    }
}

fn list(cursor: &mut Cursor<'_>, wanted: &str) -> Result<Vec<Piece>> {
    let pieces = cursor.pieces(Style::List)?;
    pieces.into_iter().map(|piece| nonempty(cursor, Some(piece), wanted)).collect()
}

fn labelled(cursor: &mut Cursor<'_>, wanted: &str) -> Result<(Piece, Option<Piece>)> {
    let mut pieces = cursor.pieces(Style::Labelled)?.into_iter();
    let first = nonempty(cursor, pieces.next(), wanted)?;
    let label = match pieces.next() {
        Some(piece) => Some(nonempty(cursor, Some(piece), "expected a label after #")?),
        None => None,
    };
    Ok((first, label))
}

/// The addresses of a server list: `//a:1,http://b:2`, each perhaps with the protocol's word again.
fn addresses(cursor: &Cursor<'_>, scheme: &str, piece: &Piece) -> Result<Vec<String>> {
    let mut urls = Vec::new();
    let mut at = piece.at;
    let mut rest = piece.text.as_str();
    loop {
        let end = rest
            .char_indices()
            .find(|&(place, c)| c == ',' && next_url(&rest[place..]))
            .map_or(rest.len(), |(place, _)| place);
        let raw = rest[..end].trim();
        let url = if urls.is_empty() {
            format!("{scheme}:{raw}")
        } else {
            raw[raw.find("http").unwrap_or(0)..].to_string()
        };
        let host = url.split_once("://").map_or("", |(_, host)| host);
        if host.is_empty() || host.starts_with(['/', ':', '?']) || url.contains(char::is_whitespace)
        {
            let message = format!("expected an address such as //localhost:8080, got {raw:?}");
            let hint = "write HOST:PORT behind the //, and commas between several servers";
            return Err(cursor.fault(at, message).with_hint(hint));
        }
        urls.push(url.trim_end_matches('/').to_string());
        if end == rest.len() {
            return Ok(urls);
        }
        at += end + 1;
        rest = &rest[end + 1..];
    }
}
