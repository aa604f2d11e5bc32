//! Weights in an order that compresses.
//!
//! A file of half-precision numbers hardly compresses as it is. Two things help whoever compresses it later, such as a
//! wheel. The high bytes (sign, exponent, two bits) stand together, away from the low ones, which are noise. And judges
//! that began as the same encoder differ little: rows that resemble a row of another file, the base, are stored as
//! differences, arranged by the exponents of the base, which say how large a difference is.
//!
//! Guarantee: [`unpack`] gives back the bytes that [`pack`] was given, whatever they are.

use std::collections::HashMap;

/// The model whose weights another's are stored beside.
pub(crate) fn base(model: &str) -> Option<&'static str> {
    matches!(model, "judge-sentiment" | "judge-toxicity").then_some("judge-acceptability")
}

/// Numbers a row: the width of the judges, so that rows are rows of their matrices.
const ROW: usize = 384;

/// The row of the base that says: none.
const NONE: u16 = u16::MAX;

/// How many of the first 64 signs may differ between rows that resemble each other.
const MAY_DIFFER: u32 = 12;

/// What a packed file consists of: two lengths, what stands before the numbers, their high bytes, their low bytes, and
/// for each row the row of the base that it resembles.
#[derive(Clone, Copy)]
struct Parts<'p> {
    head: &'p [u8],
    high: &'p [u8],
    low: &'p [u8],
    rows: &'p [[u8; 2]],
}

/// The row of the base that a row resembles: high bytes, low bytes.
type Like<'p> = Option<(&'p [u8], &'p [u8])>;

impl<'p> Parts<'p> {
    fn read(packed: &'p [u8]) -> Option<Self> {
        let (lengths, rest) = packed.split_first_chunk::<16>()?;
        let [head, numbers] = lengths.as_chunks::<8>().0 else { return None };
        let length = |bytes: &[u8; 8]| usize::try_from(u64::from_le_bytes(*bytes)).ok();
        let (head, rest) = rest.split_at_checked(length(head)?)?;
        let (high, rest) = rest.split_at_checked(length(numbers)?)?;
        let (low, rest) = rest.split_at_checked(high.len())?;
        let rows = rest.as_chunks::<2>().0;
        (rows.len() == high.len().div_ceil(ROW)).then_some(Self { head, high, low, rows })
    }

    /// How wide each row of the file is, and what it resembles.
    fn rows(self, base: Option<Self>) -> impl Iterator<Item = (usize, Like<'p>)> {
        let numbers = self.high.len();
        self.rows.iter().enumerate().map(move |(row, resembled)| {
            let from = usize::from(u16::from_le_bytes(*resembled)) * ROW;
            let like = base.and_then(|base| {
                Some((base.high.get(from..from + ROW)?, base.low.get(from..from + ROW)?))
            });
            (ROW.min(numbers - row * ROW), like)
        })
    }

    /// Where the numbers of each exponent of the base begin; those without a base come last.
    fn starts(self, base: Option<Self>) -> [usize; 33] {
        let mut counts = [0; 33];
        for (width, like) in self.rows(base) {
            match like {
                None => counts[32] += width,
                Some((high, _)) => high.iter().for_each(|&byte| counts[exponent(byte)] += 1),
            }
        }
        let mut next = 0;
        counts.map(|count| {
            let start = next;
            next += count;
            start
        })
    }
}

/// The exponent in a high byte.
fn exponent(high: u8) -> usize {
    usize::from(high >> 2) & 31
}

/// Numbers in the order of what they stand for, negative ones first.
fn ordered(word: u16) -> u16 {
    if word & 0x8000 == 0 { word ^ 0x8000 } else { !word }
}

fn unordered(place: u16) -> u16 {
    if place & 0x8000 == 0 { !place } else { place ^ 0x8000 }
}

/// How far a number is from another, small for near ones on either side.
fn apart(word: u16, from: u16) -> u16 {
    let difference = ordered(word).wrapping_sub(ordered(from)).cast_signed();
    ((difference << 1) ^ (difference >> 15)).cast_unsigned()
}

fn back(apart: u16, from: u16) -> u16 {
    let difference = (apart >> 1) ^ (apart & 1).wrapping_neg();
    unordered(ordered(from).wrapping_add(difference))
}

