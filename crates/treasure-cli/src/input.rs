//! What the user hands in: prompt files, templates, texts and token ids.

pub mod ids;
pub mod prompts;
pub mod template;
pub mod texts;
