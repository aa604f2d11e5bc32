//! Constraints that always hold: a pattern × a vocabulary × a number of positions.
//!
//! Guarantees, for any partial fill in any order: [`Lattice::legal`] is the exact set of tokens with which
//! *some* completion of the remaining masks makes the whole text match, so a fill that takes only legal
//! tokens never meets a dead end and its text matches at the end, not only as a prefix. The law of
//! whole texts that follows, the supported JSON Schema keywords and the costs are in `docs/constraints.md`.
//!
//! ```text
//! Pattern ─▶ Dfa (bytes) ─┐
//!                         ├▶ Tables (tokens) ─▶ Span (positions) ─▶ Lattice ─▶ legal sets
//! Vocabulary (bytes) ─────┘                         │                 ├─▶ Best: likeliest completions
//!                                                   ▼                 └─▶ Mass: the exact conditional
//!                                       Patterns (several holes), a constraint of a search
//! ```
//!
//! ```
//! use std::sync::Arc;
//! use treasure_text::automata::{Limits, Pattern, Span, Tables, TokenSet, Vocabulary};
//!
//! let words: [&[u8]; 5] = [b"", b"re", b"d", b"green", b"gr"];
//! let vocabulary = Arc::new(Vocabulary::new(words.map(|word| Some(word.to_vec())), &[0])?);
//! let dfa = Pattern::regex("red|green").dfa(&Limits::default())?;
//! let tables = Arc::new(Tables::build(&dfa, &vocabulary, &Limits::default())?);
//! let lattice = Span::new(tables, 3).lattice(&[None, None, None])?;
//! let mut legal = TokenSet::default();
//! lattice.legal(0, &mut legal);
//! assert_eq!(legal.iter().collect::<Vec<_>>(), [1, 3]); // "gr" leads nowhere, EOS is too early
//! # Ok::<(), treasure_text::Error>(())
//! ```

mod best;
mod cache;
mod compose;
mod dfa;
mod exponentials;
mod functions;
mod lattice;
mod length;
mod mass;
mod minimize;
mod nfa;
mod outlook;
mod pattern;
mod patterns;
mod product;
mod regex;
mod schema;
mod scores;
mod search;
mod span;
mod spelling;
mod tables;
mod tokenizer;
mod trie;
mod vocabulary;

pub use best::Best;
pub use cache::Cache;
pub use dfa::Dfa;
pub use lattice::Lattice;
pub use length::Lengths;
pub use mass::Mass;
pub use outlook::Outlook;
pub use pattern::{Limits, Pattern};
pub use patterns::{Filled, Likeliest, Patterns};
pub use schema::{SchemaOptions, WhiteSpace};
pub use scores::Scores;
pub use span::Span;
pub use tables::Tables;
pub use tokenizer::{Start, TokenBytes, vocabulary};
pub use treasure_core::TokenSet;
pub use vocabulary::Vocabulary;

use crate::{Error, Result};
