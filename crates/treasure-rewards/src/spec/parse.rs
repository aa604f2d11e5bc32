//! The grammar of reward specifications, by recursive descent.
//!
//! ```text
//! sum    = term (" + " term)*
//! term   = [NUMBER "*"] part
//! part   = "(" sum ")" | FUNCTION "(" sum ("," sum)* ")" | [("prob" | "accuracy" | "raw") ":"] reward
//! reward = short-name | SCHEME ":" text
//! ```

use super::{
    Kind, Node, Spec, ValueKind,
    cursor::Cursor,
    names::{FUNCTIONS, nearest},
    scheme::{PLUS, is_name, scheme, short_name},
};
use crate::{Error, Result};

/// Functions and parentheses inside each other; far beyond need, well before the stack ends.
const DEEPEST: usize = 64;

pub(super) fn spec(text: &str) -> Result<Spec> {
    let mut cursor = Cursor { text, at: 0, nested: 0 };
    let root = sum(&mut cursor)?;
    cursor.skip_space();
    if cursor.peek().is_some() {
        let fault = expected(&cursor, "` + ` or the end");
        return Err(fault.with_hint(what_to_write(&cursor, &root)));
    }
    Ok(Spec { root })
}

/// What someone who wrote this after a whole reward wanted to write.
fn what_to_write(cursor: &Cursor<'_>, before: &Node) -> String {
    let written = &before.written;
    let mut rest = cursor.rest().chars();
    rest.next();
    let next = rest.as_str().trim_start();
    let next = next[..next.find(char::is_whitespace).unwrap_or(next.len())].trim_end_matches(',');
    let next = if next.is_empty() { "perplexity" } else { next };
    match cursor.peek() {
        Some('-') => format!("to subtract, add with a negative weight: {written} + -1*{next}"),
        Some(',' | ';' | '&' | '|') => {
            format!("rewards are added, {written} + {next}, or joined: min({written}, {next})")
        }
        Some('*') => {
            format!("a weight is a number before the star, 0.5*{next}; product(a, b) multiplies")
        }
        Some('+') => PLUS.into(),
        Some(c) if is_name(c) => format!("rewards are added with ` + `: {written} + …"),
        _ => "text with spaces or signs in it is quoted: regex:'a+ b*'".into(),
    }
}

fn expected(cursor: &Cursor<'_>, what: &str) -> Error {
    cursor.fault(cursor.at, format!("expected {what}, got {}", cursor.found()))
}

fn node(cursor: &Cursor<'_>, start: usize, kind: Kind) -> Node {
    Node { written: cursor.text[start..cursor.at].trim_end().into(), kind }
}

fn sum(cursor: &mut Cursor<'_>) -> Result<Node> {
    if cursor.nested > DEEPEST {
        let fault = expected(cursor, &format!("at most {DEEPEST} functions inside each other"));
        return Err(fault.with_hint("write it with fewer parentheses"));
    }
    cursor.skip_space();
    let start = cursor.at;
    let mut terms = vec![term(cursor)?];
    while cursor.eat_plus() {
        terms.push(term(cursor)?);
    }
    Ok(match <[Node; 1]>::try_from(terms) {
        Ok([only]) => only,
        Err(terms) => node(cursor, start, Kind::Sum(terms)),
    })
}

fn term(cursor: &mut Cursor<'_>) -> Result<Node> {
    let start = cursor.at;
    let Some(weight) = weight(cursor)? else { return part(cursor) };
    let inner = part(cursor)?;
    Ok(node(cursor, start, Kind::Weighted(weight, Box::new(inner))))
}

/// `NUMBER*` if it stands here.
fn weight(cursor: &mut Cursor<'_>) -> Result<Option<f64>> {
    let start = cursor.at;
    if !cursor.peek().is_some_and(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) {
        return Ok(None);
    }
    let digits = cursor.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.'));
    cursor.skip_space();
    if !cursor.eat('*') {
        cursor.at = start;
        return Ok(None);
    }
    cursor.skip_space();
    finite(cursor, start, digits).map(Some)
}

