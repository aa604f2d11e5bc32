//! Our side of the race in `bench/models`: reads one case per line, runs it once, prints one line of JSON.
//!
//! The other side (`race.py`) writes the weights, starts this program and runs the same cases in PyTorch.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    sync::Arc,
    time::Instant,
};

use treasure_models::{
    exec::{Cpu, Isa, Keep, Precision, RowQuestion, Runner, Sequence, Storage, register_flops},
    stack::{
        Activation, Attention, Block, Classify, Conditioning, Dense, Embed, FeedForward, Head,
        Matrix, Network, Norm, NormKind, PositionRule, Reader, Rotary, Stack, Tokens, Visibility,
    },
};

const WIDTH: usize = 768;
const HEADS: usize = 12;
const LAYERS: usize = 12;
const INNER: usize = 3072;
const CONDITION: usize = 128;
const DIT_VOCABULARY: usize = 50258;
const GPT2_VOCABULARY: usize = 50257;
const ROBERTA_VOCABULARY: usize = 50265;

type Anyhow<T> = Result<T, Box<dyn std::error::Error>>;

/// Tensors one after another, little-endian f32, in the order `race.py` wrote them.
struct Tensors(BufReader<File>);

impl Tensors {
    fn open(path: &Path) -> Anyhow<Self> {
        Ok(Self(BufReader::with_capacity(1 << 20, File::open(path)?)))
    }

