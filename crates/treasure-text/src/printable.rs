//! Text of unknown origin, made safe to print: whatever could steer a terminal or reorder a line is escaped.

use std::borrow::Cow;

/// Whether a character acts on the screen instead of standing on it: control characters, line separators
/// and the marks that switch the direction of writing.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with such characters written out, as `\n` or `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// The same of a text of several lines, whose breaks stay.
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn what_acts_on_a_terminal_is_written_out_and_all_else_stays() {
        assert_eq!(printable("café ▁ 湖 \"x\" \\"), "café ▁ 湖 \"x\" \\");
        assert_eq!(printable("\u{1b}[31m\r\n\u{7f}\u{9b}"), "\\u{1b}[31m\\r\\n\\u{7f}\\u{9b}");
        assert_eq!(printable("a\u{202e}b\u{2028}"), "a\\u{202e}b\\u{2028}");
    }
}
