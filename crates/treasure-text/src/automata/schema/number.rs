//! Numbers: `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, and `multipleOf` a whole number.
//!
//! Numbers have at most 15 digits before and 15 after the point, so that every reader takes them. Bounds are
//! held for the number as a reader rounds it to 64 bits.

use super::{
    super::{
        Dfa, Limits, Result,
        dfa::{DEAD, Table},
        nfa::{Nfa, Node},
        regex::whole,
    },
    Built, Writer,
    keywords::{Keywords, malformed, unsupported},
};

/// Digits before the point, and after it.
const DIGITS: u32 = 15;

/// The largest `multipleOf`: its automaton has as many states.
const MAX_MULTIPLE: u64 = 1000;

const INTEGER: &str = "0|-?[1-9][0-9]{0,14}";
const NUMBER: &str = r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?";

impl Writer<'_> {
    pub(super) fn number(
        &mut self,
        keywords: &Keywords,
        at: &str,
        integer: bool,
        from: Node,
        to: Node,
    ) -> Result<bool> {
        let multiple = multiple_of(keywords, at)?;
        // Multiples of a whole number are written without a point.
        let places = if integer || multiple.is_some() { 0 } else { DIGITS };
        let low = bound(keywords, at, places, Side::Low)?;
        let high = bound(keywords, at, places, Side::High)?;
        let built = Built::Number { low, high, places, multiple };
        let dfa = self.once(built, |limits| {
            let all = match (low, high) {
                (None, None) => Some(whole(if places == 0 { INTEGER } else { NUMBER }, limits)?),
                _ => between(low, high, places, limits)?,
            };
            match (all, multiple) {
                (Some(all), Some(multiple)) => all.and(&multiples(multiple), limits.max_states),
                (all, _) => Ok(all),
            }
        })?;
        let Some(dfa) = dfa else { return Ok(false) };
        self.nfa.dfa(from, &dfa, to)?;
        Ok(true)
    }
}

