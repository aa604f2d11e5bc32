//! The forward pass on plain slices: every layer in five parallel sweeps over reused buffers.
//!
//! The last layer runs only for rows that are wanted; all rows give it keys and values. This is exact.

use std::collections::HashMap;

use rayon::prelude::*;
use treasure_core::Stopped;

use super::{network::CpuNetwork, ragged::Ragged};
use crate::{
    exec::{Isa, Past, Precision},
    kernels::{
        Aligned, Inputs, Lie, Linear, Packed, Plain, Segments, Shift, attend, normalise, project,
        project_activated, project_added,
    },
    stack::{Attention, Block, FeedForward, Norm},
};

/// Buffers of a forward pass, kept from one to the next.
#[derive(Default)]
pub(super) struct Arena {
    stream: Aligned,
    q: Aligned,
    k: Aligned,
    v: Aligned,
    context: Aligned,
    hidden: Aligned,
    kept: Aligned,
}

/// Rows per piece of a loop over rows.
const ROWS: usize = 16;

/// Time-dependent vectors of a layer, `parts × width` numbers per owner.
struct Modulated {
    width: usize,
    parts: usize,
    values: Vec<f32>,
}

impl Modulated {
    fn part(&self, owner: usize, part: usize) -> &[f32] {
        &self.values[(owner * self.parts + part) * self.width..][..self.width]
    }

    fn shift(&self, owner: usize, first: usize) -> Shift<'_> {
        Shift { shift: self.part(owner, first), scale: self.part(owner, first + 1) }
    }
}

/// Rows that enter the first layer alike, as the same token at the same learned position: masks of a
/// rotary network, most tokens of siblings. Their queries, keys and values there are the same.
struct Kinds {
    /// One row of each kind.
    first: Vec<usize>,
    /// The kind of every row.
    of: Vec<usize>,
}

impl Kinds {
    fn new(learned: bool, batch: &Ragged) -> Self {
        let mut known: HashMap<(u32, usize), usize> = HashMap::new();
        let mut kinds = Self { first: Vec::new(), of: Vec::with_capacity(batch.tokens.len()) };
        for (row, &token) in batch.tokens.iter().enumerate() {
            let position = if learned { batch.table_rows[row] } else { 0 };
            let next = kinds.first.len();
            let kind = *known.entry((token, position)).or_insert(next);
            if kind == next {
                kinds.first.push(row);
            }
            kinds.of.push(kind);
        }
        kinds
    }

    /// Gives every row what was computed for its kind.
    fn spread(&self, width: usize, from: &[f32], to: &mut [f32]) {
        for (to, kind) in to.chunks_exact_mut(width.max(1)).zip(&self.of) {
            to.copy_from_slice(&from[kind * width..][..width]);
        }
    }
}

/// What the sequences of a batch take from earlier passes and leave for later ones.
pub(super) struct Memory<'a> {
    pub(super) before: &'a [Option<&'a Past>],
    pub(super) after: Vec<Past>,
}

impl Memory<'_> {
    /// Puts the given keys and values of a layer behind those that were computed, and remembers all.
    fn pass(&mut self, layer: usize, batch: &Ragged, [ks, vs]: [(&mut [f32], usize); 2]) {
        let total = batch.tokens.len();
        for (row, &(owner, position)) in (total..).zip(&batch.given) {
            let Some(past) = self.before[owner] else { continue };
            let [k, v] = past.at(layer, position);
            ks.0[row * ks.1..][..ks.1].copy_from_slice(k);
            vs.0[row * vs.1..][..vs.1].copy_from_slice(v);
        }
        for (after, segment) in self.after.iter_mut().zip(batch.kept_segments.iter()) {
            let all = |(from, width): &(&mut [f32], usize)| -> Vec<f32> {
                let ranges = segment.keys.iter();
                ranges
                    .flat_map(|rows| &from[rows.start * width..rows.end * width])
                    .copied()
                    .collect()
            };
            after.push(all(&ks), all(&vs));
        }
    }
}

