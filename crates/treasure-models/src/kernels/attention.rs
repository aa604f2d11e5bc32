//! Softmax attention of ragged sequences, one task per (sequence, key head), with rotary fused in.
//!
//! A query's sums run over its keys in increasing position, in blocks at fixed positions; keys it does not
//! see weigh exactly 0. So its result is bitwise the same whichever queries share its tile, and whether
//! its keys were computed with it or earlier for a shared prefix.

use std::ops::Range;

use super::{
    Aligned, Isa,
    count::count,
    isa::{MulAdd, per_isa},
    linear::PANEL,
    math::{exp, fold_lanes},
    parallel::{Scratch, Shared, for_each_task},
    tile::{DEPTH, Kernel, STRIDE, Tile},
    words::{interleave, narrow, narrow_in_place},
};
use crate::{
    exec::Precision,
    stack::{RotaryTable, Visibility},
};

/// The largest supported head.
pub(crate) const MAX_HEAD_DIM: usize = DEPTH;

/// At least the rows of the largest tile of any set.
const MOST_ROWS: usize = 32;

/// Which keys the queries of a batch may see. Segments follow one another, so that no query can be in two of
/// them: this is what lets threads write their results side by side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segments {
    /// Where the queries of each segment end; they begin where those before it end.
    ends: Vec<usize>,
    keys: Vec<Vec<Range<usize>>>,
}

/// Queries of one sequence and the keys they may see.
#[derive(Clone, Debug)]
pub(crate) struct Segment<'a> {
    /// Rows of `q` and of the result.
    pub queries: Range<usize>,
    /// Rows of `k` and `v`; the `j`-th of them all together has position `j`.
    pub keys: &'a [Range<usize>],
}

impl Segments {
    /// Appends a segment: the next `queries` queries and the rows of their keys.
    pub fn push(&mut self, queries: usize, keys: Vec<Range<usize>>) {
        self.ends.push(self.ends.last().copied().unwrap_or(0) + queries);
        self.keys.push(keys);
    }

    /// How many segments there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The `i`-th segment.
    pub fn at(&self, i: usize) -> Segment<'_> {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        Segment { queries: start..self.ends[i], keys: &self.keys[i] }
    }

    /// All segments.
    pub fn iter(&self) -> impl Iterator<Item = Segment<'_>> {
        (0..self.len()).map(|i| self.at(i))
    }

    /// The longest run of keys.
    pub fn longest(&self) -> usize {
        self.iter().map(|segment| segment.positions()).max().unwrap_or(0)
    }
}

impl Segment<'_> {
    /// How many keys there are, and so positions.
    fn positions(&self) -> usize {
        self.keys.iter().map(Range::len).sum()
    }
}

/// What attention reads.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// Query heads.
    pub heads: usize,
    /// Key heads.
    pub kv_heads: usize,
    /// Components per head.
    pub head_dim: usize,
    /// `[rows, heads · head_dim]`.
    pub q: &'a [f32],
    /// `[rows, kv_heads · head_dim]`.
    pub k: &'a [f32],
    /// `[rows, kv_heads · head_dim]`.
    pub v: &'a [f32],
    /// The position of every query row.
    pub positions: &'a [usize],
    /// Rotation of queries and keys.
    pub rotary: Option<&'a RotaryTable>,
    /// Which keys a query sees.
    pub visibility: Visibility,
    /// What its two products are computed in, `F32` or `Bf16`; softmax is f32 in both.
    pub precision: Precision,
}

/// Attends every segment; the result `[rows, heads · head_dim]` goes to `to`.
pub(crate) fn attend(isa: Isa, inputs: Inputs<'_>, segments: &Segments, to: &mut [f32]) {
    let tasks = segments.len() * inputs.kv_heads;
    let pairs = |s: Segment<'_>| s.queries.len() * s.positions();
    let cost = segments.iter().map(pairs).sum::<usize>() * inputs.heads * inputs.head_dim * 2;
    count(cost);
    let output = Shared::new(to, inputs.heads * inputs.head_dim);
    for_each_task(tasks, cost, |task, scratch, kernel: &mut Option<Kernel>| {
        let kernel = kernel.get_or_insert_with(|| Kernel::new(isa, inputs.precision));
        let segment = segments.at(task / inputs.kv_heads);
        attend_head(kernel, inputs, &segment, task % inputs.kv_heads, scratch, &output);
    });
}