    fn read(&mut self, to: &mut [f32]) -> Anyhow<()> {
        let mut bytes = vec![0u8; to.len() * 4];
        self.0.read_exact(&mut bytes)?;
        for (to, bytes) in to.iter_mut().zip(bytes.chunks_exact(4)) {
            *to = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Ok(())
    }

    fn vector(&mut self, len: usize) -> Anyhow<Vec<f32>> {
        let mut values = vec![0.0; len];
        self.read(&mut values)?;
        Ok(values)
    }

    fn linear(&mut self, outputs: usize, inputs: usize, bias: bool) -> Anyhow<Matrix> {
        let matrix = Matrix::from_values(outputs, inputs, self.vector(outputs * inputs)?);
        if bias { Ok(matrix.with_bias(self.vector(outputs)?)) } else { Ok(matrix) }
    }

    fn dense(&mut self, outputs: usize, inputs: usize) -> Anyhow<Dense> {
        Ok(Dense { weights: self.vector(outputs * inputs)?, bias: self.vector(outputs)? })
    }

    fn table(&mut self, rows: usize) -> Anyhow<Matrix> {
        self.linear(rows, WIDTH, false)
    }

    fn norm(&mut self, bias: bool) -> Anyhow<Norm> {
        let weight = self.vector(WIDTH)?;
        let bias = if bias { Some(self.vector(WIDTH)?) } else { None };
        Ok(Norm { kind: NormKind::Layer, weight, bias, eps: 1e-5 })
    }
}

/// A matrix whose rows are multiplied by a gate: how a constant adaLN gate is folded.
fn gated(weights: &[f32], bias: Option<&[f32]>, inputs: usize, gate: &[f32]) -> Matrix {
    let folded: Vec<f32> = weights.iter().enumerate().map(|(i, w)| w * gate[i / inputs]).collect();
    let linear = Matrix::from_values(gate.len(), inputs, folded);
    match bias {
        Some(bias) => linear.with_bias(bias.iter().zip(gate).map(|(b, g)| b * g).collect()),
        None => linear,
    }
}

/// mdlm's DiT with the constant modulation of a time-agnostic checkpoint folded into its weights.
fn load_dit(path: &Path) -> Anyhow<Network> {
    let mut t = Tensors::open(path)?;
    let conditioning =
        Conditioning { first: t.dense(CONDITION, 256)?, second: t.dense(CONDITION, CONDITION)? };
    let condition = conditioning.vector(0.0);
    let tokens = Tokens::Own(t.table(DIT_VOCABULARY)?);
    let rotary = Arc::new(Rotary::new(WIDTH / HEADS, 10000.0));
    let mut blocks = Vec::new();
    for _ in 0..LAYERS {
        let (norm1, modulation) = (t.norm(false)?, t.dense(6 * WIDTH, CONDITION)?);
        let m = modulation.apply(&condition);
        let part = |i: usize| &m[i * WIDTH..][..WIDTH];
        let (q, k, v) = (
            t.linear(WIDTH, WIDTH, false)?,
            t.linear(WIDTH, WIDTH, false)?,
            t.linear(WIDTH, WIDTH, false)?,
        );
        let o = gated(&t.vector(WIDTH * WIDTH)?, None, WIDTH, part(2));
        let norm2 = t.norm(false)?;
        let up = t.linear(INNER, WIDTH, true)?;
        let (down, bias) = (t.vector(WIDTH * INNER)?, t.vector(WIDTH)?);
        blocks.push(Block {
            attn_norm: Some(norm1.modulated(part(0), part(1))),
            attention: attention(q, k, v, o, Some(&rotary), Visibility::Full),
            ff_norm: Some(norm2.modulated(part(3), part(4))),
            feed_forward: FeedForward {
                gate: None,
                up,
                activation: Activation::GeluTanh,
                down: gated(&down, Some(&bias), INNER, part(5)),
            },
            post_norm: false,
            modulation: None,
        });
    }
    let (norm, modulation) = (t.norm(false)?, t.dense(2 * WIDTH, CONDITION)?);
    let m = modulation.apply(&condition);
    let final_norm = Some(norm.modulated(&m[..WIDTH], &m[WIDTH..]));
    let decoder = t.linear(DIT_VOCABULARY, WIDTH, true)?;
    let embed = Embed { tokens, positions: None, constant: None, norm: None };
    Ok(Network::new(
        stack(embed, blocks, final_norm),
        Reader::Vocabulary(Head { transform: None, decoder }),
    )?)
}

fn stack(embed: Embed, blocks: Vec<Block>, final_norm: Option<Norm>) -> Stack {
    let (conditioning, final_modulation) = (None, None);
    Stack { width: WIDTH, embed, blocks, final_norm, conditioning, final_modulation }
}

fn attention(
    q: Matrix,
    k: Matrix,
    v: Matrix,
    o: Matrix,
    rotary: Option<&Arc<Rotary>>,
    visibility: Visibility,
) -> Attention {
    let rotary = rotary.cloned();
    Attention {
        heads: HEADS,
        kv_heads: HEADS,
        head_dim: WIDTH / HEADS,
        q,
        k,
        v,
        o,
        rotary,
        visibility,
    }
}

/// GPT-2's and RoBERTa's blocks: the same tensors, norms before or after, another GELU.
fn plain_blocks(t: &mut Tensors, causal: bool) -> Anyhow<Vec<Block>> {
    let mut blocks = Vec::new();
    for _ in 0..LAYERS {
        let attn_norm = Some(t.norm(true)?);
        let (q, k, v) = (
            t.linear(WIDTH, WIDTH, true)?,
            t.linear(WIDTH, WIDTH, true)?,
            t.linear(WIDTH, WIDTH, true)?,
        );
        let o = t.linear(WIDTH, WIDTH, true)?;
        let ff_norm = Some(t.norm(true)?);
        let (up, down) = (t.linear(INNER, WIDTH, true)?, t.linear(WIDTH, INNER, true)?);
        let visibility = if causal { Visibility::Causal } else { Visibility::Full };
        let activation = if causal { Activation::GeluTanh } else { Activation::Gelu };
        blocks.push(Block {
            attn_norm,
            attention: attention(q, k, v, o, None, visibility),
            ff_norm,
            feed_forward: FeedForward { gate: None, up, activation, down },
            post_norm: !causal,
            modulation: None,
        });
    }
    Ok(blocks)
}

fn load_gpt2(path: &Path) -> Anyhow<Network> {
    let mut t = Tensors::open(path)?;
    let decoder = t.linear(GPT2_VOCABULARY, WIDTH, false)?;
    let positions = Some((t.table(1024)?, PositionRule::From(0)));
    let blocks = plain_blocks(&mut t, true)?;
    let embed = Embed { tokens: Tokens::Decoder, positions, constant: None, norm: None };
    let final_norm = Some(t.norm(true)?);
    Ok(Network::new(
        stack(embed, blocks, final_norm),
        Reader::Vocabulary(Head { transform: None, decoder }),
    )?)
}

fn load_roberta(path: &Path) -> Anyhow<Network> {
    let mut t = Tensors::open(path)?;
    let tokens = Tokens::Own(t.table(ROBERTA_VOCABULARY)?);
    let positions = Some((t.table(514)?, PositionRule::CountNonPad(1)));
    let embed =
        Embed { tokens, positions, constant: Some(t.vector(WIDTH)?), norm: Some(t.norm(true)?) };
    let blocks = plain_blocks(&mut t, false)?;
    let dense = Some((t.linear(WIDTH, WIDTH, true)?, Activation::Tanh));
    let classify = Classify { dense, classifier: t.linear(3, WIDTH, true)? };
    Ok(Network::new(stack(embed, blocks, None), Reader::Classes(classify))?)
}

/// The same tokens as `race.py` makes.
fn batch(rows: usize, len: usize, vocabulary: usize, siblings: bool) -> Vec<Vec<u32>> {
    let token = |row: usize, i: usize| {
        let row = if siblings && i != len / 2 { 0 } else { row };
        ((row * 104_729 + i * 7_919 + 13) % (vocabulary - 10) + 5) as u32
    };
    (0..rows).map(|row| (0..len).map(|i| token(row, i)).collect()).collect()
}

/// CPU seconds of all threads so far.
fn cpu_seconds() -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return f64::NAN };
    let nanoseconds = |path: std::path::PathBuf| -> Option<f64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    tasks.filter_map(|task| nanoseconds(task.ok()?.path())).sum::<f64>() / 1e9
}