fn multiple_of(keywords: &Keywords, at: &str) -> Result<Option<u64>> {
    let Some(value) = keywords.get("multipleOf") else { return Ok(None) };
    match value.as_f64() {
        Some(x) if x > 0.0 && x.fract() == 0.0 && x <= MAX_MULTIPLE as f64 => Ok(Some(x as u64)),
        Some(x) if x > 0.0 => {
            let why = format!("only whole numbers up to {MAX_MULTIPLE}, not {value}");
            Err(unsupported(at, "multipleOf", why))
        }
        _ => Err(malformed(at, "multipleOf", "a number above 0", value)),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Low,
    High,
}

/// The tighter of the inclusive and the exclusive bound, in units of the last decimal place. Bounds beyond
/// all numbers that are written count as none.
fn bound(keywords: &Keywords, at: &str, places: u32, side: Side) -> Result<Option<i128>> {
    let (inclusive, exclusive) = match side {
        Side::Low => ("minimum", "exclusiveMinimum"),
        Side::High => ("maximum", "exclusiveMaximum"),
    };
    let mut tightest: Option<i128> = None;
    for (keyword, strict) in [(inclusive, false), (exclusive, true)] {
        let Some(value) = keywords.get(keyword) else { continue };
        let Some(x) = value.as_f64() else {
            return Err(malformed(at, keyword, "a number", value));
        };
        // A reader may compare exactly or after rounding; up to here both agree.
        if x.abs() >= 1e15 {
            if (x > 0.0) == (side == Side::Low) {
                return Err(unsupported(at, keyword, "beyond 15 digits"));
            }
            continue;
        }
        // The upper side is the lower side of the mirrored number.
        let units = match side {
            Side::Low => at_least(x, strict, places),
            Side::High => -at_least(-x, strict, places),
        };
        tightest = Some(match (tightest, side) {
            (None, _) => units,
            (Some(other), Side::Low) => other.max(units),
            (Some(other), Side::High) => other.min(units),
        });
    }
    Ok(tightest)
}

/// The smallest number of units whose decimal text reads as at least (strictly: more than) `x`.
fn at_least(x: f64, strict: bool, places: u32) -> i128 {
    let holds = |units: i128| {
        let read = decimal(units, places).parse::<f64>().unwrap_or(f64::NAN);
        if strict { read > x } else { read >= x }
    };
    let target = if strict { x.next_up() } else { x };
    // Correctly rounded, so at most one unit away.
    let text = format!("{target:.*}", places as usize);
    let near: i128 = text.replace('.', "").parse().unwrap_or(0);
    (near - 1..=near + 2).find(|&units| holds(units)).unwrap_or(near + 2)
}

fn decimal(units: i128, places: u32) -> String {
    let scale = 10i128.pow(places);
    let sign = if units < 0 { "-" } else { "" };
    let (whole, part) = (units.abs() / scale, units.abs() % scale);
    format!("{sign}{whole}.{part:0width$}", width = places.max(1) as usize)
}

/// The decimals between two bounds, in units of the last place.
fn between(
    low: Option<i128>,
    high: Option<i128>,
    places: u32,
    limits: &Limits,
) -> Result<Option<Dfa>> {
    let largest = 10i128.pow(DIGITS + places) - 1;
    let (low, high) = (low.unwrap_or(-largest), high.unwrap_or(largest));
    let mut nfa = Nfa::new(1 << 20);
    let (start, minus, end) = (nfa.node()?, nfa.node()?, nfa.node()?);
    nfa.range(start, b'-', b'-', minus);
    magnitudes(&mut nfa, start, end, low.max(0), high.min(largest), places)?;
    magnitudes(&mut nfa, minus, end, (-high).max(1), (-low).min(largest), places)?;
    nfa.determinize(start, end, limits)
}

/// Unsigned decimals from `low` to `high`, by the number of digits before the point.
fn magnitudes(
    nfa: &mut Nfa,
    from: Node,
    to: Node,
    low: i128,
    high: i128,
    places: u32,
) -> Result<()> {
    for digits in 1..=DIGITS {
        let least = if digits == 1 { 0 } else { 10i128.pow(digits - 1 + places) };
        let (low, high) = (low.max(least), high.min(10i128.pow(digits + places) - 1));
        if low <= high {
            let width = (digits + places) as usize;
            let text = |units: i128| format!("{units:0width$}").into_bytes();
            digits_between(nfa, from, to, &text(low), &text(high), digits as usize)?;
        }
    }
    Ok(())
}

/// Digits that lie between two numbers of the same width, with a point after `whole` of them. Zeros at the
/// end of the part behind the point may be left out.
fn digits_between(
    nfa: &mut Nfa,
    from: Node,
    to: Node,
    low: &[u8],
    high: &[u8],
    whole: usize,
) -> Result<()> {
    // Nodes by whether the digits so far equal those of the lower and of the upper bound.
    let mut here = [[None; 2]; 2];
    here[1][1] = Some(from);
    for at in 0..=low.len() {
        let zeros_left = low[at..].iter().all(|&digit| digit == b'0');
        for (on_low, row) in here.iter().enumerate() {
            for &node in row.iter().flatten() {
                if at >= whole && (on_low == 0 || zeros_left) {
                    nfa.silent(node, to);
                }
            }
        }
        if at == low.len() {
            break;
        }
        let mut next = [[None; 2]; 2];
        for (on_low, on_high) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let Some(mut node) = here[on_low][on_high] else { continue };
            if at == whole {
                let point = nfa.node()?;
                nfa.range(node, b'.', b'.', point);
                node = point;
            }
            let first = if on_low == 1 { low[at] } else { b'0' };
            let last = if on_high == 1 { high[at] } else { b'9' };
            for digit in first..=last {
                let still_low = usize::from(on_low == 1 && digit == low[at]);
                let still_high = usize::from(on_high == 1 && digit == high[at]);
                let slot = &mut next[still_low][still_high];
                let target = match *slot {
                    Some(target) => target,
                    None => *slot.insert(nfa.node()?),
                };
                nfa.range(node, digit, digit, target);
            }
        }
        here = next;
    }
    Ok(())
}

/// Whole numbers that are multiples: the state is the remainder so far.
fn multiples(of: u64) -> Dfa {
    // Classes: ten digits, the sign, everything else.
    let classes = std::array::from_fn(|byte| match byte as u8 {
        digit @ b'0'..=b'9' => digit - b'0',
        b'-' => 10,
        _ => 11,
    });
    let start = of as u32;
    let row = |remainder: u64, sign: u32| {
        let digits = (0..10).map(move |digit| ((remainder * 10 + digit) % of) as u32);
        digits.chain([sign, DEAD])
    };
    let next = (0..of).flat_map(|remainder| row(remainder, DEAD)).chain(row(0, start)).collect();
    let accepting = (0..=of).map(|state| state == 0).collect();
    let table = Table { classes, width: 12, next, accepting, start };
    Dfa::from_table(table).expect("0 is a multiple")
}