fn finite(cursor: &Cursor<'_>, at: usize, digits: &str) -> Result<f64> {
    match digits.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(cursor
            .fault(at, format!("expected a number, got {digits:?}"))
            .with_hint("a weight or a threshold is a plain number, such as 0.5 or -1")),
    }
}

fn part(cursor: &mut Cursor<'_>) -> Result<Node> {
    let start = cursor.at;
    if cursor.eat('(') {
        cursor.nested += 1;
        let inner = sum(cursor)?;
        close(cursor)?;
        return Ok(node(cursor, start, inner.kind));
    }
    let name = cursor.take_while(is_name);
    let kind = match cursor.peek() {
        Some('(') => function(cursor, start, name)?,
        Some(':') => {
            cursor.at += 1;
            Kind::Leaf(scheme(cursor, start, name)?)
        }
        _ => Kind::Leaf(short_name(cursor, start, name, ValueKind::LogProb)?),
    };
    Ok(node(cursor, start, kind))
}

fn close(cursor: &mut Cursor<'_>) -> Result<()> {
    cursor.skip_space();
    if !cursor.eat(')') {
        let fault = expected(cursor, "`)`");
        return Err(fault.with_hint("close every `(`; text with brackets in it is quoted"));
    }
    cursor.nested -= 1;
    Ok(())
}

fn function(cursor: &mut Cursor<'_>, start: usize, name: &str) -> Result<Kind> {
    if !FUNCTIONS.contains(&name) {
        let message =
            format!("expected min, product, atleast, atmost or step before `(`, got {name:?}");
        return Err(cursor.fault(start, message).with_hint(match nearest(name, FUNCTIONS) {
            Some(known) => format!("did you mean `{known}(`?"),
            None => {
                "write min(a, b), product(a, b), atleast(a, 0.5), atmost(a, 0.5) or step(a, 0.5)"
                    .into()
            }
        }));
    }
    cursor.at += 1;
    cursor.nested += 1;
    cursor.skip_space();
    let first_at = cursor.at;
    let first = sum(cursor)?;
    if matches!(name, "atleast" | "atmost" | "step") {
        cursor.skip_space();
        if !cursor.eat(',') {
            let fault = expected(cursor, "`,` and a threshold");
            return Err(fault.with_hint(format!("write {name}({}, NUMBER)", first.written)));
        }
        cursor.skip_space();
        let at = cursor.at;
        let digits = cursor.take_while(|c| c != ')' && c != ',' && !c.is_whitespace());
        let threshold = finite(cursor, at, digits)?;
        close(cursor)?;
        let part = Box::new(first);
        return Ok(match name {
            "atleast" => Kind::AtLeast(part, threshold),
            "atmost" => Kind::AtMost(part, threshold),
            _ => Kind::Step(part, threshold),
        });
    }
    let mut parts = vec![(first_at, first)];
    cursor.skip_space();
    while cursor.eat(',') {
        cursor.skip_space();
        let at = cursor.at;
        parts.push((at, sum(cursor)?));
        cursor.skip_space();
    }
    if parts.len() < 2 {
        let fault = expected(cursor, &format!("`,` and another part of {name}"));
        let first = &parts[0].1.written;
        return Err(fault.with_hint(format!("write {name}({first}, …)")));
    }
    close(cursor)?;
    if name == "min" {
        return Ok(Kind::Min(parts.into_iter().map(|(_, part)| part).collect()));
    }
    if let Some((at, part)) = parts.iter().find(|(_, part)| !part.range().is_unit()) {
        let (written, range) = (&part.written, part.range());
        let message =
            format!("product: expected parts within [0, 1], got `{written}`, which gives {range}");
        return Err(cursor.fault(*at, message).with_hint(
            "prob: or accuracy: before a classifier, or step(…, threshold), gives a part within [0, 1]",
        ));
    }
    Ok(Kind::Product(parts.into_iter().map(|(_, part)| part).collect()))
}
