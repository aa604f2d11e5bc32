//! Rows of activations times packed weights, with the work before and after fused in.
//!
//! Sums run along k in one fixed order ([`super::tile`]); threads share out rows and panels, never k. A
//! thread copies its rows to a fixed stride once (normalising them on the way if asked), then streams over
//! panels; finished tiles get bias, activation, gate or residual while still in the nearest cache.

mod shares;

use bytemuck::cast_slice_mut;
use shares::Shares;

use super::{
    Isa,
    count::count,
    linear::{Linear, PANEL},
    math::activate,
    parallel::{Scratch, Shared, for_each_task},
    rows::{Lie, Packed, Rows},
    tile::{DEPTH, Kernel, STRIDE, Tile},
    widen::{widen_bf16, widen_f16, widen_int8},
    words::{narrow, narrow_in_place, quantise, rescale},
};
use crate::{
    exec::{Precision, Storage},
    stack::Activation,
};

/// Rows that a product on tiles takes in one block: few enough for the second-level cache, enough to share a panel.
pub(crate) const ROWS_OF_TILES: usize = 320;

/// One or two matrices whose panels are computed side by side. All jobs of a product have one precision.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub first: &'a Linear,
    pub second: Option<&'a Linear>,
}

/// Where a finished tile belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    /// Index of the job.
    pub job: usize,
    /// First row of the tile.
    pub row: usize,
    /// First output of the panel.
    pub column: usize,
    /// Outputs of the panel; the tile is 32 wide all the same.
    pub width: usize,
}

