//! Choices read from bytes.

/// A string of bytes as a source of choices; where it ends, every choice is the first.
pub struct Choices<'a> {
    bytes: &'a [u8],
}

/// Numbers at which things break.
const EDGES: &[u64] = &[
    0,
    1,
    2,
    3,
    7,
    8,
    12,
    16,
    31,
    63,
    64,
    65,
    100,
    255,
    256,
    1000,
    4096,
    65_535,
    65_536,
    65_537,
    100_000,
    1_000_000,
    1_000_001,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 53,
    1 << 63,
    u64::MAX,
];

impl<'a> Choices<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((&first, rest)) => {
                self.bytes = rest;
                first
            }
            None => 0,
        }
    }

    /// A number below `n`, which is at least 1.
    pub fn below(&mut self, n: usize) -> usize {
        let wide = u16::from_le_bytes([self.byte(), if n > 256 { self.byte() } else { 0 }]);
        usize::from(wide) % n
    }

    /// True in about `of` cases of 256.
    pub fn chance(&mut self, of: u8) -> bool {
        self.byte() > 255 - of
    }

    pub fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }

    /// A number from the edges, or near one.
    pub fn number(&mut self) -> u64 {
        let edge = *self.pick(EDGES);
        edge.wrapping_add(self.below(3) as u64).wrapping_sub(1)
    }

    /// A small number, seldom an edge.
    pub fn small(&mut self, n: usize) -> u64 {
        if self.chance(8) { self.number() } else { self.below(n) as u64 }
    }

    /// A float of any kind.
    pub fn float(&mut self) -> f64 {
        const KINDS: &[f64] = &[
            0.0,
            1.0,
            0.5,
            0.1,
            -1.0,
            2.0,
            10.0,
            1e-9,
            1e9,
            1e300,
            -1e300,
            1e-300,
            1.9e19,
            -0.0,
            f64::MAX,
            f64::MIN_POSITIVE,
        ];
        *self.pick(KINDS)
    }

    /// A text of words, marks and characters that grammars care about.
    pub fn text(&mut self, longest: usize) -> String {
        const PIECES: &[&str] = &[
            "w1",
            "w2",
            "w3",
            " ",
            "a",
            "the",
            "é",
            "→",
            "\u{1b}[31m",
            "\n",
            "\t",
            "\"",
            "'",
            "\\",
            "[",
            "]",
            "(",
            ")",
            "{",
            "}",
            "|",
            "*",
            "+",
            "?",
            ".",
            ":",
            ",",
            "#",
            "%",
            "[MASK]",
            "\u{0}",
            "🙂",
            "\u{202e}",
            "0",
            "9",
            "-",
            "=",
            "/",
            "&",
            "null",
            "e\u{301}",
        ];
        let pieces = self.below(longest.max(1));
        (0..pieces).map(|_| *self.pick(PIECES)).collect()
    }
}
