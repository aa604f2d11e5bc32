//! A network packed for the CPU: hidden states, heads and text scores of ragged batches.

use std::{
    cell::Cell,
    ops::Range,
    sync::{Mutex, PoisonError},
};

use rayon::prelude::*;
use treasure_core::{Stopped, lend};

use super::{
    Cpu,
    forward::{Arena, Memory, forward},
    ragged::{Ragged, common_prefix},
};
use crate::{
    Error, Result,
    exec::{Forward, Past, Precision, RowAnswer, RowQuestion, Sequence, Storage},
    kernels::{
        self, Lie, Linear, MAX_INT8_INPUTS, Plain, ROWS_OF_TILES, Table, normalise, project,
        project_activated,
    },
    stack::{Head, HeadTransform, Matrix, Network, Norm, Reader, Stack, Tokens},
    weights::all_finite,
};

/// Rows in flight at once: bounds the memory of a forward pass whatever the batch.
const ROWS_IN_FLIGHT: usize = 1024;

/// The same for each thread, where threads work side by side.
const ROWS_OF_A_THREAD: usize = 224;

/// Fewer rows than this are better shared by all threads.
const WORTH_A_THREAD: usize = 32;

/// Bytes of a layer that every thread may well read on its own.
const SMALL_LAYER: usize = 10 << 20;

/// The same where tiles multiply faster than weights come from afar.
const SMALL_LAYER_OF_TILES: usize = 4 << 20;

/// A network in the form the kernels read. Cheap to share: buffers are pooled, results do not depend on who
/// else runs.
pub(super) struct CpuNetwork {
    pub(super) cpu: Cpu,
    pub(super) stack: Stack<Linear, Table>,
    reader: Reader<Linear>,
    /// Whether threads take a portion of a batch each instead of sharing one.
    side_by_side: bool,
    bytes: usize,
    arenas: Mutex<Vec<Arena>>,
}

impl std::fmt::Debug for CpuNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CpuNetwork({:?}, {} bytes)", self.cpu.isa, self.bytes)
    }
}

impl CpuNetwork {
    pub fn pack(cpu: Cpu, network: Network, storage: Storage) -> Result<Self> {
        let (stack, reader) = network.into_parts();
        let bytes = Cell::new(0);
        let (from_file, storage) = match storage {
            Storage::File => (true, Storage::F32),
            storage => (false, storage),
        };
        // Weights that are multiplied as f32 although others are not, are few or rounded gently: as f32 or bf16.
        let held = match cpu.precision {
            Precision::F32 => storage,
            _ => Storage::F32,
        };
        let pack = |matrix: Matrix, precision: Precision| -> Result<Linear> {
            let linear = Linear::hold(matrix, held, precision, from_file)?;
            bytes.set(bytes.get() + linear.bytes());
            Ok(linear)
        };
        let mut matrix = |matrix: Matrix| match cpu.precision {
            Precision::Int8 if matrix.inputs() > MAX_INT8_INPUTS => pack(matrix, cpu.careful()),
            precision => pack(matrix, precision),
        };
        let storage = match cpu.precision {
            Precision::F32 => storage,
            Precision::Bf16 | Precision::Int8 => Storage::Bf16,
        };
        let mut tables = 0;
        let mut table = |matrix: Matrix| -> Result<Table> {
            let table = Table::hold(matrix, storage, from_file)?;
            tables += table.bytes();
            Ok(table)
        };
        let stack = stack.try_map(&mut matrix, &mut table)?;
        // A head's last bits decide between tokens, a classifier's few outputs cost nothing.
        let of_reader = match &reader {
            Reader::Vocabulary(_) => cpu.careful(),
            Reader::Classes(_) => Precision::F32,
        };
        let reader = reader.try_map(&mut |matrix| pack(matrix, of_reader))?;
        let norms: usize = stack.norms().chain(reader.norm()).map(Norm::bytes).sum();
        let constant = stack.embed.constant.as_ref().map_or(0, |constant| 4 * constant.len());
        let conditioning = stack.conditioning.as_ref().map_or(0, |c| c.bytes());
        let layer = |linears: &mut dyn Iterator<Item = &Linear>| linears.map(Linear::bytes).sum();
        let first: Option<usize> = stack.blocks.first().map(|b| layer(&mut b.matrices()));
        let tiles = cpu.isa.has_tiles(cpu.precision);
        let small = if tiles { SMALL_LAYER_OF_TILES } else { SMALL_LAYER };
        let side_by_side = first.is_some_and(|bytes| bytes <= small) && !cpu.one_by_one;
        let bytes = bytes.get() + tables + norms + constant + conditioning;
        let arenas = Mutex::new(Vec::new());
        Ok(Self { cpu, stack, reader, side_by_side, bytes, arenas })
    }