/// Multiplies `rows` rows with every job; `sink(spot, tile, second)`
/// receives finished tiles of raw products (`[rows][32]`), each exactly once.
pub(crate) fn product(
    isa: Isa,
    rows: usize,
    jobs: &[Job<'_>],
    load: impl Rows,
    sink: impl Fn(Spot, &mut [f32], &[f32]) + Sync,
) {
    let Some(Job { first, .. }) = jobs.first() else { return };
    let inputs = first.inputs();
    let one_kind = |linear: &Linear| linear.precision() == first.precision();
    debug_assert!(jobs.iter().all(|job| one_kind(job.first) && job.second.is_none_or(one_kind)));
    let panels = |job: &Job<'_>| job.first.outputs().div_ceil(PANEL);
    let units: usize = jobs.iter().map(panels).sum();
    if rows == 0 || units == 0 {
        return;
    }
    let (grain, from_file) = (isa.row_grain(first.precision()), first.mapped().is_some());
    let shares = Shares::new(rows, grain, first.words(), units, from_file);
    let outputs = |job: &Job<'_>| job.first.outputs() * if job.second.is_some() { 2 } else { 1 };
    count(rows * inputs * jobs.iter().map(outputs).sum::<usize>());
    for_each_task(
        shares.tasks(),
        rows * units * PANEL * inputs,
        |task, scratch, (held, kernel): &mut (Option<usize>, Option<Kernel>)| {
            let kernel = kernel.get_or_insert_with(|| Kernel::new(isa, first.precision()));
            let (block, rows, units) = shares.task(task);
            let packed = load.packed().map(|packed| (packed, rows.start));
            if *held != Some(block) {
                if packed.is_none() {
                    copy_rows(isa, first, rows.clone(), scratch, &load);
                }
                for tile in &mut scratch.tiles {
                    tile.reserve_floats(isa.whole_rows(first.precision(), rows.len()) * PANEL);
                }
                *held = Some(block);
            }
            // The job of a unit and where its panels begin; units come in increasing order.
            let (mut job, mut start) = (0, 0);
            for unit in units {
                while unit >= start + panels(&jobs[job]) {
                    start += panels(&jobs[job]);
                    job += 1;
                }
                let Job { first, second } = jobs[job];
                let panel = unit - start;
                panel_product(kernel, first, panel, rows.len(), packed, scratch, 0);
                if let Some(second) = second {
                    panel_product(kernel, second, panel, rows.len(), packed, scratch, 1);
                }
                let column = panel * PANEL;
                let width = PANEL.min(first.outputs() - column);
                let [tile, other] = &mut scratch.tiles;
                let other =
                    if second.is_some() { &other.as_f32()[..rows.len() * PANEL] } else { &[] };
                let spot = Spot { job, row: rows.start, column, width };
                sink(spot, &mut tile.as_f32_mut()[..rows.len() * PANEL], other);
            }
        },
    );
}

/// Copies rows to `[block of words][row][STRIDE]`, in the words that `linear` is multiplied in.
fn copy_rows(
    isa: Isa,
    linear: &Linear,
    rows: std::ops::Range<usize>,
    scratch: &mut Scratch,
    load: &impl Rows,
) {
    let (count, inputs, words) = (rows.len(), linear.inputs(), linear.words());
    let Scratch { rows: to, row: wide, words: line, scales, .. } = scratch;
    // Behind the last row, as far as the kernel reads; what is there is never looked at.
    let behind = isa.whole_rows(linear.precision(), count) - count;
    to.reserve_floats((words.div_ceil(DEPTH).max(1) * count + behind) * STRIDE);
    wide.reserve_floats(inputs);
    line.reserve_floats(words);
    scales.resize(count, 0.0);
    let (wide, to) = (&mut wide.as_f32_mut()[..inputs], to.as_f32_mut());
    // What the words behind the last input hold meets weights of 0, but must be a number.
    line.as_f32_mut()[words.saturating_sub(1)..words].fill(0.0);
    for (r, index) in rows.enumerate() {
        if linear.precision() == Precision::F32 && inputs <= DEPTH {
            load.load(index, &mut to[r * STRIDE..][..inputs]);
            continue;
        }
        let row = match load.lying(index) {
            Some(row) => row,
            None => {
                load.load(index, wide);
                &*wide
            }
        };
        let row = match linear.precision() {
            Precision::F32 => row,
            Precision::Bf16 => {
                for (block, part) in row.chunks(2 * DEPTH).enumerate() {
                    let to = &mut to[(block * count + r) * STRIDE..][..part.len().div_ceil(2)];
                    if let (Some(last), true) = (to.last_mut(), part.len() % 2 == 1) {
                        *last = 0.0;
                    }
                    narrow(isa, part, &mut cast_slice_mut(to)[..part.len()]);
                }
                continue;
            }
            Precision::Int8 => {
                scales[r] = quantise(isa, row, &mut line.as_u8_mut()[..inputs]);
                &line.as_f32()[..words]
            }
        };
        for (block, part) in row.chunks(DEPTH).enumerate() {
            to[(block * count + r) * STRIDE..][..part.len()].copy_from_slice(part);
        }
    }
}

/// One panel of a matrix times the rows that were copied, or packed rows from one on, into
/// `scratch.tiles[which]`.
fn panel_product(
    kernel: &Kernel,
    linear: &Linear,
    panel: usize,
    rows: usize,
    packed: Option<(&Packed<'_>, usize)>,
    scratch: &mut Scratch,
    which: usize,
) {
    let words = linear.words();
    let Scratch { rows: a, tiles: results, wide, lines, scales, .. } = scratch;
    let c = results[which].as_f32_mut();
    let (a, first, all) = match packed {
        Some((packed, first)) => (packed.values, first, packed.rows),
        None => (a.as_f32(), 0, rows),
    };
    if words == 0 {
        c[..rows * PANEL].fill(0.0);
    }
    let (isa, kind) = (kernel.isa(), linear.precision());
    for block in 0..words.div_ceil(DEPTH) {
        let depth = DEPTH.min(words - block * DEPTH);
        let at = (panel * words + block * DEPTH) * PANEL;
        let b = weights(isa, linear, at, depth, panel, wide, lines);
        // The panel that comes next lies right behind this one, unless weights are widened elsewhere.
        let coming = b.as_ptr().wrapping_add(depth * PANEL);
        let lies = kind != Precision::F32 || linear.storage() == Storage::F32;
        let in_place = lies && linear.mapped().is_none();
        let shape = Tile { rows, depth, c_stride: PANEL, add: block > 0 };
        let a = &a[(block * all + first) * STRIDE..];
        kernel.multiply(shape, a, b, c, in_place.then_some(coming));
    }
    if kind == Precision::Int8 && words > 0 {
        let (at, tile) = (panel * PANEL, &mut c[..rows * PANEL]);
        let (factors, offsets) =
            (&linear.scales()[at..][..PANEL], &linear.offsets()[at..][..PANEL]);
        rescale(isa, tile, &scales[..rows], factors, offsets);
    }
}

/// A block of a panel in words: in place, or widened into `wide`, from a mapped file by way of `lines`.
fn weights<'a>(
    isa: Isa,
    linear: &'a Linear,
    at: usize,
    depth: usize,
    panel: usize,
    wide: &'a mut super::Aligned,
    lines: &mut super::Aligned,
) -> &'a [f32] {
    let (len, panels) = (depth * PANEL, linear.panels());
    if let Some(rows) = linear.mapped() {
        wide.reserve_floats(DEPTH * PANEL);
        let to = &mut wide.as_f32_mut()[..len];
        let first = at / PANEL - panel * linear.words();
        linear.gather(isa, rows, panel, first, lines, to);
        return to;
    }
    if linear.precision() != Precision::F32 {
        return &panels.as_f32()[at..][..len];
    }
    wide.reserve_floats(DEPTH * PANEL);
    let to = &mut wide.as_f32_mut()[..len];
    match linear.storage() {
        Storage::F32 | Storage::File => return &panels.as_f32()[at..][..len],
        Storage::Bf16 => widen_bf16(isa, &panels.as_u16()[at..][..len], to),
        Storage::F16 => widen_f16(isa, &panels.as_u16()[at..][..len], to),
        Storage::Int8 => {
            let scales = &linear.scales()[panel * PANEL..][..PANEL];
            widen_int8(isa, &panels.as_i8()[at..][..len], scales, to);
        }
    }
    to
}