fn attend_head(
    kernel: &Kernel,
    inputs: Inputs<'_>,
    segment: &Segment<'_>,
    kv_head: usize,
    scratch: &mut Scratch,
    output: &Shared<'_>,
) {
    let Inputs { heads, kv_heads, head_dim, precision, .. } = inputs;
    let isa = kernel.isa();
    let (count, per) = (segment.positions(), precision.per_word());
    let head_words = head_dim.div_ceil(per);
    if segment.queries.is_empty() || count == 0 {
        return;
    }
    pack_keys(isa, inputs, segment, kv_head, count, scratch);
    let Scratch { rows, row, tiles: [tile, _], keys, values, .. } = scratch;
    let blocks = count.div_ceil(DEPTH);
    let largest = isa.tile_rows(precision);
    rows.reserve_floats(blocks * largest * STRIDE);
    row.reserve_floats(largest * STRIDE);
    tile.reserve_floats(largest * PANEL);
    let scale = 1.0 / (head_dim as f32).sqrt();
    let group = heads / kv_heads;
    let parts = segment.queries.len().div_ceil(largest);
    for head in kv_head * group..(kv_head + 1) * group {
        for part in 0..parts {
            let n = segment.queries.len();
            let first = segment.queries.start + part * n / parts;
            let size = (part + 1) * n / parts - part * n / parts;
            let queries = row.as_f32_mut();
            let (mut low, mut high) = (count, 0);
            for r in 0..size {
                let q = &inputs.q[(first + r) * heads * head_dim + head * head_dim..][..head_dim];
                let to = &mut queries[r * STRIDE..][..head_dim];
                let position = inputs.positions[first + r];
                rotate(inputs.rotary, position, q, to);
                to.iter_mut().for_each(|x| *x *= scale);
                if precision == Precision::Bf16 {
                    narrow_in_place(isa, to);
                }
                let seen = visible(inputs.visibility, position, count);
                (low, high) = (low.min(seen.start), high.max(seen.end));
            }
            // Scores of panel p go where the weighted sum will read them: block p·32 / DEPTH, stride STRIDE.
            let scores = rows.as_f32_mut();
            for panel in low / PANEL..high.div_ceil(PANEL) {
                let at = panel * PANEL;
                let b = &keys.as_f32()[at * head_words..][..PANEL * head_words];
                let c = &mut scores[at / DEPTH * largest * STRIDE + at % DEPTH..];
                let shape = Tile { rows: size, depth: head_words, c_stride: STRIDE, add: false };
                kernel.multiply(shape, queries, b, c, None);
            }
            let mut sums = [0.0f32; MOST_ROWS];
            for (r, sum) in sums[..size].iter_mut().enumerate() {
                let seen = visible(inputs.visibility, inputs.positions[first + r], count);
                *sum = soften(isa, scores, r * STRIDE, largest * STRIDE, seen, low..high);
                if precision == Precision::Bf16 {
                    for block in low / DEPTH..high.div_ceil(DEPTH) {
                        let len = (high - block * DEPTH).min(DEPTH).next_multiple_of(16);
                        let at = block * largest * STRIDE + r * STRIDE;
                        narrow_in_place(isa, &mut scores[at..][..len]);
                    }
                }
            }
            for panel in 0..head_dim.div_ceil(PANEL) {
                let c = tile.as_f32_mut();
                for block in low / DEPTH..high.div_ceil(DEPTH) {
                    let depth = DEPTH.min(high - block * DEPTH).div_ceil(per);
                    let a = &scores[block * largest * STRIDE..];
                    let at = (panel * count.div_ceil(per) + block * DEPTH / per) * PANEL;
                    let b = &values.as_f32()[at..][..depth * PANEL];
                    let shape =
                        Tile { rows: size, depth, c_stride: PANEL, add: block > low / DEPTH };
                    kernel.multiply(shape, a, b, c, None);
                }
                let width = PANEL.min(head_dim - panel * PANEL);
                for r in 0..size {
                    let inverse = 1.0 / sums[r];
                    // SAFETY: a task is one segment and one key head. `Segments` have no row in common, and the
                    // query heads of different key heads no column, so no other task writes here; this task
                    // holds one spot at a time.
                    let to =
                        unsafe { output.spot(first + r, head * head_dim + panel * PANEL, width) };
                    to.iter_mut().zip(&c[r * PANEL..]).for_each(|(to, x)| *to = x * inverse);
                }
            }
        }
    }
}

/// The positions a query sees.
fn visible(visibility: Visibility, position: usize, count: usize) -> Range<usize> {
    match visibility {
        Visibility::Full => 0..count,
        Visibility::Causal => 0..count.min(position + 1),
        Visibility::Window(reach) => {
            let low = position.saturating_sub(reach).min(count - 1);
            low..count.min(position.saturating_add(reach + 1)).max(low + 1)
        }
    }
}

fn rotate(table: Option<&RotaryTable>, position: usize, from: &[f32], to: &mut [f32]) {
    to.copy_from_slice(from);
    let Some(table) = table else { return };
    let (cos, sin) = table.at(position);
    let half = cos.len();
    let (low, high) = to[..2 * half].split_at_mut(half);
    for (((x, y), c), s) in low.iter_mut().zip(high).zip(cos).zip(sin) {
        (*x, *y) = (*x * c - *y * s, *y * c + *x * s);
    }
}

