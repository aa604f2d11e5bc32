//! GGUF: metadata, a tokenizer and a model of 32 numbers a row.

use std::path::Path;

use treasure::models::{
    Blob, LoadOptions, Resolver, Scorer, Source,
    gguf::{BlockType, Header},
};

use super::{Choices, Seen, slip};

fn long(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A metadata entry: a key, a type and a value.
fn entry(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&long(key)[..], &kind.to_le_bytes(), value].concat()
}

fn array(kind: u32, items: &[Vec<u8>]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(items.len() as u64).to_le_bytes(), &items.concat()].concat()
}

/// The metadata of a model of 32 numbers a row and of its tokenizer.
fn metadata(tokens: usize, choices: &mut Choices<'_>) -> Vec<Vec<u8>> {
    let architecture = *choices.pick(&["llama", "llama", "qwen2", "llada", "dream", "falcon"]);
    let mut entries = vec![entry("general.architecture", 8, &long(architecture))];
    // Integers of every width.
    let whole = |name: &str, value: u64, choices: &mut Choices<'_>| {
        let (kind, width) =
            *choices.pick(&[(4, 4), (0, 1), (1, 1), (2, 2), (3, 2), (5, 4), (10, 8), (11, 8)]);
        let value = if choices.chance(6) { choices.number() } else { value };
        entry(&format!("{architecture}.{name}"), kind, &value.to_le_bytes()[..width])
    };
    for (name, value) in [
        ("embedding_length", 32),
        ("block_count", 1),
        ("feed_forward_length", 32),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
        ("context_length", 16),
        ("rope.dimension_count", 16),
    ] {
        entries.push(whole(name, value, choices));
    }
    let base = choices.float();
    entries.push(entry(&format!("{architecture}.rope.freq_base"), 12, &base.to_le_bytes()));
    if choices.chance(60) {
        let scaling = *choices.pick(&["none", "linear", "yarn", "longrope"]);
        entries.push(entry(&format!("{architecture}.rope.scaling.type"), 8, &long(scaling)));
        let factor = choices.float() as f32;
        entries.push(entry(
            &format!("{architecture}.rope.scaling.factor"),
            6,
            &factor.to_le_bytes(),
        ));
    }
    let mut words: Vec<String> =
        ["<s>", "</s>", "a", "b", "ab", "▁", "▁a", "<0x0A>"].map(String::from).into();
    words.extend((words.len()..tokens).map(|id| format!("t{id}")));
    if choices.chance(30) {
        words[choices.below(tokens)] = choices.text(4);
    }
    let words: Vec<Vec<u8>> = words.iter().take(tokens).map(|word| long(word)).collect();
    entries.push(entry("tokenizer.ggml.tokens", 9, &array(8, &words)));
    let model = *choices.pick(&["llama", "gpt2", "bert"]);
    entries.push(entry("tokenizer.ggml.model", 8, &long(model)));
    let rule = *choices.pick(&["gpt-2", "llama-bpe", "qwen2", "smollm", "tekken"]);
    entries.push(entry("tokenizer.ggml.pre", 8, &long(rule)));
    entries.push(entry("tokenizer.ggml.merges", 9, &array(8, &[long("a b")])));
    let scores: Vec<Vec<u8>> =
        (0..tokens).map(|id| (-(id as f32)).to_le_bytes().to_vec()).collect();
    entries.push(entry("tokenizer.ggml.scores", 9, &array(6, &scores)));
    let kinds: Vec<Vec<u8>> =
        (0..tokens).map(|id| (if id < 2 { 3i32 } else { 1 }).to_le_bytes().to_vec()).collect();
    entries.push(entry("tokenizer.ggml.token_type", 9, &array(5, &kinds)));
    for (name, id) in [("bos", 0), ("eos", 1), ("mask", 2), ("unknown", 0), ("padding", 1)] {
        let id = if choices.chance(10) { choices.number() as u32 } else { id };
        entries.push(entry(&format!("tokenizer.ggml.{name}_token_id"), 4, &id.to_le_bytes()));
    }
    for name in ["add_bos_token", "add_eos_token", "add_space_prefix"] {
        entries.push(entry(&format!("tokenizer.ggml.{name}"), 7, &[choices.below(2) as u8]));
    }
    if choices.chance(30) {
        entries.push(entry("general.alignment", 4, &(choices.number() as u32).to_le_bytes()));
    }
    let others = [
        entry("x", 13, &[0; 4]),
        entry("x", 9, &array(9, &[])),
        entry("x", 9, &array(7, &[vec![1], vec![0]])),
        entry("x", 9, &array(12, &[1f64.to_le_bytes().to_vec()])),
        entry("x", 8, &u64::MAX.to_le_bytes()),
        entry("x", 9, &[&8u32.to_le_bytes()[..], &u64::MAX.to_le_bytes()].concat()),
        entry("tokenizer.ggml.scores", 7, &[1]),
        entry("tokenizer.ggml.merges", 9, &array(4, &[])),
        entry("llama.block_count", 8, &long("1")),
        entry("tokenizer.ggml.add_bos_token", 8, &long("yes")),
    ];
    let others: Vec<&[u8]> = others.iter().map(Vec::as_slice).collect();
    slip(&mut entries, &others, choices);
    entries
}

