//! A text as it fits on a screen.

/// A text and a line below it, as they fit on a screen: its end where it has too many lines.
pub fn view(text: &str, below: &str, width: usize, height: usize) -> String {
    // Control characters of a generated text must not steer the terminal.
    let text: String = text.chars().filter(|c| *c == '\n' || !c.is_control()).collect();
    let mut lines = textwrap::wrap(&text, width.saturating_sub(1).max(1));
    lines.push(below.into());
    let hidden = lines.len().saturating_sub(height.saturating_sub(1).max(1));
    lines[hidden..].join("\n")
}
