//! Windows: the part of a text that rewards look at, as a prefix of the text.
//!
//! Guarantee: the prefix scores exactly as the whole text. Cutting text between two tokens can change
//! how it is tokenised (GPT-2 reads a trailing line break differently from one before a word), so the
//! cut is verified and moved on by one character until every window is unchanged.

use std::sync::Arc;

use crate::{Result, TextReward, Window};

/// The shortest verified prefix of `text` that all `rewards` score as they score `text`.
pub(crate) fn seen<'a>(rewards: &[Arc<dyn TextReward>], text: &'a str) -> Result<&'a str> {
    let mut windows = Vec::with_capacity(rewards.len());
    let mut cut = 0;
    for reward in rewards {
        match reward.window(text)? {
            Window::Whole => return Ok(text),
            window @ Window::Tokens { end, .. } => {
                cut = cut.max(end.min(text.len()));
                windows.push(window);
            }
        }
    }
    loop {
        while !text.is_char_boundary(cut) {
            cut += 1;
        }
        let prefix = &text[..cut];
        if prefix.len() == text.len() {
            return Ok(text);
        }
        let mut same = true;
        for (reward, whole) in rewards.iter().zip(&windows) {
            same &= match (reward.window(prefix)?, whole) {
                (Window::Tokens { ids, .. }, Window::Tokens { ids: wanted, .. }) => ids == *wanted,
                _ => false,
            };
        }
        if same {
            return Ok(prefix);
        }
        cut += 1;
    }
}
