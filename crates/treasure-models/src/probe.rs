//! How fast this machine multiplies: one layer of this crate's kernels, timed. What a checkpoint would cost can
//! then be said before it is there.

use std::time::Instant;

use crate::{
    Description, Result,
    exec::{Cpu, Runner, Sequence},
    stack::{
        Activation, Attention, Block, Embed, FeedForward, Head, Matrix, Network, Reader, Stack,
        Tokens, Visibility,
    },
    weights::MappedRows,
};

/// Rows of a product: about the tokens of a text.
const ROWS: usize = 64;
const WIDTH: usize = 1024;
/// So wide that threads share the layer in every type of block, as they share those of large models.
const HIDDEN: usize = 10_240;
const HEADS: usize = 16;

/// Multiplications and additions a second in a layer on 64 rows, on all threads: in the precision of this
/// checkpoint, with weights held as its own or widened from blocks as they lie in its file. The best of a few
/// tries, less than a second.
pub fn operations_per_second(what: &Description) -> Result<f64> {
    // Any numbers do; these are spread and small. In a mapping they are zeros, which take as long to widen.
    let number = |at: usize| ((at.wrapping_mul(2_654_435_761) >> 7) % 255) as f32 / 4096.0 - 0.03;
    let matrix = |outputs: usize, inputs: usize| {
        let fill = move |first: usize, to: &mut [f32]| {
            to.iter_mut().enumerate().for_each(|(at, to)| *to = number(first * inputs + at));
            Ok(())
        };
        let mapped = what.mapped.and_then(|kind| MappedRows::zeros(kind, outputs, inputs));
        Matrix::new("probe", outputs, inputs, fill).with_mapped(mapped)
    };
    let square = || matrix(WIDTH, WIDTH);
    let attention = Attention {
        heads: HEADS,
        kv_heads: HEADS,
        head_dim: WIDTH / HEADS,
        q: square(),
        k: square(),
        v: square(),
        o: square(),
        rotary: None,
        visibility: Visibility::Full,
    };
    let feed_forward = FeedForward {
        gate: Some(matrix(HIDDEN, WIDTH)),
        up: matrix(HIDDEN, WIDTH),
        activation: Activation::Silu,
        down: matrix(WIDTH, HIDDEN),
    };
    let block = Block {
        attn_norm: None,
        attention,
        ff_norm: None,
        feed_forward,
        post_norm: false,
        modulation: None,
    };
    let stack = Stack {
        width: WIDTH,
        embed: Embed { tokens: Tokens::Decoder, positions: None, constant: None, norm: None },
        blocks: vec![block],
        final_norm: None,
        conditioning: None,
        final_modulation: None,
    };
    let head = Head { transform: None, decoder: matrix(ROWS, WIDTH) };
    let network = Network::new(stack, Reader::Vocabulary(head))
        .map_err(|error| crate::Error::new("probe").with_source(error))?;
    let runner = Runner::new(&Cpu::new().with_precision(what.precision), network, what.dtype)?;
    let tokens: Vec<u32> = (0..ROWS as u32).collect();
    let mut best = f64::INFINITY;
    for _ in 0..4 {
        let began = Instant::now();
        runner.hidden(&[Sequence::all(&tokens)])?;
        best = best.min(began.elapsed().as_secs_f64());
    }
    let weights = 4 * WIDTH * WIDTH + 3 * WIDTH * HIDDEN;
    Ok(2.0 * (ROWS * weights) as f64 / best.max(1e-9))
}
