//! How near a text comes to a regular expression: the fewest edits after which it would match somewhere.
//!
//! An edit leaves out, adds or replaces a character; an assertion (`^`, `\\b`) that does not hold costs one, too. Of
//! alternatives the cheapest counts, of repetitions the required number. Guarantee: 0 edits exactly if the
//! expression matches. Time: parts of the expression × characters of the text.
//! After Myers and Miller, Approximate matching of regular expressions (1989).

use regex_automata::util::look::{Look, LookMatcher};
use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

/// Expressions with more parts than this are not looked at so closely.
const MOST_PARTS: usize = 1024;

/// An expression taken apart, to be run on texts.
#[derive(Debug)]
pub(super) struct Near {
    parts: Vec<Part>,
    classes: Vec<Vec<(char, char)>>,
    /// The edits that any text needs at most: everything that is required is added.
    required: u32,
}

/// One part; where nothing else is said, the next one follows.
#[derive(Debug)]
enum Part {
    /// A character of a class.
    Character(usize),
    Assertion(Look),
    /// Any of these parts follows.
    Split(Vec<usize>),
}

/// More parts than are worth it.
struct TooMany;

impl Near {
    /// Takes an expression apart; `None` if it has too many parts.
    pub fn new(expression: &Hir) -> Option<Self> {
        let mut near = Self { parts: Vec::new(), classes: Vec::new(), required: 0 };
        near.add(expression).ok()?;
        let mut costs = near.start();
        near.settle(&mut costs, |_| false);
        near.required = costs[near.parts.len()];
        Some(near)
    }

    /// The edits that any text needs at most.
    pub fn required(&self) -> u32 {
        self.required
    }

    fn push(&mut self, part: Part) -> Result<usize, TooMany> {
        if self.parts.len() == MOST_PARTS {
            return Err(TooMany);
        }
        self.parts.push(part);
        Ok(self.parts.len() - 1)
    }

    fn character(&mut self, ranges: Vec<(char, char)>) -> Result<(), TooMany> {
        let known = self.classes.iter().position(|class| *class == ranges);
        let class = known.unwrap_or_else(|| {
            self.classes.push(ranges);
            self.classes.len() - 1
        });
        self.push(Part::Character(class)).map(drop)
    }

