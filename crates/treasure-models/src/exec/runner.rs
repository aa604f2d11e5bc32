//! The fast executor: hidden states, heads, text scores and classes of ragged batches.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use rayon::prelude::*;

use super::{
    ExecError, Isa, Keep, RowAnswer, RowQuestion, Sequence,
    forward::{Arena, forward},
    ragged::{Ragged, check_sequence, common_prefix},
};
use crate::{
    kernels::{self, Lie, Plain, normalise, project, project_activated},
    stack::{Classify, Head, Linear, Stack},
    weights::all_finite,
};

/// Runs networks on the CPU. Cheap to share: buffers are pooled, results do not depend on who else runs.
#[derive(Default)]
pub struct Runner {
    isa: Option<Isa>,
    pool: Option<Arc<rayon::ThreadPool>>,
    arenas: Mutex<Vec<Arena>>,
    every_row: bool,
    one_by_one: bool,
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Runner({:?})", self.isa())
    }
}

/// Final hidden states, sequence by sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Hidden {
    width: usize,
    values: Vec<f32>,
    ends: Vec<usize>,
}

impl Hidden {
    /// Numbers per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// All rows, `[rows, width]`.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The rows a sequence kept, in the order it asked for them.
    pub fn of(&self, sequence: usize) -> &[f32] {
        let start = if sequence == 0 { 0 } else { self.ends[sequence - 1] };
        &self.values[start * self.width..self.ends[sequence] * self.width]
    }
}

/// Rows in flight at once: bounds the memory of a forward pass whatever the batch.
const ROWS_IN_FLIGHT: usize = 1024;

/// The same for each thread, where threads work side by side.
const ROWS_OF_A_THREAD: usize = 224;

/// Fewer rows than this are better shared by all threads.
const WORTH_A_THREAD: usize = 56;

impl Runner {
    /// A runner on the machine's best instructions and the current thread pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same on chosen instructions, for tests; sets the machine does not have are ignored.
    pub fn with_isa(mut self, isa: Isa) -> Self {
        self.isa = Isa::available().contains(&isa).then_some(isa);
        self
    }

    /// The same on its own threads.
    pub fn with_pool(mut self, pool: Arc<rayon::ThreadPool>) -> Self {
        self.pool = Some(pool);
        self
    }

    /// The same without sharing between rows that enter the first layer alike, for tests: no bit may differ.
    pub fn every_row(mut self) -> Self {
        self.every_row = true;
        self
    }

    /// The same with one portion of a batch after another whatever the network, for tests: no bit may differ.
    #[cfg(test)]
    pub(super) fn one_by_one(mut self) -> Self {
        self.one_by_one = true;
        self
    }

    fn isa(&self) -> Isa {
        self.isa.unwrap_or_else(Isa::best)
    }