    /// The row of a token.
    pub fn read_token(&self, token: u32, to: &mut [f32]) {
        match (&self.stack.embed.tokens, &self.reader) {
            (Tokens::Own(table), _) => table.read(token as usize, to),
            (Tokens::Decoder, reader) => reader.first_and_last().1.unpack_row(token as usize, to),
        }
    }

    /// Runs work inside the pool, so that its many short parallel sweeps start without a hand-over.
    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.cpu.pool {
            Some(pool) => pool.install(work),
            None if rayon::current_thread_index().is_some() => work(),
            None => rayon::scope(|_| work()),
        }
    }

    fn forward(
        &self,
        batch: &Ragged,
        memory: Option<&mut Memory<'_>>,
        stopped: &Stopped<'_>,
    ) -> Result<Vec<f32>> {
        let lock = || self.arenas.lock().unwrap_or_else(PoisonError::into_inner);
        let mut arena = lock().pop().unwrap_or_default();
        let rows = self.inside(|| forward(self, batch, memory, &mut arena, stopped));
        lock().push(arena);
        rows.ok_or_else(Error::given_up)
    }

    fn threads(&self) -> usize {
        let pool = self.cpu.pool.as_ref();
        pool.map_or_else(rayon::current_num_threads, |pool| pool.current_num_threads())
    }

    /// Runs portions of a batch, side by side where that is better.
    fn in_portions<T: Send>(
        &self,
        batch: &[Sequence<'_>],
        run: impl Fn(Range<usize>, &Stopped<'_>) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let lengths: Vec<usize> = batch.iter().map(|s| s.tokens.len()).collect();
        let mut end = 0;
        let part = |size| {
            end += size;
            end - size..end
        };
        let parts: Vec<Range<usize>> =
            portions(&lengths, self.most_rows(&lengths)).into_iter().map(part).collect();
        lend(|stopped| {
            let run = |part: &Range<usize>| run(part.clone(), stopped);
            match self.side_by_side && parts.len() > 1 {
                true => self.inside(|| parts.par_iter().with_max_len(1).map(run).collect()),
                false => parts.iter().map(run).collect(),
            }
        })
    }

    /// Rows that all threads take through a wide network together. On tiles, where memory is what they wait for, one
    /// block each: weights come anew for every block anyway, and activations stay nearer.
    fn rows_in_flight(&self) -> usize {
        match self.cpu.isa.has_tiles(self.cpu.precision) {
            true => ROWS_IN_FLIGHT.min(self.threads() * ROWS_OF_TILES),
            false => ROWS_IN_FLIGHT,
        }
    }

    /// Rows that go through the network together. A narrow network runs a portion per thread, small enough
    /// to stay in the caches; a wide one takes all threads to read its weights once for many rows.
    fn most_rows(&self, lengths: &[usize]) -> usize {
        if !self.side_by_side {
            return self.rows_in_flight();
        }
        let threads = self.threads();
        let rows: usize = lengths.iter().sum();
        let turns = rows.div_ceil(threads * ROWS_OF_A_THREAD).max(1);
        let portion = rows.div_ceil(threads * turns);
        if portion < WORTH_A_THREAD { ROWS_OF_A_THREAD } else { portion }
    }

    fn apply(&self, linear: &Linear, rows: &[f32]) -> Vec<f32> {
        let inputs = linear.inputs();
        let count = rows.len() / inputs.max(1);
        let mut to = vec![0.0; count * linear.outputs()];
        let load = Plain { values: rows, width: inputs };
        project(self.cpu.isa, count, load, &mut [(linear, &mut to[..])]);
        to
    }

    /// BERT's transform before the decoder.
    fn transformed(&self, transform: &HeadTransform<Linear>, hidden: &[f32]) -> Vec<f32> {
        let HeadTransform { dense, activation, norm } = transform;
        let (inputs, outputs) = (dense.inputs(), dense.outputs());
        let count = hidden.len() / inputs;
        let mut rows = vec![0.0; count * outputs];
        let load = Plain { values: hidden, width: inputs };
        let isa = self.cpu.isa;
        project_activated(isa, count, load, None, dense, *activation, Lie::Rows, &mut rows);
        if let Some(norm) = norm {
            let mut other = vec![0.0; outputs];
            for row in rows.chunks_exact_mut(outputs) {
                other.copy_from_slice(row);
                normalise(isa, norm, None, &other, row);
            }
        }
        rows
    }

    /// Answers through a vocabulary head; nothing without one, which the caller has checked.
    fn answers(&self, rows: &[f32], questions: &[RowQuestion<'_>]) -> Vec<RowAnswer> {
        let Reader::Vocabulary(Head { transform, decoder }) = &self.reader else {
            return Vec::new();
        };
        self.inside(|| match transform {
            Some(transform) => {
                let rows = self.transformed(transform, rows);
                kernels::answer(self.cpu.isa, decoder, &rows, questions)
            }
            None => kernels::answer(self.cpu.isa, decoder, rows, questions),
        })
    }

    fn nll_of_sorted(
        &self,
        batch: &[&[u32]],
        order: &[usize],
        result: &mut [Vec<f64>],
    ) -> Result<()> {
        let inputs: Vec<&[u32]> = order.iter().map(|&i| &batch[i][..batch[i].len() - 1]).collect();
        let (ragged, paths) = Ragged::of_sorted_prefixes(&self.stack.embed, &inputs);
        let hidden = lend(|stopped| self.forward(&ragged, None, stopped))?;
        // Which tokens follow each row, without repeats.
        let mut followers: Vec<Vec<u32>> = vec![Vec::new(); ragged.tokens.len()];
        for (&i, path) in order.iter().zip(&paths) {
            for (row, &token) in path.iter().cloned().flatten().zip(&batch[i][1..]) {
                if !followers[row].contains(&token) {
                    followers[row].push(token);
                }
            }
        }
        let questions: Vec<RowQuestion<'_>> = followers
            .iter()
            .enumerate()
            .map(|(row, tokens)| RowQuestion {
                row,
                normaliser: true,
                tokens,
                ..RowQuestion::default()
            })
            .collect();
        let answers = self.answers(&hidden, &questions);
        for (&i, path) in order.iter().zip(&paths) {
            let pairs = path.iter().cloned().flatten().zip(&batch[i][1..]);
            result[i] = pairs
                .map(|(row, token)| {
                    let at = followers[row].iter().position(|t| t == token);
                    let logit = at.and_then(|at| answers[row].logits.get(at));
                    let logit = logit.map_or(f64::NAN, |&logit| f64::from(logit));
                    answers[row].normaliser.unwrap_or(f64::NAN) - logit
                })
                .collect();
        }
        Ok(())
    }
}

impl Forward for CpuNetwork {
    fn hidden(&self, batch: &[Sequence<'_>]) -> Result<Vec<f32>> {
        let run = |part: Range<usize>, stopped: &Stopped<'_>| {
            self.forward(&Ragged::of_sequences(&self.stack.embed, &batch[part]), None, stopped)
        };
        Ok(self.in_portions(batch, run)?.concat())
    }

    fn hidden_after(
        &self,
        batch: &[Sequence<'_>],
        pasts: &[Option<&Past>],
    ) -> Option<Result<(Vec<f32>, Vec<Past>)>> {
        let run = |part: Range<usize>, stopped: &Stopped<'_>| {
            let (batch, before) = (&batch[part.clone()], &pasts[part]);
            let after = batch.iter().map(|sequence| Past::of(sequence.tokens)).collect();
            let mut memory = Memory { before, after };
            let ragged = Ragged::of_changed(&self.stack.embed, batch, before);
            let rows = self.forward(&ragged, Some(&mut memory), stopped)?;
            Ok((rows, memory.after))
        };
        Some(self.in_portions(batch, run).map(|parts| {
            let (rows, pasts): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            (rows.concat(), pasts.into_iter().flatten().collect())
        }))
    }

    fn reuses(&self) -> bool {
        true
    }

    fn width(&self) -> usize {
        self.stack.width
    }

    fn logits(&self, rows: &[f32]) -> Result<Vec<f32>> {
        self.inside(|| match &self.reader {
            Reader::Vocabulary(Head { transform: Some(transform), decoder }) => {
                Ok(self.apply(decoder, &self.transformed(transform, rows)))
            }
            Reader::Vocabulary(Head { transform: None, decoder }) => Ok(self.apply(decoder, rows)),
            Reader::Classes(classify) => {
                let Some((dense, activation)) = &classify.dense else {
                    return Ok(self.apply(&classify.classifier, rows));
                };
                let mut inner = self.apply(dense, rows);
                // Before ReLU, which would make a plausible 0 of −∞.
                if !all_finite(&inner) {
                    let at = inner.iter().position(|x| !x.is_finite()).unwrap_or(0);
                    let what = format!("dense layer of row {}", at / dense.outputs().max(1));
                    return Err(Error::not_finite(what, inner[at]));
                }
                kernels::activate(self.cpu.isa, *activation, &mut inner);
                Ok(self.apply(&classify.classifier, &inner))
            }
        })
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn ask(&self, rows: &[f32], questions: &[RowQuestion<'_>]) -> Result<Vec<RowAnswer>> {
        Ok(self.answers(rows, questions))
    }

    /// Sequences that agree on a prefix compute it once.
    fn nll(&self, batch: &[&[u32]]) -> Result<Vec<Vec<f64>>> {
        let mut order: Vec<usize> = (0..batch.len()).filter(|&i| batch[i].len() > 1).collect();
        order.sort_unstable_by(|&a, &b| batch[a].cmp(batch[b]));
        let new_rows: Vec<usize> = order
            .iter()
            .enumerate()
            .map(|(at, &i)| {
                let before = if at == 0 { &[][..] } else { batch[order[at - 1]] };
                batch[i].len() - common_prefix(before, batch[i])
            })
            .collect();
        let mut result = vec![Vec::new(); batch.len()];
        let mut start = 0;
        for size in portions(&new_rows, self.rows_in_flight()) {
            self.nll_of_sorted(batch, &order[start..start + size], &mut result)?;
            start += size;
        }
        Ok(result)
    }
}

/// How many consecutive items go together so that portions stay near equal and within `most` rows, unless
/// one item is larger.
fn portions(rows: &[usize], most: usize) -> Vec<usize> {
    let total: usize = rows.iter().sum();
    let target = total.div_ceil(total.div_ceil(most).max(1)).max(1);
    let (mut sizes, mut held, mut size) = (Vec::new(), 0, 0);
    for &more in rows {
        if size > 0 && held + more > most || held >= target {
            sizes.push(size);
            (held, size) = (0, 0);
        }
        held += more;
        size += 1;
    }
    if size > 0 {
        sizes.push(size);
    }
    sizes
}