pub fn gguf(path: &Path, choices: &mut Choices<'_>) -> Seen {
    const KINDS: &[u32] = &[0, 1, 2, 3, 6, 7, 8, 30, 10, 11, 12, 13, 14, 16, 99];
    let tokens = 8 + choices.below(2);
    let entries = metadata(tokens, choices);
    let matrix = if choices.chance(60) { *choices.pick(KINDS) } else { *choices.pick(&KINDS[..8]) };
    let rows = tokens as u64;
    let mut tensors = Vec::new();
    let mut data = 0;
    for (name, shape) in [
        ("token_embd", vec![32, rows]),
        ("output_norm", vec![32]),
        ("blk.0.attn_norm", vec![32]),
        ("blk.0.ffn_norm", vec![32]),
        ("blk.0.attn_q", vec![32, 32]),
        ("blk.0.attn_k", vec![32, 16]),
        ("blk.0.attn_v", vec![32, 16]),
        ("blk.0.attn_output", vec![32, 32]),
        ("blk.0.ffn_gate", vec![32, 32]),
        ("blk.0.ffn_up", vec![32, 32]),
        ("blk.0.ffn_down", vec![32, 32]),
    ] {
        let kind = if shape.len() == 1 { 0 } else { matrix };
        let mut shape = shape;
        if choices.chance(4) {
            shape.push(choices.number());
        }
        let dims: Vec<u8> = shape.iter().flat_map(|dim| dim.to_le_bytes()).collect();
        let offset = if choices.chance(4) { choices.number() } else { data };
        tensors.push(
            [
                &long(&format!("{name}.weight"))[..],
                &(shape.len() as u32).to_le_bytes(),
                &dims,
                &kind.to_le_bytes(),
                &offset.to_le_bytes(),
            ]
            .concat(),
        );
        let (numbers, bytes) =
            BlockType::from_number(kind).map_or((1, 4), |kind| (kind.numbers(), kind.bytes()));
        let count = shape.iter().fold(1u64, |all, dim| all.saturating_mul(*dim));
        data +=
            (count / numbers as u64).saturating_mul(bytes as u64).min(1 << 16).next_multiple_of(32);
    }
    slip(&mut tensors, &[b"\x01\0\0\0\0\0\0\0x\xff\0\0\0", b"\x01\0\0\0\0\0\0\0\xff"], choices);
    let version: u32 = if choices.chance(6) { choices.below(5) as u32 } else { 3 };
    let counts = [tensors.len() as u64, entries.len() as u64];
    let counts = counts.map(|count| if choices.chance(4) { choices.number() } else { count });
    let head: Vec<u8> = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
    let mut bytes =
        [b"GGUF", &version.to_le_bytes()[..], &head, &entries.concat(), &tensors.concat()].concat();
    bytes.resize(bytes.len().next_multiple_of(32) + data as usize, 0);
    if choices.chance(20) {
        bytes.truncate(choices.below(bytes.len()));
    }
    std::fs::write(path, &bytes).unwrap();
    let blob = Blob::open(path).unwrap();
    let header = match Header::read(&blob) {
        Ok(header) => header,
        Err(error) => return Seen::refused(error),
    };
    for tensor in header.tensors.values() {
        assert!(tensor.offset + tensor.bytes <= bytes.len() as u64, "{tensor:?}");
    }
    let read = Source::File(path.into()).tokenizer().map(|tokenizer| {
        let ids = tokenizer.as_ref().and_then(|tokenizer| tokenizer.encode("ab a\n", true).ok());
        ids.map_or("no ids", |_| "ids")
    });
    let read = read.unwrap_or_else(|error| {
        Seen::refused(error);
        "no tokenizer"
    });
    let spec = path.display().to_string();
    match Scorer::load(&Resolver::new().offline(), &spec, &LoadOptions::default()) {
        Ok(model) => {
            let numbers = model.nll(&[&[1, 2, 3]]);
            let told = numbers.map_or_else(
                |error| error.to_string(),
                |rows| {
                    assert!(rows.iter().flatten().all(|number| number.is_finite()), "{rows:?}");
                    "numbers".into()
                },
            );
            Seen::deep(format!("GGUF with {read}, {told}"))
        }
        Err(error) => Seen { past_the_reader: true, ..Seen::refused(error) },
    }
}
