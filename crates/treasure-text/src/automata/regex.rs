//! Regular expressions, in the syntax of the `regex` crate, as automata over bytes.
//!
//! Guarantee: exactly the texts that the expression matches from start to end. Expressions that could
//! match invalid UTF-8 are refused.

use regex_automata::{
    Anchored, MatchKind,
    dfa::{Automaton, StartKind, dense},
    nfa::thompson,
    util::start,
};
use regex_syntax::{
    ParserBuilder,
    hir::{Hir, Look},
};
use rustc_hash::FxHashMap;

use super::{
    Error, Limits, Result,
    dfa::{DEAD, Dfa, Table},
};

/// The texts a regular expression matches whole.
pub(super) fn whole(pattern: &str, limits: &Limits) -> Result<Dfa> {
    let hir = parse(pattern, false)?;
    build(pattern, hir, limits)?
        .ok_or_else(|| Error::Nothing { what: format!("regex `{pattern}`"), why: String::new() })
}

/// The texts in which a regular expression, without line breaks in `.`, matches somewhere.
pub(super) fn somewhere(pattern: &str, limits: &Limits) -> Result<Option<Dfa>> {
    let any = || parse("(?s:.)*", false);
    let hir = Hir::concat(vec![any()?, parse(pattern, true)?, any()?]);
    build(pattern, hir, limits)
}

fn parse(pattern: &str, crlf: bool) -> Result<Hir> {
    let parser = ParserBuilder::new().utf8(true).crlf(crlf).nest_limit(100).build().parse(pattern);
    parser.map_err(|error| {
        // The library draws the place over several lines; the last one says what is wrong.
        let message = error.to_string();
        let last = message.lines().last().unwrap_or_default();
        refused(pattern, last.strip_prefix("error: ").unwrap_or(last))
    })
}

fn refused(pattern: &str, message: &str) -> Error {
    Error::Regex { pattern: pattern.to_owned(), message: message.to_owned() }
}

fn build(pattern: &str, hir: Hir, limits: &Limits) -> Result<Option<Dfa>> {
    let whole = Hir::concat(vec![Hir::look(Look::Start), hir, Hir::look(Look::End)]);
    // Memory in bytes that an automaton of the largest size may need.
    let room = limits.max_states.saturating_mul(1024).max(1 << 20);
    let too_large = || Error::TooLarge {
        what: "states of the byte automaton",
        limit: limits.max_states,
        got: format!("more, from the regex `{pattern}`"),
    };
    let nfa = thompson::Compiler::new()
        .configure(
            thompson::Config::new()
                .which_captures(thompson::WhichCaptures::None)
                .nfa_size_limit(Some(room)),
        )
        .build_from_hir(&whole)
        .map_err(|error| match error.size_limit() {
            Some(_) => too_large(),
            None => refused(pattern, &error.to_string()),
        })?;
    let dense = dense::Builder::new()
        .configure(
            dense::Config::new()
                .start_kind(StartKind::Anchored)
                .match_kind(MatchKind::All)
                .accelerate(false)
                .dfa_size_limit(Some(room))
                .determinize_size_limit(Some(room)),
        )
        .build_from_nfa(&nfa)
        .map_err(|error| match error.is_size_limit_exceeded() {
            true => too_large(),
            false if error.to_string().contains("word boundar") => {
                refused(pattern, r"\b is not supported with Unicode; write (?-u:\b)")
            }
            false => refused(pattern, &error.to_string()),
        })?;
    table(&dense, limits, too_large).map(Dfa::from_table)
}

/// Reads the transitions out of a dense automaton, which reports a match one step late.
fn table(
    dense: &dense::DFA<Vec<u32>>,
    limits: &Limits,
    too_large: impl Fn() -> Error,
) -> Result<Table> {
    let byte_classes = dense.byte_classes();
    let classes: [u8; 256] = std::array::from_fn(|byte| byte_classes.get(byte as u8));
    let width = classes.iter().copied().max().map_or(1, |class| usize::from(class) + 1);
    let mut samples = vec![0u8; width];
    (0..=255u8).for_each(|byte| samples[usize::from(classes[usize::from(byte)])] = byte);
    let internal = |message: &str| refused("", message);
    let start = dense
        .start_state(&start::Config::new().anchored(Anchored::Yes))
        .map_err(|error| internal(&error.to_string()))?;
    let mut states = vec![start];
    let mut number = FxHashMap::default();
    number.insert(start, 0u32);
    let (mut next, mut accepting) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(&state) = states.get(at) {
        at += 1;
        accepting.push(dense.is_match_state(dense.next_eoi_state(state)));
        for &byte in &samples {
            let to = dense.next_state(state, byte);
            if dense.is_dead_state(to) {
                next.push(DEAD);
                continue;
            }
            if dense.is_quit_state(to) {
                return Err(internal("the automaton gave up on a byte"));
            }
            let fresh = states.len() as u32;
            let id = *number.entry(to).or_insert(fresh);
            if id == fresh {
                if states.len() >= limits.max_states {
                    return Err(too_large());
                }
                states.push(to);
            }
            next.push(id);
        }
    }
    Ok(Table { classes, width, next, accepting, start: 0 })
}
