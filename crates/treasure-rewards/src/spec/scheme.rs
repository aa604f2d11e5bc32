//! The rewards by name: short names and schemes, with what each scheme expects behind its colon.

use super::{
    Judge, Leaf, Protocol, Remote, SpecError, ValueKind,
    cursor::{Cursor, Piece, Style, next_url},
};
use crate::rules;

const SCHEMES: &str = "hf:, ppl:, nelbo:, regex:, contains:, avoids:, length:, json-schema:, distinct:, exec:, \
     tei+http://, vllm+http://, sglang+http://, completions+http://, reward+http://";
const SHORT_NAMES: &str = "sentiment=positive, sentiment=neutral, sentiment=negative, toxicity, no-toxicity, cola, \
     perplexity";

/// Whether a character can be part of a short name, a scheme or a function.
pub(super) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '.')
}

pub(super) fn short_name(
    cursor: &mut Cursor<'_>,
    start: usize,
    name: &str,
    value: ValueKind,
) -> Result<Leaf, SpecError> {
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
                cursor.error(
                    at,
                    format!("sentiment: expected =positive, =neutral or =negative, got {label:?}"),
                )
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
    let mut error = SpecError {
        spec: cursor.text.into(),
        at: start,
        message: if name.is_empty() {
            format!("expected a reward, got {}", cursor.found())
        } else {
            format!("expected a reward, got {name:?}")
        },
        hint: Some(format!("short names: {SHORT_NAMES}; schemes: {SCHEMES}")),
    };
    if name.contains('+') {
        error.at = start + name.find('+').unwrap_or(0);
        error.hint = Some("`+` combines rewards only with a space on both sides".into());
    }
    Err(error)
}

fn not_a_classifier<T>(cursor: &Cursor<'_>, at: usize, name: &str) -> Result<T, SpecError> {
    let message = format!("prob: and accuracy: expect a classifier, got {name}");
    cursor.error(at, message)
}