/// Copies a row of a tile; the whole width of floats or of words, by far the usual cases, without a call.
fn copy(from: &[f32], to: &mut [f32]) {
    fn fixed<const N: usize>(from: &[f32], to: &mut [f32]) -> bool {
        match (<&[f32; N]>::try_from(from), <&mut [f32; N]>::try_from(to)) {
            (Ok(from), Ok(to)) => *to = *from,
            _ => return false,
        }
        true
    }
    if !fixed::<PANEL>(from, to) && !fixed::<{ PANEL / 2 }>(from, to) {
        to.copy_from_slice(from);
    }
}

fn add_bias(linear: &Linear, column: usize, width: usize, values: &mut [f32]) {
    if let Some(bias) = linear.bias() {
        values.iter_mut().zip(&bias[column..][..width]).for_each(|(x, b)| *x += b);
    }
}

/// `to = W x + b` for several matrices on the same rows; `to[j]` is row-major with `W[j].outputs()` columns.
pub(crate) fn project(isa: Isa, rows: usize, load: impl Rows, jobs: &mut [(&Linear, &mut [f32])]) {
    let list: Vec<Job<'_>> =
        jobs.iter().map(|(linear, _)| Job { first: linear, second: None }).collect();
    let outputs: Vec<Shared<'_>> =
        jobs.iter_mut().map(|(linear, to)| Shared::new(to, linear.outputs())).collect();
    product(isa, rows, &list, load, |spot, tile, _| {
        let linear = list[spot.job].first;
        for (r, values) in tile.chunks_exact_mut(PANEL).enumerate() {
            let values = &mut values[..spot.width];
            add_bias(linear, spot.column, spot.width, values);
            // SAFETY: `product` delivers every tile of every job once, tiles do not overlap, each job has an
            // output of its own, and one spot is held at a time.
            let to = unsafe { outputs[spot.job].spot(spot.row + r, spot.column, spot.width) };
            copy(values, to);
        }
    });
}