    fn add(&mut self, expression: &Hir) -> Result<(), TooMany> {
        match expression.kind() {
            HirKind::Empty => Ok(()),
            HirKind::Literal(literal) => String::from_utf8_lossy(&literal.0)
                .chars()
                .try_for_each(|c| self.character(vec![(c, c)])),
            HirKind::Class(Class::Unicode(class)) => {
                self.character(class.iter().map(|range| (range.start(), range.end())).collect())
            }
            HirKind::Class(Class::Bytes(class)) => self.character(
                class.iter().map(|range| (range.start().into(), range.end().into())).collect(),
            ),
            HirKind::Look(look) => match Look::from_repr(look.as_repr()) {
                Some(look) => self.push(Part::Assertion(look)).map(drop),
                None => Err(TooMany), // An assertion of a later version.
            },
            HirKind::Capture(capture) => self.add(&capture.sub),
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| self.add(part)),
            HirKind::Alternation(branches) => {
                let split = self.push(Part::Split(Vec::new()))?;
                let (mut starts, mut ends) = (Vec::new(), Vec::new());
                for branch in branches {
                    starts.push(self.parts.len());
                    self.add(branch)?;
                    ends.push(self.push(Part::Split(Vec::new()))?);
                }
                self.parts[split] = Part::Split(starts);
                self.all_to_here(&ends);
                Ok(())
            }
            HirKind::Repetition(repetition) => self.repeat(repetition),
        }
    }

    fn repeat(&mut self, Repetition { min, max, sub, .. }: &Repetition) -> Result<(), TooMany> {
        let mut begin = self.parts.len();
        let mut exits = Vec::new();
        for _ in 0..*min {
            begin = self.parts.len();
            self.add(sub)?;
            if self.parts.len() == begin {
                return Ok(()); // Nothing, however often.
            }
        }
        match max {
            Some(max) => {
                for _ in *min..*max {
                    exits.push(self.push(Part::Split(vec![self.parts.len() + 1]))?);
                    self.add(sub)?;
                }
            }
            None => {
                if *min == 0 {
                    exits.push(self.push(Part::Split(vec![self.parts.len() + 1]))?);
                    begin = self.parts.len();
                    self.add(sub)?;
                }
                self.push(Part::Split(vec![begin, self.parts.len() + 1]))?;
            }
        }
        self.all_to_here(&exits);
        Ok(())
    }

    /// Lets these splits also go on with the part that comes next.
    fn all_to_here(&mut self, splits: &[usize]) {
        let here = self.parts.len();
        for &split in splits {
            if let Part::Split(targets) = &mut self.parts[split] {
                targets.push(here);
            }
        }
    }

    /// The cost of standing before each part, and after the last, when the search begins.
    fn start(&self) -> Vec<u32> {
        let mut costs = vec![u32::MAX / 2; self.parts.len() + 1];
        costs[0] = 0;
        costs
    }

    /// Goes on wherever no character is needed, or one is left out, until nothing gets cheaper. Loops lead
    /// back, so once is not enough; twice nearly always is.
    fn settle(&self, costs: &mut [u32], holds: impl Fn(Look) -> bool) {
        let mut again = true;
        while std::mem::take(&mut again) {
            for (at, part) in self.parts.iter().enumerate() {
                let cost = costs[at];
                match part {
                    Part::Character(_) => costs[at + 1] = costs[at + 1].min(cost + 1),
                    Part::Assertion(look) => {
                        let cost = cost + u32::from(!holds(*look));
                        costs[at + 1] = costs[at + 1].min(cost);
                    }
                    Part::Split(targets) => {
                        for &to in targets {
                            again |= to <= at && cost < costs[to];
                            costs[to] = costs[to].min(cost);
                        }
                    }
                }
            }
        }
    }

    /// The fewest edits after which the expression would match somewhere in `text`.
    pub fn edits(&self, text: &str) -> u32 {
        let looks = LookMatcher::new();
        let end = self.parts.len();
        let mut costs = self.start();
        let mut next = costs.clone();
        let mut fits = vec![false; self.classes.len()];
        let mut best = u32::MAX;
        let mut at = 0;
        loop {
            self.settle(&mut costs, |look| looks.matches(look, text.as_bytes(), at));
            best = best.min(costs[end]);
            let Some(c) = text[at..].chars().next() else { return best };
            at += c.len_utf8();
            for (fits, class) in fits.iter_mut().zip(&self.classes) {
                *fits = has(class, c);
            }
            // The character is one too many, or it is what is wanted, or it stands in its place.
            for (next, cost) in next.iter_mut().zip(&costs) {
                *next = cost + 1;
            }
            for (part, wanted) in self.parts.iter().enumerate() {
                if let Part::Character(class) = wanted {
                    let cost = costs[part] + u32::from(!fits[*class]);
                    next[part + 1] = next[part + 1].min(cost);
                }
            }
            next[0] = 0; // A match may begin anywhere.
            std::mem::swap(&mut costs, &mut next);
        }
    }
}

/// Whether a class, whose ranges are in order, has a character.
fn has(class: &[(char, char)], c: char) -> bool {
    let after = class.partition_point(|&(start, _)| start <= c);
    after > 0 && c <= class[after - 1].1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Patterns of every kind the syntax has, most of them small.
    fn patterns() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            "[abc]{1,3}",
            prop::sample::select(vec![
                ".",
                "[ab]",
                "[^a]",
                r"\w",
                r"\d",
                r"\b",
                r"\B",
                "^",
                "$",
                "",
                "é",
                r"\s",
                "(?i)B",
                "(?m)^",
                r"\A",
                r"\z",
                r"(?-u:\b)",
                r"\b{start}",
                r"\b{end-half}",
                r"[^\s\S]",
            ])
            .prop_map(String::from),
        ];
        leaf.prop_recursive(4, 24, 3, |inner| {
            let many = prop::collection::vec(inner.clone(), 1..4);
            prop_oneof![
                many.clone().prop_map(|parts| parts.concat()),
                many.prop_map(|parts| format!("(?:{})", parts.join("|"))),
                (
                    inner.clone(),
                    prop::sample::select(vec!["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])
                )
                    .prop_map(|(part, times)| format!("(?:{part}){times}")),
                inner.prop_map(|part| format!("({part})")),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_edits_exactly_if_the_pattern_matches(pattern in patterns(), text in "[abcB1é \n]{0,8}") {
            let regex = regex::Regex::new(&pattern).expect("a pattern");
            let near = Near::new(&regex_syntax::parse(&pattern).expect("a pattern")).expect("small");
            let edits = near.edits(&text);
            prop_assert_eq!(edits == 0, regex.is_match(&text), "{} edits", edits);
            prop_assert!(edits <= near.required());
        }
    }
}
