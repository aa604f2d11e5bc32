//! Regular expressions, in the syntax of the `regex` crate, as automata over bytes.
//!
//! Guarantee: exactly the texts that the expression matches from start to end. Expressions that could
//! match invalid UTF-8 are refused, and so are those whose size, estimated before anything is built, is beyond
//! the limit.

use regex_automata::{
    Anchored, MatchKind,
    dfa::{Automaton, StartKind, dense},
    nfa::thompson::{self, NFA, State},
    util::{look::Look as Assertion, primitives::StateID, start},
};
use regex_syntax::{
    ParserBuilder,
    hir::{Class, Hir, HirKind, Look},
};
use rustc_hash::FxHashMap;

use super::{
    Error, Limits, Result,
    compose::composed,
    dfa::{DEAD, Dfa, Table},
    nfa::{Nfa, Node},
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

pub(super) fn parse(pattern: &str, crlf: bool) -> Result<Hir> {
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
    let estimate = nodes(&hir);
    if estimate > limits.max_nodes {
        return Err(too_large(pattern, format!("about {estimate}"), limits));
    }
    let looks = hir.properties().look_set();
    if looks.is_empty() {
        return composed(pattern, &hir, limits);
    }
    if looks.remove(Look::Start).remove(Look::End).is_empty() {
        return direct(pattern, &hir, limits, &mut 0);
    }
    let whole = Hir::concat(vec![Hir::look(Look::Start), hir, Hir::look(Look::End)]);
    with_assertions(pattern, &compile(pattern, &whole, limits)?, limits)
}

fn compile(pattern: &str, hir: &Hir, limits: &Limits) -> Result<NFA> {
    // Within the estimate by far: its own limit is in bytes.
    let config = thompson::Config::new()
        .which_captures(thompson::WhichCaptures::None)
        .nfa_size_limit(Some(limits.max_nodes.saturating_mul(256)));
    let built = thompson::Compiler::new().configure(config).build_from_hir(hir);
    built.map_err(|error| match error.size_limit() {
        Some(_) => too_large(pattern, "more".to_owned(), limits),
        None => refused(pattern, &error.to_string()),
    })
}

fn too_large(pattern: &str, got: String, limits: &Limits) -> Error {
    let got = format!("{got}, from `{}`", shortened(pattern));
    Error::TooLarge { what: "nodes of the regex", limit: limits.max_nodes, got }
}

/// The automaton of an expression that asserts no more than where the text starts and ends, all at once;
/// `None` if nothing matches.
pub(super) fn direct(
    pattern: &str,
    hir: &Hir,
    limits: &Limits,
    steps: &mut usize,
) -> Result<Option<Dfa>> {
    let (nfa, begin, end) = read(&compile(pattern, hir, limits)?, limits)?;
    *steps += nfa.size();
    nfa.counted(begin, end, limits, steps)
}

/// How many nodes an expression takes, about: repetitions are written out, and a class of characters takes
/// one for each of its ranges.
pub(super) fn nodes(hir: &Hir) -> usize {
    let sum =
        |parts: &[Hir]| parts.iter().fold(1, |all: usize, part| all.saturating_add(nodes(part)));
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Unicode(class)) => class.ranges().len().max(1),
        HirKind::Class(Class::Bytes(_)) => 1,
        HirKind::Capture(capture) => nodes(&capture.sub),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1) as usize;
            nodes(&repetition.sub).saturating_add(1).saturating_mul(times)
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => sum(parts),
    }
}

/// What has been read before a node: nothing, or something; and whether an assertion said that the text ends
/// here, so that nothing may follow.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Phase {
    at_start: bool,
    ended: bool,
}

/// The automaton of an expression, node by node.
fn read(from: &NFA, limits: &Limits) -> Result<(Nfa, Node, Node)> {
    let mut nfa = Nfa::new(limits.max_nodes.saturating_mul(4));
    let (begin, end) = (nfa.node()?, nfa.node()?);
    let first = (from.start_anchored(), Phase { at_start: true, ended: false });
    let mut known = FxHashMap::default();
    known.insert(first, begin);
    let mut left = vec![(first, begin)];
    while let Some(((state, phase), node)) = left.pop() {
        let mut to = |nfa: &mut Nfa, state: StateID, phase: Phase| -> Result<Node> {
            if let Some(&node) = known.get(&(state, phase)) {
                return Ok(node);
            }
            let node = nfa.node()?;
            known.insert((state, phase), node);
            left.push(((state, phase), node));
            Ok(node)
        };
        let mut silent = |nfa: &mut Nfa, state: StateID, phase: Phase| -> Result<()> {
            let next = to(nfa, state, phase)?;
            nfa.silent(node, next);
            Ok(())
        };
        let open = Phase { at_start: false, ended: false };
        match from.state(state) {
            State::ByteRange { .. } | State::Sparse(_) if phase.ended => {}
            State::ByteRange { trans } => {
                let next = to(&mut nfa, trans.next, open)?;
                nfa.range(node, trans.start, trans.end, next);
            }
            State::Sparse(sparse) => {
                for trans in &*sparse.transitions {
                    let next = to(&mut nfa, trans.next, open)?;
                    nfa.range(node, trans.start, trans.end, next);
                }
            }
            State::Look { look: Assertion::Start, next } => {
                if phase.at_start {
                    silent(&mut nfa, *next, phase)?;
                }
            }
            State::Look { look: Assertion::End, next } => {
                silent(&mut nfa, *next, Phase { ended: true, ..phase })?;
            }
            State::Look { .. } | State::Dense(_) => {
                return Err(refused("", "an assertion where there was none"));
            }
            State::Union { alternates } => {
                for &next in &**alternates {
                    silent(&mut nfa, next, phase)?;
                }
            }
            State::BinaryUnion { alt1, alt2 } => {
                silent(&mut nfa, *alt1, phase)?;
                silent(&mut nfa, *alt2, phase)?;
            }
            State::Capture { next, .. } => silent(&mut nfa, *next, phase)?,
            State::Fail => {}
            State::Match { .. } => nfa.silent(node, end),
        }
    }
    Ok((nfa, begin, end))
}

/// The automaton of an expression with assertions about words or lines.
fn with_assertions(pattern: &str, nfa: &NFA, limits: &Limits) -> Result<Option<Dfa>> {
    let too_large = || Error::TooLarge {
        what: "states of the byte automaton",
        limit: limits.max_states,
        got: format!("more, from the regex `{}`", shortened(pattern)),
    };
    // Memory in bytes; what is spent to find an automaton grows with what it takes.
    let room = limits.max_states.saturating_mul(256).max(1 << 20);
    let dense = dense::Builder::new()
        .configure(
            dense::Config::new()
                .start_kind(StartKind::Anchored)
                .match_kind(MatchKind::All)
                .accelerate(false)
                .dfa_size_limit(Some(room))
                .determinize_size_limit(Some(room)),
        )
        .build_from_nfa(nfa)
        .map_err(|error| match error.is_size_limit_exceeded() {
            true => too_large(),
            false if error.to_string().contains("word boundar") => {
                refused(pattern, r"\b is not supported with Unicode; write (?-u:\b)")
            }
            false => refused(pattern, &error.to_string()),
        })?;
    table(&dense, limits, too_large).map(Dfa::from_table)
}

/// The beginning of a long expression.
fn shortened(pattern: &str) -> String {
    match pattern.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &pattern[..at]),
        None => pattern.to_owned(),
    }
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