/// `to = activation(W x + b)`, or with a gate `activation(G x + g) · (W x + b)`.
#[expect(clippy::too_many_arguments, reason = "a product with everything fused in")]
pub(crate) fn project_activated(
    isa: Isa,
    rows: usize,
    load: impl Rows,
    gate: Option<&Linear>,
    up: &Linear,
    activation: Activation,
    lie: Lie,
    to: &mut [f32],
) {
    let job = match gate {
        Some(gate) => Job { first: gate, second: Some(up) },
        None => Job { first: up, second: None },
    };
    let stride = if lie == Lie::Packed { STRIDE } else { up.outputs() };
    let halved = lie == Lie::Packed && up.precision() == Precision::Bf16;
    let output = Shared::new(to, stride);
    product(isa, rows, &[job], load, |spot, tile, second| {
        for values in tile.chunks_exact_mut(PANEL) {
            add_bias(job.first, spot.column, spot.width, values);
        }
        activate(isa, activation, tile);
        for (values, other) in tile.chunks_exact_mut(PANEL).zip(second.chunks_exact(PANEL)) {
            let values = values.iter_mut().zip(other);
            match up.bias().map(|bias| &bias[spot.column..][..spot.width]) {
                Some(bias) => values.zip(bias).for_each(|((to, x), b)| *to *= x + b),
                None => values.for_each(|(to, x)| *to *= x),
            }
        }
        let (per, width) = if halved { (2, spot.width.div_ceil(2)) } else { (1, spot.width) };
        if halved {
            // An odd last output has a neighbour in its word, which meets a weight of 0 but must be a number.
            if spot.width % 2 == 1 {
                tile.chunks_exact_mut(PANEL).for_each(|row| row[spot.width] = 0.0);
            }
            narrow_in_place(isa, tile);
        }
        let lines = tile.chunks_exact(PANEL / per).take(tile.len() / PANEL);
        for (r, values) in lines.enumerate() {
            let (row, column) = match lie {
                Lie::Rows => (spot.row + r, spot.column),
                Lie::Packed => Packed::spot(rows, spot.row + r, spot.column / per),
            };
            // SAFETY: `product` delivers every tile once and tiles do not overlap, in either lie: `Packed::spot`
            // maps different places to different places. One spot is held at a time.
            let to = unsafe { output.spot(row, column, width) };
            copy(&values[..width], to);
        }
    });
}

/// `to += gate · (W x + b)`; `gate(row)` is the factor per output of a time-conditioned network.
pub(crate) fn project_added<'g>(
    isa: Isa,
    rows: usize,
    load: impl Rows,
    linear: &Linear,
    gate: impl Fn(usize) -> Option<&'g [f32]> + Sync,
    to: &mut [f32],
) {
    let output = Shared::new(to, linear.outputs());
    product(isa, rows, &[Job { first: linear, second: None }], load, |spot, tile, _| {
        for (r, values) in tile.chunks_exact_mut(PANEL).enumerate() {
            let values = &mut values[..spot.width];
            add_bias(linear, spot.column, spot.width, values);
            // SAFETY: `product` delivers every tile once, tiles do not overlap, and one spot is held at a time.
            let to = unsafe { output.spot(spot.row + r, spot.column, spot.width) };
            match gate(spot.row + r) {
                None => to.iter_mut().zip(values).for_each(|(to, x)| *to += *x),
                Some(gate) => {
                    let gate = &gate[spot.column..][..spot.width];
                    to.iter_mut().zip(values).zip(gate).for_each(|((to, x), g)| *to += *x * g);
                }
            }
        }
    });
}

/// The outputs `W x + b` of one panel for one row, by the same arithmetic as [`product`].
pub(crate) fn panel_of_row(
    isa: Isa,
    linear: &Linear,
    panel: usize,
    row: &[f32],
    scratch: &mut Scratch,
) -> [f32; PANEL] {
    copy_rows(isa, linear, 0..1, scratch, &|_, to: &mut [f32]| to.copy_from_slice(row));
    let kernel = Kernel::new(isa, linear.precision());
    scratch.tiles[0].reserve_floats(isa.whole_rows(linear.precision(), 1) * PANEL);
    panel_product(&kernel, linear, panel, 1, None, scratch, 0);
    let mut values = [0.0; PANEL];
    values.copy_from_slice(&scratch.tiles[0].as_f32()[..PANEL]);
    let column = panel * PANEL;
    add_bias(linear, column, PANEL.min(linear.outputs() - column), &mut values);
    values
}
