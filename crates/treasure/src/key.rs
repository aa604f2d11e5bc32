//! The one key rule: seed → head of the SHA-256 of the start text → sample.
//!
//! Guarantee: the same seed, text and sample number give the same randomness through every door, and
//! different prompts share no random stream.

use sha2::{Digest as _, Sha256};
use treasure_core::Key;

/// The version of the rule, stored in every plan.
pub const KEYS: u32 = 2;

/// The number a start text stands for. Holes of a template are written `[MASK:n]`.
pub fn start_key(text: &str) -> u64 {
    let digest = Sha256::digest(text.as_bytes());
    let mut head = [0; 8];
    head.copy_from_slice(&digest[..8]);
    u64::from_le_bytes(head)
}

/// The key of a sample.
pub fn sample_key(seed: u64, start: &str, sample: u64) -> Key {
    Key::new(seed).fold(start_key(start)).fold(sample)
}