fn peak_gflops(isa: Isa, precision: Precision) -> f64 {
    // The best of many short bursts: what the machine can do when nothing interrupts it.
    let burst = || {
        let start = Instant::now();
        register_flops(isa, precision, 1_000_000) / start.elapsed().as_secs_f64() / 1e9
    };
    let one = || (0..100).map(|_| burst()).fold(0.0, f64::max);
    let threads = rayon::current_num_threads();
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        handles.into_iter().map(|h| h.join().unwrap_or(f64::NAN)).sum()
    })
}

fn main() -> Anyhow<()> {
    let folder = std::env::args().nth(1).ok_or("usage: race WEIGHTS-FOLDER [ISA [PRECISION]]")?;
    let folder = Path::new(&folder);
    let isa = match std::env::args().nth(2) {
        Some(name) if name != "best" => {
            Isa::named(&name).ok_or("this machine has no such instructions")?
        }
        _ => Isa::best(),
    };
    let precision: Precision = match std::env::args().nth(3) {
        Some(name) => name.parse()?,
        None => Precision::F32,
    };
    let cpu = Cpu::new().with_isa(isa).with_precision(precision);
    let run = |network| Runner::new(&cpu, network, Storage::F32);
    let dit = run(load_dit(&folder.join("dit.bin"))?)?;
    let gpt2 = run(load_gpt2(&folder.join("gpt2.bin"))?)?;
    let roberta = run(load_roberta(&folder.join("roberta.bin"))?)?;
    let mut out = std::io::stdout().lock();
    let (bf16, int8) = (isa.dots_bf16(), isa.dots_int8());
    writeln!(out, "ready {isa:?} bf16={bf16} int8={int8}")?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["peak"] = words[..] {
            writeln!(out, "{{\"gflops\": {:.1}}}", peak_gflops(isa, precision))?;
            out.flush()?;
            continue;
        }
        let [model, rows, len, variant] = words[..] else {
            return Err("case: MODEL ROWS LEN VARIANT".into());
        };
        let (rows, len): (usize, usize) = (rows.parse()?, len.parse()?);
        let vocabulary = match model {
            "dit" => DIT_VOCABULARY,
            "gpt2" => GPT2_VOCABULARY,
            _ => ROBERTA_VOCABULARY,
        };
        let tokens = batch(rows, len, vocabulary, variant == "siblings");
        let lists: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).collect();
        let (start, cpu) = (Instant::now(), cpu_seconds());
        let result: f64 = match model {
            "dit" => {
                let sequences: Vec<Sequence<'_>> = lists
                    .iter()
                    .map(|tokens| Sequence { tokens, keep: Keep::All, sigma: 0.0 })
                    .collect();
                let hidden = dit.hidden(&sequences)?;
                if variant == "head" {
                    let ask = |row| RowQuestion { row, best: true, ..RowQuestion::default() };
                    let questions: Vec<RowQuestion<'_>> = (0..rows * len).map(ask).collect();
                    let answers = dit.ask(hidden.values(), &questions)?;
                    answers.iter().filter_map(|a| a.best).map(|(token, _)| f64::from(token)).sum()
                } else {
                    hidden.values().iter().map(|&x| f64::from(x.abs())).sum()
                }
            }
            "gpt2" => gpt2.nll(&lists)?.iter().flatten().sum(),
            _ => {
                let first: Vec<(&[u32], usize)> = lists.iter().map(|&tokens| (tokens, 0)).collect();
                roberta.classify_at(&first)?.iter().flatten().map(|&x| f64::from(x.abs())).sum()
            }
        };
        let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        writeln!(
            out,
            "{{\"ms\": {:.3}, \"cpu_ms\": {:.3}, \"result\": {result:.6}}}",
            wall * 1e3,
            cpu * 1e3
        )?;
        out.flush()?;
    }
    Ok(())
}
