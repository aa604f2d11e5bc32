//! Text: tokenizers, templates, where fixed text and holes lie in a sequence, and constraints that always
//! hold. No model and no reward.

pub mod automata;
mod chat;
mod cleanup;
mod error;
mod layout;
mod printable;
mod report;
mod rule;
mod start;
mod template;
mod tokenizer;

pub use chat::{ChatTemplate, Format, Message, conversation};
pub use cleanup::clean_up_spaces;
pub use error::{Error, Result};
pub use layout::{Detokenize, Layout, Piece, Rendered};
pub use printable::{printable, printable_lines};
pub use report::Report;
pub use rule::{Rule, Rules};
pub use start::{Conventions, Start, TextModel};
pub use template::{Part, Template};
pub use tokenizer::{Specials, SplitRule, Tokenizer, byte_level_json};