pub(super) fn scheme(cursor: &mut Cursor<'_>, start: usize, name: &str) -> Result<Leaf, SpecError> {
    let value = match name {
        "prob" => ValueKind::Prob,
        "accuracy" => ValueKind::Accuracy,
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

fn leaf(
    cursor: &mut Cursor<'_>,
    start: usize,
    name: &str,
    value: ValueKind,
) -> Result<Leaf, SpecError> {
    let leaf = match name {
        "hf" => {
            let (piece, label) = labelled(cursor, "hf: expected a directory or a hub id")?;
            Leaf::Classifier { model: piece.text, label, value }
        }
        "ppl" => {
            Leaf::Scorer { model: whole(cursor, "ppl: expected a directory or a hub id")?.text }
        }
        "nelbo" => {
            Leaf::Nelbo { model: whole(cursor, "nelbo: expected a directory or a hub id")?.text }
        }
        "regex" => {
            let piece = whole(cursor, "regex: expected a pattern")?;
            rules::check_pattern(&piece.text).or_else(|(offset, message)| {
                cursor.error(piece.at + offset, format!("regex: {message}"))
            })?;
            Leaf::Regex(piece.text)
        }
        "contains" => Leaf::Contains(list(cursor, "contains: expected words with commas between")?),
        "avoids" => Leaf::Avoids(list(cursor, "avoids: expected words with commas between")?),
        "length" => {
            let piece = whole(cursor, "length: expected a range of words such as 40..60")?;
            let (min, max) = length(cursor, &piece)?;
            Leaf::Length { min, max }
        }
        "json-schema" => {
            let (piece, label) = labelled(cursor, "json-schema: expected a file")?;
            let anywhere = match label.as_deref() {
                None => false,
                Some("anywhere") => true,
                Some(other) => {
                    let at = cursor.at - other.len().min(cursor.at);
                    return cursor.error(
                        at,
                        format!("json-schema: expected #anywhere or nothing, got {other:?}"),
                    );
                }
            };
            Leaf::JsonSchema { file: piece.text.into(), anywhere }
        }
        "distinct" => {
            let piece = whole(cursor, "distinct: expected the size of n-grams such as 2")?;
            match piece.text.parse() {
                Ok(size) if size >= 1 => Leaf::Distinct(size),
                _ => {
                    let message = format!(
                        "distinct: expected a whole number of at least 1, got {:?}",
                        piece.text
                    );
                    return cursor.error(piece.at, message);
                }
            }
        }
        "own" => Leaf::Own(whole(cursor, "own: expected the name of a reward")?.text),
        "exec" => Leaf::Exec(whole(cursor, "exec: expected a command")?.text),
        _ => match name.split_once('+') {
            Some((word, secure @ ("http" | "https"))) => {
                let Some(&(_, protocol)) = Protocol::ALL.iter().find(|(known, _)| *known == word)
                else {
                    let known: Vec<_> = Protocol::ALL.iter().map(|(word, _)| *word).collect();
                    let message = format!(
                        "expected one of {} before +{secure}, got {word:?}",
                        known.join(", ")
                    );
                    return cursor.error(start, message);
                };
                let (piece, label) = labelled(cursor, "expected //HOST:PORT")?;
                let urls = addresses(cursor, secure, &piece)?;
                Leaf::Remote(Remote { protocol, urls, label, value })
            }
            _ => {
                return Err(SpecError {
                    spec: cursor.text.into(),
                    at: start,
                    message: format!("expected a scheme, got {name:?}"),
                    hint: Some(format!("schemes: {SCHEMES}")),
                });
            }
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

fn whole(cursor: &mut Cursor<'_>, wanted: &str) -> Result<Piece, SpecError> {
    let mut pieces = cursor.pieces(Style::Whole)?;
    nonempty(cursor, pieces.pop(), wanted)
}

fn nonempty(cursor: &Cursor<'_>, piece: Option<Piece>, wanted: &str) -> Result<Piece, SpecError> {
    match piece {
        Some(piece) if !piece.text.is_empty() => Ok(piece),
        other => {
            let at = other.map_or(cursor.at, |piece| piece.at);
            cursor.error(at, format!("{wanted}, got nothing"))
        }
    }
}

fn list(cursor: &mut Cursor<'_>, wanted: &str) -> Result<Vec<String>, SpecError> {
    let pieces = cursor.pieces(Style::List)?;
    pieces.into_iter().map(|piece| Ok(nonempty(cursor, Some(piece), wanted)?.text)).collect()
}

fn labelled(cursor: &mut Cursor<'_>, wanted: &str) -> Result<(Piece, Option<String>), SpecError> {
    let mut pieces = cursor.pieces(Style::Labelled)?.into_iter();
    let first = nonempty(cursor, pieces.next(), wanted)?;
    let label = match pieces.next() {
        Some(piece) => Some(nonempty(cursor, Some(piece), "expected a label after #")?.text),
        None => None,
    };
    Ok((first, label))
}

fn length(cursor: &Cursor<'_>, piece: &Piece) -> Result<(usize, usize), SpecError> {
    let number = |text: &str, at: usize, missing: usize| match text.trim() {
        "" => Ok(missing),
        digits => digits.parse().or_else(|_| {
            cursor.error(at, format!("length: expected a whole number of words, got {digits:?}"))
        }),
    };
    let (min, max) = match piece.text.split_once("..") {
        None => {
            let exact = number(&piece.text, piece.at, 0)?;
            (exact, exact)
        }
        Some((low, high)) => {
            let high_at = piece.at + low.len() + 2;
            let (high, high_at) = match high.strip_prefix('=') {
                Some(high) => (high, high_at + 1),
                None => (high, high_at),
            };
            (number(low, piece.at, 0)?, number(high, high_at, usize::MAX)?)
        }
    };
    if min > max {
        let message = format!("length: expected the smaller number first, got {}", piece.text);
        return cursor.error(piece.at, message);
    }
    Ok((min, max))
}

/// The addresses of a server list: `//a:1,http://b:2`, each perhaps with the protocol's word again.
fn addresses(cursor: &Cursor<'_>, scheme: &str, piece: &Piece) -> Result<Vec<String>, SpecError> {
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
            return cursor
                .error(at, format!("expected an address such as //localhost:8080, got {raw:?}"));
        }
        urls.push(url.trim_end_matches('/').to_string());
        if end == rest.len() {
            return Ok(urls);
        }
        at += end + 1;
        rest = &rest[end + 1..];
    }
}
