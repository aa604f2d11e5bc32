//! The `treasure` command line.

fn main() {}