/// Keys to `[panel of 32 positions][word of head_dim][32]`, values to `[panel of 32 components][word of
/// positions][32]`.
fn pack_keys(
    isa: Isa,
    inputs: Inputs<'_>,
    segment: &Segment<'_>,
    kv_head: usize,
    count: usize,
    scratch: &mut Scratch,
) {
    let Inputs { kv_heads, head_dim, k, v, rotary, precision, .. } = inputs;
    let (panels, per) = (head_dim.div_ceil(PANEL), precision.per_word());
    let (head_words, value_words) = (head_dim.div_ceil(per), count.div_ceil(per));
    let Scratch { keys, values, wide, words, .. } = scratch;
    let wanted: &mut [(&mut Aligned, usize)] = &mut [
        (&mut *keys, count.next_multiple_of(PANEL) * head_words),
        (&mut *values, panels * value_words * PANEL),
        (&mut *wide, head_dim),
        (&mut *words, head_words),
    ];
    wanted.iter_mut().for_each(|(buffer, len)| buffer.reserve_floats(*len));
    let (keys, values, row) =
        (keys.as_f32_mut(), values.as_f32_mut(), &mut wide.as_f32_mut()[..head_dim]);
    words.as_f32_mut()[head_words - 1] = 0.0;
    // Places behind the last key are never visible: their scores are overwritten. Zeros keep stale subnormals,
    // which are slow to multiply, out of the product.
    let tail = count / PANEL * PANEL * head_words;
    keys[tail..count.next_multiple_of(PANEL) * head_words].fill(0.0);
    let place = |source: usize| (source * kv_heads + kv_head) * head_dim;
    for (position, source) in segment.keys.iter().cloned().flatten().enumerate() {
        rotate(rotary, position, &k[place(source)..][..head_dim], row);
        let line = match precision {
            Precision::F32 => &*row,
            _ => {
                narrow(isa, row, &mut words.as_u16_mut()[..head_dim]);
                &words.as_f32()[..head_words]
            }
        };
        let (panel, lane) = (position / PANEL, position % PANEL);
        let to = &mut keys[panel * PANEL * head_words..][..PANEL * head_words];
        to[lane..].iter_mut().step_by(PANEL).zip(line).for_each(|(to, x)| *to = *x);
    }
    // One place behind the last of an odd number of values weighs exactly 0, but must be a number.
    let nothing = [0.0f32; MAX_HEAD_DIM];
    let mut sources = segment.keys.iter().cloned().flatten();
    for word in 0..value_words {
        let mut next =
            || sources.next().map_or(&nothing[..head_dim], |s| &v[place(s)..][..head_dim]);
        let (even, odd) = (next(), if per == 2 { next() } else { &[][..] });
        for (panel, part) in even.chunks(PANEL).enumerate() {
            let to = &mut values[(panel * value_words + word) * PANEL..][..PANEL];
            let (to, rest) = to.split_at_mut(part.len());
            match precision {
                Precision::F32 => to.copy_from_slice(part),
                _ => interleave(isa, part, &odd[panel * PANEL..], to),
            }
            rest.fill(0.0);
        }
    }
}

/// Turns one row of scores into `exp(score − max)`, zero outside `seen`, and returns their sum. `filled`
/// is the part of the row that the tile reads; piece `i` of the row starts at `start + i · piece_stride`.
#[inline(always)]
fn soften_row<F: MulAdd>(
    scores: &mut [f32],
    start: usize,
    piece_stride: usize,
    seen: Range<usize>,
    filled: Range<usize>,
) -> f32 {
    let pieces = filled.start / DEPTH..filled.end.div_ceil(DEPTH);
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; 16];
    for piece in pieces.clone() {
        let base = piece * DEPTH;
        let len = (filled.end - base).min(DEPTH).next_multiple_of(16);
        let row = &mut scores[start + piece * piece_stride..][..len];
        let (low, high) = (seen.start.max(base) - base, seen.end.max(base) - base);
        row[..low.min(len)].fill(f32::NEG_INFINITY);
        row[high.min(len)..].fill(f32::NEG_INFINITY);
        for chunk in row.chunks_exact(16) {
            lanes.iter_mut().zip(chunk).for_each(|(lane, &x)| *lane = larger(*lane, x));
        }
    }
    let max = fold_lanes(lanes, larger);
    let mut sums = [0.0f32; 16];
    for piece in pieces {
        let len = (filled.end - piece * DEPTH).min(DEPTH).next_multiple_of(16);
        let row = &mut scores[start + piece * piece_stride..][..len];
        for chunk in row.chunks_exact_mut(16) {
            for (sum, x) in sums.iter_mut().zip(chunk) {
                *x = exp::<F>(*x - max);
                *sum += *x;
            }
        }
    }
    fold_lanes(sums, |a, b| a + b)
}

per_isa! {
    fn soften(
        scores: &mut [f32],
        start: usize,
        piece_stride: usize,
        seen: Range<usize>,
        filled: Range<usize>,
    ) -> f32 = soften_row;
}
