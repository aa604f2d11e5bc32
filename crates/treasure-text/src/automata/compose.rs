//! An expression piece by piece: each piece is minimal before the next one is joined to it.
//!
//! Repetitions inside repetitions make a nondeterministic automaton large and ambiguous though few states tell
//! its texts apart: `((\w{0,27})?)*` is `\w*`. Minimal pieces do not carry that on. It is the second try:
//! pieces may also need more states than the whole does.

use regex_syntax::hir::{Hir, HirKind, Repetition};

use super::{
    Dfa, Error, Limits, Result,
    nfa::Nfa,
    regex::{direct, nodes},
};

/// Steps that are spent on a piece before it is taken apart, and nodes that are written for it.
const FIRST_TRY: usize = 1 << 20;
const FIRST_NODES: usize = 1 << 15;

/// The automaton of an expression; `None` if nothing matches. All pieces share the limit of steps.
pub(super) fn composed(pattern: &str, hir: &Hir, limits: &Limits) -> Result<Option<Dfa>> {
    Pieces { pattern, limits, steps: 0 }.made(hir)
}

struct Pieces<'a> {
    pattern: &'a str,
    limits: &'a Limits,
    steps: usize,
}

impl Pieces<'_> {
    /// A piece as it is if that is quick, else from its own pieces.
    fn made(&mut self, hir: &Hir) -> Result<Option<Dfa>> {
        let has_pieces = !hir.kind().subs().is_empty();
        if !has_pieces || nodes(hir) <= FIRST_NODES {
            let most = match has_pieces {
                true => self.steps.saturating_add(FIRST_TRY).min(self.limits.max_steps),
                false => self.limits.max_steps,
            };
            let limits = Limits { max_steps: most, ..*self.limits };
            match direct(self.pattern, hir, &limits, &mut self.steps) {
                Err(Error::TooLarge { .. })
                    if has_pieces && self.steps <= self.limits.max_steps => {}
                done => return done,
            }
        }
        match hir.kind() {
            HirKind::Capture(capture) => self.made(&capture.sub),
            HirKind::Concat(parts) => {
                let mut all = self.either(&[], true)?;
                for part in parts {
                    let next = self.made(part)?;
                    all = self.joined(all, next.as_ref())?;
                }
                Ok(all)
            }
            HirKind::Alternation(parts) => {
                let parts = parts.iter().map(|part| self.made(part)).collect::<Result<Vec<_>>>()?;
                self.either(&parts.into_iter().flatten().collect::<Vec<_>>(), false)
            }
            HirKind::Repetition(repetition) => self.repeated(repetition),
            // Those without pieces were done at once.
            _ => Ok(None),
        }
    }

    fn repeated(&mut self, repetition: &Repetition) -> Result<Option<Dfa>> {
        let once = self.made(&repetition.sub)?;
        let mut all = self.either(&[], true)?;
        for _ in 0..repetition.min {
            all = self.joined(all, once.as_ref())?;
        }
        let Some(once) = once else { return Ok(all) };
        match repetition.max {
            None => {
                let mut nfa = Nfa::new(self.limits.max_nodes);
                let (node, end) = (nfa.node()?, nfa.node()?);
                nfa.dfa(node, &once, node)?;
                nfa.silent(node, end);
                let any = nfa.counted(node, end, self.limits, &mut self.steps)?;
                self.joined(all, any.as_ref())
            }
            Some(max) => {
                let perhaps = self.either(&[once], true)?;
                for _ in repetition.min..max {
                    let more = self.joined(all.clone(), perhaps.as_ref())?;
                    // Nothing new comes of further ones either.
                    if more == all {
                        break;
                    }
                    all = more;
                }
                Ok(all)
            }
        }
    }

    /// One after the other.
    fn joined(&mut self, one: Option<Dfa>, other: Option<&Dfa>) -> Result<Option<Dfa>> {
        let (Some(one), Some(other)) = (one, other) else { return Ok(None) };
        let mut nfa = Nfa::new(self.limits.max_nodes);
        let (start, middle, end) = (nfa.node()?, nfa.node()?, nfa.node()?);
        nfa.dfa(start, &one, middle)?;
        nfa.dfa(middle, other, end)?;
        nfa.counted(start, end, self.limits, &mut self.steps)
    }

    /// Any of several, or perhaps nothing.
    fn either(&mut self, several: &[Dfa], nothing: bool) -> Result<Option<Dfa>> {
        let mut nfa = Nfa::new(self.limits.max_nodes);
        let (start, end) = (nfa.node()?, nfa.node()?);
        several.iter().try_for_each(|dfa| nfa.dfa(start, dfa, end))?;
        if nothing {
            nfa.silent(start, end);
        }
        nfa.counted(start, end, self.limits, &mut self.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::automata::regex::parse;

    #[test]
    fn pieces_give_the_same_automaton_as_the_whole() {
        let limits = Limits::default();
        for pattern in [
            "a",
            "",
            "ab|c*",
            "(?:ab?){2,5}c+",
            "(?:(?:[ab]{1,3}){2,4}|é)*x",
            "(?:a{3}){2,}",
            "(?:a*b){0,3}",
            "[^a]{2,3}(?:|b)",
            "(?:(?:ab){0,3}){3}",
            "[a&&b]",
            "a[a&&b]?",
        ] {
            let hir = parse(pattern, false).unwrap();
            let whole = direct(pattern, &hir, &limits, &mut 0).unwrap();
            let mut pieces = Pieces { pattern, limits: &limits, steps: 0 };
            assert_eq!(apart(&mut pieces, &hir), whole, "{pattern}");
        }
    }

    /// All pieces taken apart, however small.
    fn apart(pieces: &mut Pieces<'_>, hir: &Hir) -> Option<Dfa> {
        match hir.kind() {
            HirKind::Concat(parts) => {
                let made: Vec<_> = parts.iter().map(|part| apart(pieces, part)).collect();
                let empty = pieces.either(&[], true).unwrap();
                made.iter().fold(empty, |all, part| pieces.joined(all, part.as_ref()).unwrap())
            }
            HirKind::Alternation(parts) => {
                let made: Vec<_> = parts.iter().filter_map(|part| apart(pieces, part)).collect();
                pieces.either(&made, false).unwrap()
            }
            HirKind::Repetition(repetition) => pieces.repeated(repetition).unwrap(),
            _ => pieces.made(hir).unwrap(),
        }
    }
}