    /// Runs work inside the pool, so that its many short parallel sweeps start without a hand-over.
    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.pool {
            Some(pool) => pool.install(work),
            None if rayon::current_thread_index().is_some() => work(),
            None => rayon::scope(|_| work()),
        }
    }

    fn forward(&self, stack: &Stack, batch: &Ragged) -> Vec<f32> {
        let lock = || self.arenas.lock().unwrap_or_else(PoisonError::into_inner);
        let mut arena = lock().pop().unwrap_or_default();
        let rows = self.inside(|| forward(self.isa(), stack, batch, &mut arena, self.every_row));
        lock().push(arena);
        rows
    }

    /// Final hidden states of the rows each sequence keeps.
    pub fn hidden(&self, stack: &Stack, batch: &[Sequence<'_>]) -> Result<Hidden, ExecError> {
        stack.check()?;
        batch.iter().try_for_each(|sequence| check_sequence(stack, sequence))?;
        let width = stack.width();
        let mut hidden =
            Hidden { width, values: Vec::new(), ends: Vec::with_capacity(batch.len()) };
        let lengths: Vec<usize> = batch.iter().map(|s| s.tokens.len()).collect();
        let mut rest = batch;
        let parts: Vec<&[Sequence<'_>]> = portions(&lengths, self.most_rows(stack, &lengths))
            .into_iter()
            .map(|size| rest.split_off(..size).unwrap_or_default())
            .collect();
        let run = |part: &&[Sequence<'_>]| {
            let ragged = Ragged::of_sequences(&stack.embed, part);
            (self.forward(stack, &ragged), ragged.kept_segments.ends().to_vec())
        };
        let done: Vec<(Vec<f32>, Vec<usize>)> = match self.side_by_side(stack) {
            true => self.inside(|| parts.par_iter().with_max_len(1).map(run).collect()),
            false => parts.iter().map(run).collect(),
        };
        for (values, ends) in done {
            check_finite(&values, width, |row| {
                let sequence = hidden.ends.len() + ends.partition_point(|&end| end <= row);
                format!("sequence {sequence}, hidden row {row}")
            })?;
            let before = hidden.ends.last().copied().unwrap_or(0);
            hidden.values.extend(values);
            hidden.ends.extend(ends.iter().map(|end| before + end));
        }
        Ok(hidden)
    }

    /// Whether threads take a portion each: a layer is small enough for every thread to read it on its own.
    fn side_by_side(&self, stack: &Stack) -> bool {
        const SMALL_LAYER: usize = 10 << 20;
        let small = stack.blocks.first().is_some_and(|block| block.bytes() <= SMALL_LAYER);
        small && !self.one_by_one
    }

    /// Rows that go through the network together. A narrow network runs a portion per thread, small enough
    /// to stay in the caches; a wide one takes all threads to read its weights once for many rows.
    fn most_rows(&self, stack: &Stack, lengths: &[usize]) -> usize {
        if !self.side_by_side(stack) {
            return ROWS_IN_FLIGHT;
        }
        let threads =
            self.pool.as_ref().map_or_else(rayon::current_num_threads, |p| p.current_num_threads());
        let rows: usize = lengths.iter().sum();
        let turns = rows.div_ceil(threads * ROWS_OF_A_THREAD).max(1);
        let portion = rows.div_ceil(threads * turns);
        if portion < WORTH_A_THREAD { ROWS_OF_A_THREAD } else { portion }
    }

    /// Answers questions about hidden rows (`[rows, width]`) through a vocabulary head.
    pub fn ask(
        &self,
        head: &Head,
        hidden: &[f32],
        questions: &[RowQuestion<'_>],
    ) -> Result<Vec<RowAnswer>, ExecError> {
        check_rows(head.transform.as_ref().map_or(&head.decoder, |t| &t.dense), hidden)?;
        let (width, vocabulary) = (head.decoder.inputs(), head.vocabulary());
        for question in questions {
            let rows = hidden.len() / width.max(1);
            if question.row >= rows {
                return Err(ExecError::Position { position: question.row, len: rows });
            }
            if let Some(&token) =
                question.tokens.iter().find(|&&token| token as usize >= vocabulary)
            {
                return Err(ExecError::Token { token, vocabulary });
            }
        }
        let answers = self.inside(|| match self.transformed(head, hidden) {
            Some(rows) => kernels::answer(self.isa(), &head.decoder, &rows, questions),
            None => kernels::answer(self.isa(), &head.decoder, hidden, questions),
        });
        // Only a product that overflows gets here: weights and hidden rows are finite.
        for (question, answer) in questions.iter().zip(&answers) {
            let best = answer.best.into_iter().chain(answer.top.first().copied());
            let some = best.map(|(_, logit)| f64::from(logit)).chain(answer.normaliser);
            let wrong = |x: &f32| x.is_nan() || *x == f32::INFINITY;
            let listed = answer.logits.iter().find(|x| wrong(x)).map(|&x| f64::from(x));
            if let Some(got) = some.chain(listed).find(|x| !x.is_finite()) {
                let what = format!("logits of row {}", question.row);
                return Err(ExecError::NotFinite { what, got: got.to_string() });
            }
        }
        Ok(answers)
    }

    /// All logits of hidden rows, `[rows, vocabulary]`: for checks and small vocabularies.
    pub fn logits(&self, head: &Head, hidden: &[f32]) -> Result<Vec<f32>, ExecError> {
        check_rows(head.transform.as_ref().map_or(&head.decoder, |t| &t.dense), hidden)?;
        Ok(self.inside(|| match self.transformed(head, hidden) {
            Some(rows) => self.apply(&head.decoder, &rows),
            None => self.apply(&head.decoder, hidden),
        }))
    }

    fn apply(&self, linear: &Linear, rows: &[f32]) -> Vec<f32> {
        let inputs = linear.inputs();
        let count = rows.len() / inputs.max(1);
        let mut to = vec![0.0; count * linear.outputs()];
        let load = Plain { values: rows, width: inputs };
        project(self.isa(), count, load, &mut [(linear, &mut to[..])]);
        to
    }

    /// BERT's transform before the decoder, if the head has one.
    fn transformed(&self, head: &Head, hidden: &[f32]) -> Option<Vec<f32>> {
        let transform = head.transform.as_ref()?;
        let (inputs, outputs) = (transform.dense.inputs(), transform.dense.outputs());
        let mut rows = vec![0.0; hidden.len() / inputs * outputs];
        let load = Plain { values: hidden, width: inputs };
        let count = hidden.len() / inputs;
        project_activated(
            self.isa(),
            count,
            load,
            None,
            &transform.dense,
            transform.activation,
            Lie::Rows,
            &mut rows,
        );
        if let Some(norm) = &transform.norm {
            let mut other = vec![0.0; outputs];
            for row in rows.chunks_exact_mut(outputs) {
                other.copy_from_slice(row);
                normalise(self.isa(), norm, None, &other, row);
            }
        }
        Some(rows)
    }

    /// Negative log-likelihoods in nats of every token but the first, given those before it. Sequences that
    /// agree on a prefix compute it once; the numbers are those of each sequence alone.
    pub fn nll(
        &self,
        stack: &Stack,
        head: &Head,
        batch: &[&[u32]],
    ) -> Result<Vec<Vec<f64>>, ExecError> {
        stack.check()?;
        if !stack.is_causal() {
            return Err(ExecError::NotCausal);
        }
        let vocabulary = head.vocabulary();
        for tokens in batch {
            check_sequence(stack, &Sequence::all(&tokens[..tokens.len().saturating_sub(1)]))?;
            if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocabulary) {
                return Err(ExecError::Token { token, vocabulary });
            }
        }
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
        for size in portions(&new_rows, ROWS_IN_FLIGHT) {
            self.nll_of_sorted(stack, head, batch, &order[start..start + size], &mut result)?;
            start += size;
        }
        Ok(result)
    }

    fn nll_of_sorted(
        &self,
        stack: &Stack,
        head: &Head,
        batch: &[&[u32]],
        order: &[usize],
        result: &mut [Vec<f64>],
    ) -> Result<(), ExecError> {
        let inputs: Vec<&[u32]> = order.iter().map(|&i| &batch[i][..batch[i].len() - 1]).collect();
        let (ragged, paths) = Ragged::of_sorted_prefixes(&stack.embed, &inputs);
        let hidden = self.forward(stack, &ragged);
        check_finite(&hidden, stack.width(), |row| {
            let of_row = |path: &Vec<std::ops::Range<usize>>| path.iter().any(|r| r.contains(&row));
            let sequence = paths.iter().position(of_row).map_or(0, |at| order[at]);
            format!("sequence {sequence}, position {}", ragged.positions[row])
        })?;
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
        let answers = self.ask(head, &hidden, &questions)?;
        for (&i, path) in order.iter().zip(&paths) {
            let pairs = path.iter().cloned().flatten().zip(&batch[i][1..]);
            result[i] = pairs
                .map(|(row, token)| {
                    let at = followers[row].iter().position(|t| t == token).expect("listed above");
                    answers[row].normaliser.unwrap_or(f64::NAN) - f64::from(answers[row].logits[at])
                })
                .collect();
        }
        Ok(())
    }

    /// Class logits of each sequence; the last layer runs for the first token only, equal sequences (texts that
    /// differ in what the tokenizer drops) run once.
    pub fn classify(
        &self,
        stack: &Stack,
        classify: &Classify,
        batch: &[&[u32]],
    ) -> Result<Vec<Vec<f32>>, ExecError> {
        if let Some(empty) = batch.iter().find(|tokens| tokens.is_empty()) {
            return Err(ExecError::Position { position: 0, len: empty.len() });
        }
        let mut known: HashMap<&[u32], usize> = HashMap::with_capacity(batch.len());
        let mut sequences: Vec<Sequence<'_>> = Vec::with_capacity(batch.len());
        let places: Vec<usize> = batch
            .iter()
            .map(|&tokens| {
                *known.entry(tokens).or_insert_with(|| {
                    sequences.push(Sequence { tokens, keep: Keep::First, sigma: 0.0 });
                    sequences.len() - 1
                })
            })
            .collect();
        let hidden = self.hidden(stack, &sequences)?;
        let labels = classify.classifier.outputs();
        let logits = self.class_logits(classify, hidden.values())?;
        check_finite(&logits, labels, |row| format!("logits of sequence {row}"))?;
        Ok(places.iter().map(|place| logits[place * labels..][..labels].to_vec()).collect())
    }

    /// Class logits of hidden rows, `[rows, labels]`.
    pub fn class_logits(&self, classify: &Classify, hidden: &[f32]) -> Result<Vec<f32>, ExecError> {
        let Some((dense, activation)) = &classify.dense else {
            check_rows(&classify.classifier, hidden)?;
            return Ok(self.apply(&classify.classifier, hidden));
        };
        check_rows(dense, hidden)?;
        let mut rows = self.apply(dense, hidden);
        // Before ReLU, which would make a plausible 0 of −∞.
        check_finite(&rows, dense.outputs(), |row| format!("dense layer of row {row}"))?;
        kernels::activate(self.isa(), *activation, &mut rows);
        check_rows(&classify.classifier, &rows)?;
        Ok(self.apply(&classify.classifier, &rows))
    }
}

/// Refuses rows with a NaN or an infinity; `what` names a row.
fn check_finite(
    values: &[f32],
    width: usize,
    what: impl Fn(usize) -> String,
) -> Result<(), ExecError> {
    if all_finite(values) {
        return Ok(());
    }
    let at = values.iter().position(|x| !x.is_finite()).unwrap_or(0);
    Err(ExecError::NotFinite { what: what(at / width.max(1)), got: values[at].to_string() })
}

fn check_rows(linear: &Linear, rows: &[f32]) -> Result<(), ExecError> {
    if linear.inputs() > 0 && rows.len().is_multiple_of(linear.inputs()) {
        return Ok(());
    }
    Err(ExecError::HeadWidth { expected: linear.inputs(), got: rows.len() })
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
