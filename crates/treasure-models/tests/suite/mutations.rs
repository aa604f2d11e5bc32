//! Damaged files by the thousand: an error or a model, never a panic. The same parsers are behind the fuzz
//! targets of `fuzz/`; what those found belongs here as a test.

use std::fs;

use treasure_core::Key;
use treasure_models::{
    Blob, Classifier, LoadOptions, Scorer, Source, Tokenizer, config::Config, gguf::Header,
    weights::Weights,
};

use crate::support::*;

/// A damaged copy: some bytes changed, a piece removed, or a piece repeated.
fn damage(bytes: &[u8], region: usize, key: Key) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    let region = region.min(copy.len()).max(1);
    for i in 0..1 + key.fold(0).below(4) as u64 {
        let key = key.fold(i + 1);
        let at = key.fold(1).below(region).min(copy.len().saturating_sub(1));
        match key.fold(2).below(6) {
            0 => copy.truncate(at),
            1 => copy[at] = 0xff,
            2 => copy[at] = 0,
            3 => copy[at] ^= 1 << key.fold(3).below(8),
            4 => copy[at] = b"0123456789\"{}[],:-."[key.fold(4).below(19)],
            _ => {
                let piece = copy[at..(at + 9).min(copy.len())].to_vec();
                copy.splice(at..at, piece);
            }
        }
        if copy.is_empty() {
            break;
        }
    }
    copy
}

/// How many damaged copies of each file; `TREASURE_MUTATIONS` asks for more.
fn rounds() -> u64 {
    std::env::var("TREASURE_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(400)
}

#[test]
fn damaged_safetensors_headers_never_panic() {
    let dir = copy(&golden("bert_cls"));
    let path = dir.path().join("model.safetensors");
    let good = fs::read(&path).unwrap();
    for round in 0..rounds() {
        fs::write(&path, damage(&good, 4000, Key::new(round))).unwrap();
        let _ = Weights::open(&Source::Directory(dir.path().to_owned()));
    }
}

#[test]
fn damaged_configs_never_panic_and_never_ask_for_more_memory_than_the_weights_have() {
    for family in ["bert_cls", "roberta_cls", "distilbert_cls"] {
        let dir = copy(&golden(family));
        let path = dir.path().join("config.json");
        let good = fs::read(&path).unwrap();
        for round in 0..rounds() / 4 {
            fs::write(&path, damage(&good, good.len(), Key::new(round))).unwrap();
            let _ = Classifier::load(&resolver(), &spec(dir.path()), &LoadOptions::default());
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            let _ = Config::parse(&text, "config.json");
        }
    }
}

#[test]
fn damaged_indices_never_panic() {
    let dir = copy(&golden("llada_gqa"));
    let path = dir.path().join("model.safetensors.index.json");
    let good = fs::read(&path).unwrap();
    for round in 0..rounds() {
        fs::write(&path, damage(&good, good.len(), Key::new(round))).unwrap();
        let _ = Weights::open(&Source::Directory(dir.path().to_owned()));
    }
}

#[test]
fn damaged_pickles_never_panic() {
    let dir = copy(&golden("roberta_cls"));
    fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    let path = dir.path().join("pytorch_model.bin");
    let good = fs::read(golden("").parent().unwrap().join("fixtures/roberta_cls.bin")).unwrap();
    for round in 0..rounds() {
        // The first half of the rounds hits the pickle, the rest the directory of the zip at the end.
        let bytes = if round % 2 == 0 {
            damage(&good, 6000, Key::new(round))
        } else {
            let (front, back) = good.split_at(good.len() - 5000);
            [front, &damage(back, 5000, Key::new(round))].concat()
        };
        fs::write(&path, bytes).unwrap();
        let _ = Weights::open(&Source::Directory(dir.path().to_owned()));
    }
}

#[test]
fn damaged_tokenizers_never_panic() {
    let good = fs::read(golden("roberta_cls").join("tokenizer.json")).unwrap();
    for round in 0..rounds() {
        let bytes = damage(&good, good.len(), Key::new(round));
        if let Ok(tokenizer) = Tokenizer::parse(&String::from_utf8_lossy(&bytes), "damaged") {
            let _ = tokenizer.encode("The lake was quiet, 12 times.", true);
            let _ = tokenizer.decode(&[0, 5, 99, 210, 4_000_000]);
        }
    }
}

#[test]
fn damaged_gguf_files_never_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    let good: &[u8] = include_bytes!("../fixtures/header.gguf");
    fs::write(&path, good).unwrap();
    Header::read(&Blob::open(&path).unwrap()).expect("the undamaged header can be read");
    for round in 0..rounds() {
        fs::write(&path, damage(good, good.len(), Key::new(round))).unwrap();
        let _ = Scorer::load(&resolver(), &spec(&path), &LoadOptions::default());
        let _ = Source::File(path.clone()).tokenizer();
    }
}