/// Packs a file of numbers, beside a packed base that has none itself.
pub(crate) fn pack(file: &[u8], base: Option<&[u8]>) -> Vec<u8> {
    // In safetensors the length of the header is at the beginning.
    let header = file.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let begin = usize::try_from(header).map_or(file.len(), |length| length.saturating_add(8));
    let begin = begin.min(file.len());
    let begin = begin + (file.len() - begin) % 2;
    let (head, numbers) = file.split_at(begin);
    let words: Vec<u16> =
        numbers.as_chunks::<2>().0.iter().map(|&word| u16::from_le_bytes(word)).collect();
    let base = base.and_then(Parts::read);
    let rows: Vec<[u8; 2]> = match base {
        None => vec![NONE.to_le_bytes(); words.len().div_ceil(ROW)],
        Some(base) => resembled(&words, base).into_iter().map(u16::to_le_bytes).collect(),
    };
    let (mut high, mut low) = (vec![0; words.len()], vec![0; words.len()]);
    let parts = Parts { head, high: &high.clone(), low: &low.clone(), rows: &rows };
    let mut next = parts.starts(base);
    let mut left = words.as_slice();
    for (width, like) in parts.rows(base) {
        let (row, rest) = left.split_at(width);
        left = rest;
        for (index, &word) in row.iter().enumerate() {
            let (class, word) = match like {
                None => (32, word),
                Some((above, below)) => {
                    let from = u16::from_le_bytes([below[index], above[index]]);
                    (exponent(above[index]), apart(word, from))
                }
            };
            [low[next[class]], high[next[class]]] = word.to_le_bytes();
            next[class] += 1;
        }
    }
    let lengths = [head.len() as u64, words.len() as u64].map(u64::to_le_bytes);
    [lengths.as_flattened(), head, &high, &low, rows.as_flattened()].concat()
}

/// For each row the row of the base that resembles it most, by the signs of its first numbers.
fn resembled(words: &[u16], base: Parts) -> Vec<u16> {
    let signs = |row: &mut dyn Iterator<Item = bool>| {
        row.take(64).fold(0_u64, |signs, negative| signs << 1 | u64::from(negative))
    };
    let quarters =
        |signs: u64| (0..4).map(move |quarter| (quarter, signs >> (16 * quarter) & 0xffff));
    let known: Vec<u64> = base
        .high
        .chunks_exact(ROW)
        .take(usize::from(NONE))
        .map(|row| signs(&mut row.iter().map(|&byte| byte >= 0x80)))
        .collect();
    // Rows that resemble each other agree in a quarter of these signs, or nearly always.
    let mut places: HashMap<(u32, u64), Vec<u16>> = HashMap::new();
    for (row, &signs) in (0..).zip(&known) {
        quarters(signs).for_each(|quarter| places.entry(quarter).or_default().push(row));
    }
    let nearest = |row: &[u16]| {
        let own = signs(&mut row.iter().map(|&word| word >= 0x8000));
        let candidates = quarters(own).filter_map(|quarter| places.get(&quarter)).flatten();
        candidates
            .map(|&row| ((known[usize::from(row)] ^ own).count_ones(), row))
            .min()
            .filter(|&(differ, _)| row.len() == ROW && differ <= MAY_DIFFER)
            .map_or(NONE, |(_, row)| row)
    };
    words.chunks(ROW).map(nearest).collect()
}

/// The bytes that were packed beside this base.
pub(crate) fn unpack(packed: &[u8], base: Option<&[u8]>) -> Option<Vec<u8>> {
    let parts = Parts::read(packed)?;
    let base = base.and_then(Parts::read);
    let mut next = parts.starts(base);
    let mut bytes = Vec::with_capacity(parts.head.len() + 2 * parts.high.len());
    bytes.extend_from_slice(parts.head);
    for (width, like) in parts.rows(base) {
        match like {
            None => {
                let from = next[32]..next[32] + width;
                next[32] += width;
                let pairs = parts.low[from.clone()].iter().zip(&parts.high[from]);
                bytes.extend(pairs.flat_map(|(&low, &high)| [low, high]));
            }
            Some((high, low)) => bytes.extend(high.iter().zip(low).flat_map(|(&high, &low)| {
                let at = &mut next[exponent(high)];
                let apart = u16::from_le_bytes([parts.low[*at], parts.high[*at]]);
                *at += 1;
                back(apart, u16::from_le_bytes([low, high])).to_le_bytes()
            })),
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_lead_back_from_every_number_to_every_other() {
        for from in (0..=u16::MAX).step_by(97) {
            for word in 0..=u16::MAX {
                assert_eq!(back(apart(word, from), from), word, "{word:#x} from {from:#x}");
            }
        }
        assert_eq!([apart(0x3c01, 0x3c00), apart(0x3c00, 0x3c01)], [2, 1]);
    }

    #[test]
    fn any_bytes_come_back() {
        let mut state = 1_u64;
        let mut noise = |length: usize| -> Vec<u8> {
            let step = |_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            };
            (0..length).map(step).collect()
        };
        for length in [0, 1, 7, 8, 9, 10, 767, 768, 769, 776, 777, 5000] {
            let mut file = noise(length);
            assert_eq!(unpack(&pack(&file, None), None).as_ref(), Some(&file), "{length} bytes");
            if let Some(header) = file.first_chunk_mut::<8>() {
                *header = 0_u64.to_le_bytes();
            }
            let base = pack(&file, None);
            for more in [0, 4, 40] {
                let mut other = file.clone();
                other.extend(noise(more));
                other.iter_mut().skip(8).step_by(11).for_each(|byte| *byte ^= 1);
                let packed = pack(&other, Some(&base));
                assert_eq!(unpack(&packed, Some(&base)).as_ref(), Some(&other), "{length} bytes");
                assert!(length < 1000 || packed != pack(&other, None), "rows that resemble");
            }
        }
    }
}
