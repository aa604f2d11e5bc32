//! Golden files: text that must not change unnoticed.

use std::{fs, path::Path};

/// Compares text with a file. With `UPDATE_GOLDEN=1` in the environment the file is written instead.
///
/// # Panics
/// If they differ, with the first line that does, or if the file cannot be read.
pub fn assert_golden(path: impl AsRef<Path>, got: &str) {
    let path = path.as_ref();
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).expect("the golden folder can be made");
        }
        fs::write(path, got).expect("the golden file can be written");
        return;
    }
    let expected = fs::read_to_string(path).unwrap_or_else(|error| {
        panic!("{}: {error}\nhint: UPDATE_GOLDEN=1 writes it", path.display())
    });
    if expected == got {
        return;
    }
    let differs = expected.lines().zip(got.lines()).position(|(a, b)| a != b);
    let at = differs.unwrap_or_else(|| expected.lines().count().min(got.lines().count()));
    panic!(
        "{}:{}: expected {:?}, got {:?}",
        path.display(),
        at + 1,
        expected.lines().nth(at),
        got.lines().nth(at)
    );
}
