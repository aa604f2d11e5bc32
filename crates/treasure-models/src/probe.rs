//! How fast this machine multiplies: one product of this crate's kernels, timed. What a checkpoint would
//! cost can then be said before it is there.

use std::time::Instant;

use crate::{
    Result,
    exec::{Cpu, Runner, Storage},
    stack::{Embed, Head, Matrix, Network, Reader, Stack, Tokens},
};

/// Rows of a product: about the tokens of a text.
const ROWS: usize = 64;
const OUTPUTS: usize = 4096;
const INPUTS: usize = 1024;

/// Multiplications and additions a second in products of 64 rows with weights held in this type, on all
/// threads: the best of a few tries, about a tenth of a second.
pub fn operations_per_second(storage: Storage) -> Result<f64> {
    // Any numbers do; these are spread and finite.
    let number = |at: usize| ((at.wrapping_mul(2_654_435_761) >> 7) % 255) as f32 / 127.0 - 1.0;
    let decoder = Matrix::from_values(OUTPUTS, INPUTS, (0..OUTPUTS * INPUTS).map(number).collect());
    let stack = Stack {
        width: INPUTS,
        embed: Embed { tokens: Tokens::Decoder, positions: None, constant: None, norm: None },
        blocks: Vec::new(),
        final_norm: None,
        conditioning: None,
        final_modulation: None,
    };
    let network = Network::new(stack, Reader::Vocabulary(Head { transform: None, decoder }))
        .map_err(|error| crate::Error::new("probe").with_source(error))?;
    let runner = Runner::new(&Cpu::new(), network, storage)?;
    let rows: Vec<f32> = (0..ROWS * INPUTS).map(number).collect();
    let mut best = f64::INFINITY;
    for _ in 0..8 {
        let began = Instant::now();
        runner.logits(&rows)?;
        best = best.min(began.elapsed().as_secs_f64());
    }
    Ok(2.0 * (ROWS * OUTPUTS * INPUTS) as f64 / best.max(1e-9))
}
