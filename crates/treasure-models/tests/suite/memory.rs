//! Loading needs little more memory than the weights it leaves behind.
//!
//! A child process loads, so that its peak (`VmHWM`) is its own. `bench/memory/run.sh` runs the big one.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
    process::Command,
};

use serde_json::json;
use treasure_core::{Denoiser, MaskedSeq, State};
use treasure_models::{LoadOptions, MaskedLm, exec::Precision};

use crate::support::*;

const ALL: [Precision; 3] = [Precision::F32, Precision::Bf16, Precision::Int8];

/// Sizes of a random LLaDA.
struct Sizes {
    width: usize,
    layers: usize,
    hidden: usize,
    vocabulary: usize,
}

impl Sizes {
    fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let Self { width, layers, hidden, vocabulary } = *self;
        let root = "model.transformer";
        let mut list = vec![
            (format!("{root}.wte.weight"), vec![vocabulary, width]),
            (format!("{root}.ff_out.weight"), vec![vocabulary, width]),
            (format!("{root}.ln_f.weight"), vec![width]),
        ];
        for i in 0..layers {
            for (name, shape) in [
                ("attn_norm", vec![width]),
                ("ff_norm", vec![width]),
                ("q_proj", vec![width, width]),
                ("k_proj", vec![width, width]),
                ("v_proj", vec![width, width]),
                ("attn_out", vec![width, width]),
                ("ff_proj", vec![hidden, width]),
                ("up_proj", vec![hidden, width]),
                ("ff_out", vec![width, hidden]),
            ] {
                list.push((format!("{root}.blocks.{i}.{name}.weight"), shape));
            }
        }
        list
    }

    /// Writes the model with numbers of `bytes` bytes each; returns the number of parameters.
    fn write(&self, dir: &Path, dtype: &str, bytes: usize) -> usize {
        let config = json!({
            "model_type": "llada", "d_model": self.width, "n_layers": self.layers,
            "n_heads": self.width / 64, "n_kv_heads": self.width / 64,
            "mlp_hidden_size": self.hidden, "vocab_size": self.vocabulary,
            "embedding_size": self.vocabulary, "max_sequence_length": 128, "mask_token_id": 5,
            "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
        });
        fs::write(dir.join("config.json"), config.to_string()).unwrap();
        let mut header = serde_json::Map::new();
        let mut parameters = 0;
        for (name, shape) in self.tensors() {
            let count: usize = shape.iter().product();
            let offsets = [parameters * bytes, (parameters + count) * bytes];
            header.insert(name, json!({"dtype": dtype, "shape": shape, "data_offsets": offsets}));
            parameters += count;
        }
        let header = serde_json::Value::Object(header).to_string();
        let mut file = BufWriter::new(File::create(dir.join("model.safetensors")).unwrap());
        file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
        file.write_all(header.as_bytes()).unwrap();
        // Random numbers between −0.06 and 0.06: sign and mantissa vary, the exponent does not.
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let block: Vec<u8> = (0..1 << 18)
            .flat_map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let bits = (state >> 33) as u32;
                let number = f32::from_bits(0x3d00_0000 | bits & 0x807f_ffff);
                number.to_le_bytes()[4 - bytes..].to_vec()
            })
            .collect();
        let mut left = parameters * bytes;
        while left > 0 {
            let part = left.min(block.len());
            file.write_all(&block[..part]).unwrap();
            left -= part;
        }
        file.flush().unwrap();
        parameters
    }
}

fn status(field: &str) -> usize {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    1024 * line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap()
}

/// The child: loads what the parent wrote, runs a state, and prints its memory before and at the peak.
#[test]
#[ignore = "run by the tests below in a process of its own"]
fn child_that_loads() {
    let Ok(dir) = std::env::var("TREASURE_MEMORY_DIR") else { return };
    let precision = std::env::var("TREASURE_MEMORY_PRECISION").unwrap().parse().unwrap();
    let before = status("VmRSS:");
    let options = LoadOptions { precision, ..LoadOptions::default() };
    let model = MaskedLm::load(&resolver(), &dir, &options).unwrap();
    let seq = MaskedSeq::from_slots((0..64).map(|at| (at % 2 == 0).then_some(7)));
    model.encode(&[State { seq: &seq, t: 0.5 }]).unwrap();
    println!("memory {} {} {}", before, status("VmHWM:"), model.describe().memory_bytes);
}

/// What loading a model and running it took.
struct Measured {
    before: usize,
    peak: usize,
    /// Bytes of weights that are held.
    held: usize,
    parameters: usize,
}

fn measure(sizes: &Sizes, dtype: &str, bytes: usize, precisions: &[Precision]) -> Vec<Measured> {
    let dir = tempfile::tempdir().unwrap();
    let parameters = sizes.write(dir.path(), dtype, bytes);
    let load = |precision: &Precision| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["memory::child_that_loads", "--exact", "--ignored", "--nocapture"])
            .env("TREASURE_MEMORY_DIR", dir.path())
            .env("TREASURE_MEMORY_PRECISION", precision.name())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let at = text.find("memory ").unwrap_or_else(|| panic!("the child loads: {output:?}"));
        let number = |text: &str| text.parse::<usize>().unwrap();
        let numbers: Vec<usize> =
            text[at..].split_whitespace().skip(1).take(3).map(number).collect();
        let (before, peak, held) = (numbers[0], numbers[1], numbers[2]);
        println!(
            "{dtype} file, {precision}: {parameters} parameters, {held} bytes held, peak {peak} ({:.3} of them)",
            peak as f64 / held as f64
        );
        if *precision == Precision::F32 {
            assert!(held as f64 <= 1.01 * (parameters * bytes) as f64, "{dtype} stays {dtype}");
        }
        Measured { before, peak, held, parameters }
    };
    precisions.iter().map(load).collect()
}

#[test]
fn loading_and_running_needs_little_more_than_the_weights_in_any_precision() {
    let sizes = Sizes { width: 512, layers: 4, hidden: 1024, vocabulary: 32_000 };
    for (dtype, bytes) in [("BF16", 2), ("F16", 2), ("F32", 4)] {
        for Measured { before, peak, held, .. } in measure(&sizes, dtype, bytes, &ALL) {
            let needed = (peak - before) as f64 / held as f64;
            assert!(needed <= 1.15, "{dtype}: loading and a pass took {needed} times the weights");
        }
    }
}

#[test]
#[ignore = "writes and loads up to 4 GB; run by bench/memory/run.sh"]
fn a_billion_parameters_load_within_1_15_times_their_size() {
    let sizes = Sizes { width: 2048, layers: 12, hidden: 4096, vocabulary: 126_464 };
    for (dtype, bytes) in [("BF16", 2), ("F32", 4)] {
        for Measured { peak, held, parameters, .. } in measure(&sizes, dtype, bytes, &ALL) {
            assert!(parameters >= 1_000_000_000, "a billion parameters");
            let ratio = peak as f64 / held as f64;
            assert!(ratio <= 1.15, "{dtype}: peak memory is {ratio} times the weights");
        }
    }
}
