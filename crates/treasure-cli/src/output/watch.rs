//! `--watch`: the text crystallising in the terminal, masks marked.
//!
//! Redraws a block of lines on standard error in place, so that standard output stays clean.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use crate::failure::{Failure, Outcome};

const INTERVAL: Duration = Duration::from_millis(40);

/// A block of lines that is redrawn in place.
#[derive(Debug, Default)]
pub struct Watch {
    /// Lines on the screen now.
    lines: usize,
    drawn: Option<Instant>,
}

impl Watch {
    /// Begins to watch, on a terminal only.
    pub fn start() -> Outcome<Self> {
        if !io::stderr().is_terminal() {
            return Err(Failure::new("--watch: expected a terminal, standard error is none")
                .hint("use --trace FILE.jsonl to keep every step of the search in a file"));
        }
        Ok(Self::default())
    }

    /// Whether it is time to draw again.
    pub fn is_due(&self) -> bool {
        self.drawn.is_none_or(|drawn| drawn.elapsed() >= INTERVAL)
    }

    /// Shows a text and a line below it.
    pub fn draw(&mut self, text: &str, below: &str) {
        let (width, height) = terminal_size::terminal_size()
            .map_or((80, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)));
        let mut lines = wrap(text, width.saturating_sub(1).max(1));
        lines.push(below.chars().take(width.saturating_sub(1)).collect());
        // More lines than the screen has could not be redrawn: show the end.
        let hidden = lines.len().saturating_sub(height.saturating_sub(1).max(1));
        let lines = &lines[hidden..];
        let mut out = self.erase();
        out.push_str(&lines.join("\n"));
        out.push('\n');
        let _ = io::stderr().write_all(out.as_bytes());
        self.lines = lines.len();
        self.drawn = Some(Instant::now());
    }

    /// Takes the block away.
    pub fn clear(&mut self) {
        let _ = io::stderr().write_all(self.erase().as_bytes());
        self.lines = 0;
        self.drawn = None;
    }

    fn erase(&self) -> String {
        match self.lines {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\r\x1b[J"),
        }
    }
}

/// Breaks a text into lines of at most `width` characters, at spaces where it can.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        let mut line = String::new();
        let mut length = 0;
        for word in paragraph.split_inclusive(' ') {
            // Control characters of a generated text must not steer the terminal.
            let word: Vec<char> = word.chars().filter(|c| !c.is_control()).collect();
            if length > 0 && length + word.len() > width {
                lines.push(std::mem::take(&mut line));
                length = 0;
            }
            for chunk in word.chunks(width) {
                if length > 0 && length + chunk.len() > width {
                    lines.push(std::mem::take(&mut line));
                    length = 0;
                }
                line.extend(chunk);
                length += chunk.len();
            }
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_break_at_spaces_and_no_line_is_too_wide() {
        assert_eq!(wrap("the cat sat", 8), ["the cat ", "sat"]);
        assert!(wrap("░░░░░░░░░░ a\nb", 4).iter().all(|line| line.chars().count() <= 4));
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(wrap("a\x1b[2Jb", 20), ["a[2Jb"]);
    }
}
