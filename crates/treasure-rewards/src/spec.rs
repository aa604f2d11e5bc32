//! Reward specifications: what a user writes for a reward, as a value.
//!
//! Guarantee: parsing sends nothing, opens nothing and never panics; a specification that parses is
//! well typed (`product` has only parts within [0, 1]) and displays back as it was written.
//!
//! ```
//! use treasure_rewards::Spec;
//! let spec: Spec = "sentiment=positive + 0.5*perplexity".parse()?;
//! assert_eq!(spec.to_string(), "sentiment=positive + 0.5*perplexity");
//! # Ok::<(), treasure_rewards::Error>(())
//! ```

mod cursor;
mod leaf;
pub(crate) mod names;
mod parse;
mod scheme;

use std::{fmt, str::FromStr};

pub(crate) use cursor::Style;
pub use leaf::{Judge, Leaf, Protocol, Remote, ValueKind};

pub use crate::rules::Rule;
use crate::{Error, Range, Result, expr::Expr};

/// A parsed reward specification.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The whole expression.
    pub root: Node,
}

/// A part of a specification.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The part as written.
    pub written: String,
    /// What it is.
    pub kind: Kind,
}

/// What a part of a specification is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `a + b`
    Sum(Vec<Node>),
    /// `0.5*a`
    Weighted(f64, Box<Node>),
    /// `min(a, b)`
    Min(Vec<Node>),
    /// `product(a, b)`, of parts within [0, 1]
    Product(Vec<Node>),
    /// `atleast(a, t)`: 0 once a ≥ t, before that the shortfall a − t
    AtLeast(Box<Node>, f64),
    /// `atmost(a, t)`: 0 as long as a ≤ t, after that the excess as t − a
    AtMost(Box<Node>, f64),
    /// `step(a, t)`: 1 once a ≥ t, before that 0
    Step(Box<Node>, f64),
    /// One reward.
    Leaf(Leaf),
}

impl Node {
    /// The numbers this part can give.
    pub fn range(&self) -> Range {
        let mut ranges = Vec::new();
        let expr = Expr::new(self, &mut |_, leaf| {
            ranges.push(leaf.range());
            ranges.len() - 1
        });
        expr.of(&ranges)
    }

    fn visit<'a>(&'a self, see: &mut impl FnMut(&'a Node)) {
        see(self);
        match &self.kind {
            Kind::Sum(parts) | Kind::Min(parts) | Kind::Product(parts) => {
                parts.iter().for_each(|part| part.visit(see));
            }
            Kind::Weighted(_, part)
            | Kind::AtLeast(part, _)
            | Kind::AtMost(part, _)
            | Kind::Step(part, _) => part.visit(see),
            Kind::Leaf(_) => {}
        }
    }
}

impl Spec {
    /// The parts reported beside the total, in the order written: the terms of the sum, each followed
    /// by its own parts if it is a function or in parentheses. Of a lone function, its parts.
    pub fn parts(&self) -> Vec<&Node> {
        fn arguments(node: &Node) -> &[Node] {
            match &node.kind {
                Kind::Weighted(_, part) => arguments(part),
                Kind::Sum(parts) | Kind::Min(parts) | Kind::Product(parts) => parts,
                Kind::AtLeast(part, _) | Kind::AtMost(part, _) | Kind::Step(part, _) => {
                    std::slice::from_ref(part)
                }
                Kind::Leaf(_) => &[],
            }
        }
        let mut found: Vec<&Node> = Vec::new();
        match &self.root.kind {
            Kind::Sum(terms) => {
                for term in terms {
                    found.push(term);
                    found.extend(arguments(term));
                }
            }
            _ => {
                found.extend(arguments(&self.root));
                if found.is_empty() || matches!(self.root.kind, Kind::Weighted(..)) {
                    found.insert(0, &self.root);
                }
            }
        }
        let mut seen = std::collections::HashSet::new();
        found.retain(|part| seen.insert(part.written.as_str()));
        found
    }

    /// Every reward named in it, in the order written.
    pub fn leaves(&self) -> Vec<(&str, &Leaf)> {
        let mut found = Vec::new();
        self.root.visit(&mut |node| {
            if let Kind::Leaf(leaf) = &node.kind {
                found.push((node.written.as_str(), leaf));
            }
        });
        found
    }

    /// The checkpoints that its leaves ask.
    pub fn checkpoints(&self) -> Vec<String> {
        self.leaves().into_iter().filter_map(|(_, leaf)| leaf.checkpoint()).collect()
    }

    /// The numbers it can give.
    pub fn range(&self) -> Range {
        self.root.range()
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root.written)
    }
}

impl FromStr for Spec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse::spec(text)
    }
}
