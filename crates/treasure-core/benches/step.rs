//! One step of the search with a denoiser and a reward that cost nothing.
fn main() {}