/// Runs the batch and returns the wanted rows after the final norm, `[kept, width]`; nothing if it was
/// stopped before one of its layers.
pub(super) fn forward(
    network: &CpuNetwork,
    batch: &Ragged,
    mut memory: Option<&mut Memory<'_>>,
    arena: &mut Arena,
    stopped: &Stopped<'_>,
) -> Option<Vec<f32>> {
    let CpuNetwork { cpu, stack, .. } = network;
    let (isa, width) = (cpu.isa, stack.width);
    let rows = batch.tokens.len();
    let Arena { stream, kept, .. } = arena;
    stream.reserve_floats(rows * width);
    kept.reserve_floats(batch.kept.len() * width);
    embed(network, batch, &mut stream.as_f32_mut()[..rows * width]);

    let conditions: Vec<f32> = match &stack.conditioning {
        Some(conditioning) => {
            batch.sigmas.iter().flat_map(|&sigma| conditioning.vector(sigma)).collect()
        }
        None => Vec::new(),
    };
    let modulated = |linear: Option<&Linear>| {
        linear.map(|linear| {
            let mut values = vec![0.0; batch.sigmas.len() * linear.outputs()];
            let load = Plain { values: &conditions, width: linear.inputs() };
            project(isa, batch.sigmas.len(), load, &mut [(linear, &mut values[..])]);
            Modulated { width, parts: linear.outputs() / width, values }
        })
    };

    let every: Vec<usize> = (0..rows).collect();
    if let Some((last, before)) = stack.blocks.split_last() {
        let kinds = Kinds::new(stack.embed.positions.is_some(), batch);
        for (index, block) in before.iter().enumerate() {
            if stopped() {
                return None;
            }
            let modulation = modulated(block.modulation.as_ref().map(|m| &m.0));
            // A modulation may differ between owners of equal rows.
            let shared = index == 0 && modulation.is_none() && !cpu.every_row;
            let kinds = (shared && kinds.first.len() < rows).then_some(&kinds);
            let segments = &batch.segments;
            let (rows, attends) = (&every[..], cpu.careful());
            let layer =
                Layer { index, isa, attends, block, batch, rows, segments, modulation, kinds };
            layer.run(arena, memory.as_deref_mut(), false);
        }
        if stopped() {
            return None;
        }
        let modulation = modulated(last.modulation.as_ref().map(|m| &m.0));
        let layer = Layer {
            index: before.len(),
            isa,
            attends: cpu.careful(),
            block: last,
            batch,
            rows: &batch.kept,
            segments: &batch.kept_segments,
            modulation,
            kinds: None,
        };
        layer.run(arena, memory, true);
    } else {
        let (from, to) = (arena.stream.as_f32(), arena.kept.as_f32_mut());
        copy_rows(&batch.kept, width, from, to);
    }

    let final_modulation = modulated(stack.final_modulation.as_ref());
    let from = &arena.kept.as_f32()[..batch.kept.len() * width];
    let Some(norm) = &stack.final_norm else { return Some(from.to_vec()) };
    let mut result = vec![0.0; from.len()];
    result
        .par_chunks_mut(width)
        .zip(from.par_chunks(width))
        .zip(&batch.kept)
        .with_min_len(ROWS)
        .for_each(|((to, from), &row)| {
            let shift = final_modulation.as_ref().map(|m| m.shift(batch.owners[row], 0));
            normalise(isa, norm, shift, from, to);
        });
    Some(result)
}

fn embed(network: &CpuNetwork, batch: &Ragged, stream: &mut [f32]) {
    let (embed, width, isa) = (&network.stack.embed, network.stack.width, network.cpu.isa);
    let scratch = || vec![0.0f32; width];
    stream.par_chunks_mut(width).enumerate().with_min_len(ROWS).for_each_init(
        scratch,
        |other, (row, to)| {
            network.read_token(batch.tokens[row], to);
            let mut add = |more: &[f32]| to.iter_mut().zip(more).for_each(|(to, x)| *to += x);
            if let Some(constant) = &embed.constant {
                add(constant);
            }
            if let Some((table, _)) = &embed.positions {
                table.read(batch.table_rows[row], other);
                add(other);
            }
            if let Some(norm) = &embed.norm {
                other.copy_from_slice(to);
                normalise(isa, norm, None, other, to);
            }
        },
    );
}

fn copy_rows(rows: &[usize], width: usize, from: &[f32], to: &mut [f32]) {
    for (to, row) in to.chunks_exact_mut(width).zip(rows) {
        to.copy_from_slice(&from[row * width..][..width]);
    }
}

fn normalise_in_place(isa: Isa, norm: &Norm, rows: &mut [f32]) {
    let width = norm.weight.len();
    let scratch = || vec![0.0f32; width];
    rows.par_chunks_mut(width).with_min_len(ROWS).for_each_init(scratch, |other, row| {
        other.copy_from_slice(row);
        normalise(isa, norm, None, other, row);
    });
}

/// One block on the rows that are to move on.
struct Layer<'a> {
    /// Which one it is.
    index: usize,
    isa: Isa,
    /// What attention is computed in.
    attends: Precision,
    block: &'a Block<Linear>,
    batch: &'a Ragged,
    rows: &'a [usize],
    segments: &'a Segments,
    modulation: Option<Modulated>,
    /// In the first layer: rows with the same input.
    kinds: Option<&'a Kinds>,
}

