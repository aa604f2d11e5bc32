//! Randomness as a value.
//!
//! Guarantee: the same key gives the same numbers, whatever was drawn elsewhere, in any order, on
//! any number of threads. There is no hidden state and no clock.

use crate::MaskedSeq;

/// A node in a tree of random streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): a bijection of 64-bit words in which
/// every input bit flips every output bit with probability near one half.
const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Key {
    /// The root key of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(mix(seed.wrapping_add(GOLDEN)))
    }

    /// The child key of a tag. Keys with different paths of tags are independent.
    #[must_use]
    pub const fn fold(self, tag: u64) -> Self {
        Self(mix(self.0.rotate_left(23) ^ mix(tag.wrapping_add(GOLDEN)).wrapping_add(GOLDEN)))
    }

    /// The child key of a state: equal sequences fold equally.
    #[must_use]
    pub fn fold_seq(self, seq: &MaskedSeq) -> Self {
        seq.slots().fold(self.fold(seq.len() as u64), |key, slot| {
            key.fold(slot.map_or(u64::MAX, u64::from))
        })
    }

    /// 64 random bits.
    pub const fn bits(self) -> u64 {
        mix(self.0.wrapping_add(GOLDEN))
    }

    /// A uniform number strictly between 0 and 1, with 53 random bits.
    pub fn uniform(self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
    }

    /// A uniform integer in `0..n`; the bias is below n / 2⁶⁴.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below(self, n: usize) -> usize {
        assert!(n > 0, "no integer lies below 0");
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }
}
