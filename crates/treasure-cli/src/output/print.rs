//! Standard output, without a panic when the reader goes away.

use std::{
    fmt::Display,
    io::{self, Write as _},
};

use crate::failure::{Failure, Outcome};

/// Prints one line on standard output. A closed pipe (`treasure … | head`) ends the program quietly.
pub fn line(text: impl Display) -> Outcome<()> {
    match line_if_read(text)? {
        true => Ok(()),
        false => std::process::exit(0),
    }
}

/// Prints one line on standard output, and says whether anybody still reads it.
pub fn line_if_read(text: impl Display) -> Outcome<bool> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(error).context("standard output")),
    }
}

/// A table: columns as wide as their widest cell, numbers to the right, without colour.
pub fn table(header: &[&str], rows: &[Vec<String>], right: &[bool]) -> String {
    let widths: Vec<usize> = (0..header.len())
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .chain([header[column].chars().count()])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    let header: Vec<String> = header.iter().map(ToString::to_string).collect();
    for row in std::iter::once(&header).chain(rows) {
        let mut text = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            if column > 0 {
                text.push_str("  ");
            }
            if right.get(column).copied().unwrap_or(false) {
                text.push_str(&pad);
                text.push_str(cell);
            } else {
                text.push_str(cell);
                text.push_str(&pad);
            }
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out.pop();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_the_alphabet() {
        let rows = vec![vec!["a".into(), "−1".into()], vec!["naïve".into(), "12".into()]];
        assert_eq!(table(&["name", "n"], &rows, &[false, true]), "name    n\na      −1\nnaïve  12");
    }
}