/// Pickles that would make a trusting reader panic, recurse or copy without end.
fn hostile_pickles() -> Vec<(&'static str, Vec<u8>)> {
    let rebuild = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n";
    let mut laughs = b"\x80\x02(q\x00".to_vec();
    laughs.extend(b"]q\x01");
    for level in 1..60u8 {
        // Each level is a pair of the level below.
        laughs.extend([b'h', level, b'h', level, 0x86, b'q', level + 1]);
    }
    laughs.push(b'.');
    let mut deep = b"\x80\x02".to_vec();
    deep.extend(b")".iter().chain([0x85; 200_000].iter()));
    deep.push(b'.');
    vec![
        ("too few arguments", [&rebuild[..], b")R."].concat()),
        ("no storage", [&rebuild[..], b"(K\x00K\x00K\x00K\x00tR."].concat()),
        ("a short storage", [&rebuild[..], b"(K\x00\x85QK\x00)))tR."].concat()),
        ("a tensor subclass", b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n)R.".to_vec()),
        ("a long integer", b"\x80\x02\x8a\x0a0123456789.".to_vec()),
        ("a negative number", b"\x80\x02J\xff\xff\xff\xff.".to_vec()),
        ("a text of 4 GB", b"\x80\x02X\xff\xff\xff\xffabc.".to_vec()),
        ("an empty stack", b"\x80\x02R.".to_vec()),
        ("no mark", b"\x80\x02K\x01t.".to_vec()),
        ("an unknown object", b"\x80\x02h\x07.".to_vec()),
        ("a call of os.system", b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.".to_vec()),
        ("copies of copies", laughs),
        ("deep nesting", deep),
        ("no end", b"\x80\x02}".to_vec()),
    ]
}

/// A zip archive with one stored entry.
fn stored_zip(name: &str, data: &[u8]) -> Vec<u8> {
    let mut crc = !0u32;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    let mut fields = Vec::new();
    fields.extend([20, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    fields.extend((!crc).to_le_bytes());
    fields.extend((data.len() as u32).to_le_bytes());
    fields.extend((data.len() as u32).to_le_bytes());
    fields.extend((name.len() as u16).to_le_bytes());
    fields.extend([0, 0]);
    let local = [b"PK\x03\x04", &fields[..], name.as_bytes(), data].concat();
    let central = [b"PK\x01\x02\x14\x00", &fields[..], &[0; 14], name.as_bytes()].concat();
    let mut end = b"PK\x05\x06\0\0\0\0\x01\0\x01\0".to_vec();
    end.extend((central.len() as u32).to_le_bytes());
    end.extend((local.len() as u32).to_le_bytes());
    end.extend([0, 0]);
    [local, central, end].concat()
}

#[test]
fn hostile_pickles_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (what, pickle) in hostile_pickles() {
        let bytes = stored_zip("archive/data.pkl", &pickle);
        fs::write(dir.path().join("pytorch_model.bin"), bytes).unwrap();
        let error = Weights::open(&Source::Directory(dir.path().to_owned())).unwrap_err();
        assert!(error.to_string().contains("is not a PyTorch checkpoint: "), "{what}: {error}");
        assert!(!error.to_string().contains("zip"), "{what} must reach the pickle: {error}");
    }
}

/// What a fuzz run found is kept in `tests/fixtures/failures/<target>/` and replayed here.
#[test]
fn files_that_once_failed_are_errors_now() {
    let root = golden("").parent().unwrap().join("fixtures/failures");
    let mut replayed = 0;
    for (target, file) in [
        ("safetensors", "model.safetensors"),
        ("index", "model.safetensors.index.json"),
        ("pickle", "pytorch_model.bin"),
        ("tokenizer", "tokenizer.json"),
        ("gguf", "model.gguf"),
        ("config", "config.json"),
    ] {
        let Ok(listing) = fs::read_dir(root.join(target)) else { continue };
        for entry in listing {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(file);
            fs::write(&path, &bytes).unwrap();
            let source = Source::Directory(dir.path().to_owned());
            let refused = match target {
                "tokenizer" => source.tokenizer().is_err(),
                "gguf" => Scorer::load(&resolver(), &spec(&path), &LoadOptions::default()).is_err(),
                "config" => {
                    fs::copy(
                        golden("bert_cls").join("model.safetensors"),
                        dir.path().join("model.safetensors"),
                    )
                    .unwrap();
                    let options = LoadOptions::default();
                    Classifier::load(&resolver(), &spec(dir.path()), &options).is_err()
                }
                _ => Weights::open(&source).is_err(),
            };
            assert!(refused, "{target} {path:?}");
            replayed += 1;
        }
    }
    assert!(replayed > 0, "the corpus is part of the repository");
}