impl Layer<'_> {
    /// Runs the block on `arena.stream` in place, or as the last one from there into `arena.kept`.
    fn run(&self, arena: &mut Arena, memory: Option<&mut Memory<'_>>, last: bool) {
        let Layer { index, isa, attends, block, batch, rows, segments, modulation, kinds } = self;
        let isa = *isa;
        let Block { attention, feed_forward, post_norm, .. } = block;
        let Attention { heads, kv_heads, head_dim, q, k, v, o, rotary, visibility } = attention;
        let (width, total, count) = (o.outputs(), batch.tokens.len(), rows.len());
        let Arena { stream, q: qs, k: ks, v: vs, context, hidden, kept } = arena;
        qs.reserve_floats(count * q.outputs());
        let known = total + batch.given.len();
        ks.reserve_floats(known * k.outputs());
        vs.reserve_floats(known * v.outputs());
        context.reserve_floats(count * q.outputs());
        // Rows of bytes are scaled when they are whole, so that they cannot be written for the next product.
        let FeedForward { up, down, .. } = feed_forward;
        let (lie, inner) = match up.precision() {
            same if same == down.precision() && same != Precision::Int8 => {
                (Lie::Packed, Packed::words(count, up.outputs(), same))
            }
            _ => (Lie::Rows, count * up.outputs()),
        };
        hidden.reserve_floats(inner);
        let owner = |row: usize| batch.owners[rows[row]];

        // The norm of a branch is applied while its rows are copied for the product.
        let branch = |norm: Option<&Norm>,
                      shift: Option<Shift<'_>>,
                      from: &[f32],
                      to: &mut [f32]| match norm {
            Some(norm) if !post_norm => normalise(isa, norm, shift, from, to),
            _ => to.copy_from_slice(from),
        };
        {
            let stream = stream.as_f32();
            let row_of = |row: usize| &stream[row * width..][..width];
            let of_any = |row: usize, to: &mut [f32]| {
                let shift = modulation.as_ref().map(|m| m.shift(batch.owners[row], 0));
                branch(block.attn_norm.as_ref(), shift, row_of(row), to);
            };
            let (qs, ks, vs) = (
                &mut qs.as_f32_mut()[..count * q.outputs()],
                &mut ks.as_f32_mut()[..total * k.outputs()],
                &mut vs.as_f32_mut()[..total * v.outputs()],
            );
            if last {
                project(isa, total, of_any, &mut [(k, ks), (v, vs)]);
                project(
                    isa,
                    count,
                    |row: usize, to: &mut [f32]| of_any(rows[row], to),
                    &mut [(q, qs)],
                );
            } else if let Some(kinds) = kinds {
                let count = kinds.first.len();
                let [mut few_q, mut few_k, mut few_v] =
                    [q, k, v].map(|linear| vec![0.0; count * linear.outputs()]);
                let mut jobs = [(q, &mut few_q[..]), (k, &mut few_k[..]), (v, &mut few_v[..])];
                project(
                    isa,
                    count,
                    |kind: usize, to: &mut [f32]| of_any(kinds.first[kind], to),
                    &mut jobs,
                );
                kinds.spread(q.outputs(), &few_q, qs);
                kinds.spread(k.outputs(), &few_k, ks);
                kinds.spread(v.outputs(), &few_v, vs);
            } else {
                project(isa, total, of_any, &mut [(q, qs), (k, ks), (v, vs)]);
            }
        }
        if let Some(memory) = memory {
            let (ks, vs) = (ks.as_f32_mut(), vs.as_f32_mut());
            memory.pass(*index, batch, [(ks, k.outputs()), (vs, v.outputs())]);
        }
        let positions: Vec<usize>;
        let positions = if last {
            positions = rows.iter().map(|&row| batch.positions[row]).collect();
            &positions
        } else {
            &batch.positions
        };
        let table = rotary.as_ref().map(|rotary| rotary.table(batch.segments.longest()));
        let inputs = Inputs {
            heads: *heads,
            kv_heads: *kv_heads,
            head_dim: *head_dim,
            q: &qs.as_f32()[..count * q.outputs()],
            k: ks.as_f32(),
            v: vs.as_f32(),
            positions,
            rotary: table.as_deref(),
            visibility: *visibility,
            precision: *attends,
        };
        attend(isa, inputs, segments, &mut context.as_f32_mut()[..count * q.outputs()]);

        let stream = if last {
            copy_rows(rows, width, stream.as_f32(), kept.as_f32_mut());
            &mut kept.as_f32_mut()[..count * width]
        } else {
            &mut stream.as_f32_mut()[..count * width]
        };
        let from_context = Plain { values: context.as_f32(), width: q.outputs() };
        let gate =
            |part: usize| move |row: usize| modulation.as_ref().map(|m| m.part(owner(row), part));
        project_added(isa, count, from_context, o, gate(2), stream);
        if let (true, Some(norm)) = (*post_norm, &block.attn_norm) {
            normalise_in_place(isa, norm, stream);
        }

        let FeedForward { gate: ff_gate, up, activation, down } = feed_forward;
        let hidden = &mut hidden.as_f32_mut()[..inner];
        let of_kept = |row: usize, to: &mut [f32]| {
            let shift = modulation.as_ref().map(|m| m.shift(owner(row), 3));
            branch(block.ff_norm.as_ref(), shift, &stream[row * width..][..width], to);
        };
        let gate_of = ff_gate.as_ref();
        project_activated(isa, count, of_kept, gate_of, up, *activation, lie, hidden);
        match lie {
            Lie::Packed => {
                let packed = Packed::new(hidden, count);
                project_added(isa, count, packed, down, gate(5), stream);
            }
            Lie::Rows => {
                let plain = Plain { values: hidden, width: down.inputs() };
                project_added(isa, count, plain, down, gate(5), stream);
            }
        }
        if let (true, Some(norm)) = (*post_norm, &block.ff_norm) {
            normalise_in_place(isa, norm, stream);
        }
    }
}
