//! The bytes of tokens, against what the tokenizers decode.

use serde_json::{Value, json};
use tokenizers::Tokenizer;
use treasure_text::automata::{Start, TokenBytes};

use crate::{oracle::Random, pocket};

/// What the rule at the start of a text makes of joined bytes.
fn rendered(bytes: &TokenBytes, ids: &[u32]) -> Vec<u8> {
    let token = |id: &u32| bytes.tokens[*id as usize].clone().unwrap_or_default();
    let spoken: Vec<Vec<u8>> = ids.iter().map(token).filter(|token| !token.is_empty()).collect();
    let mut text: Vec<u8> = spoken.concat();
    match bytes.start {
        Start::AsIs => {}
        Start::DropsSpace | Start::DropsWordSpace => {
            if text.first() == Some(&b' ') {
                text.remove(0);
            }
        }
        Start::DropsSpacesOfToken => {
            let first = spoken.first().map_or(0, Vec::len);
            let kept: Vec<u8> = text[..first].iter().copied().filter(|&b| b != b' ').collect();
            text.splice(..first, kept);
        }
    }
    text
}

/// Compares random sequences; gives how many were UTF-8, so that decoding says something exact.
fn compare(tokenizer: &Tokenizer, rounds: usize, seed: u64) -> usize {
    let bytes = TokenBytes::read(tokenizer).unwrap();
    let mut random = Random::new(seed);
    let spoken: Vec<u32> =
        (0..bytes.tokens.len() as u32).filter(|&id| bytes.tokens[id as usize].is_some()).collect();
    let mut exact = 0;
    // A first token that continues a word keeps its ##, which is said in the rule.
    let starts = |id: &&u32| {
        let entry = tokenizer.id_to_token(**id).unwrap_or_default();
        bytes.start != Start::DropsWordSpace || !entry.starts_with("##")
    };
    let first: Vec<u32> = spoken.iter().filter(starts).copied().collect();
    for _ in 0..rounds {
        let length = 1 + random.below(12);
        let mut ids = vec![*random.pick(&first)];
        ids.extend((1..length).map(|_| match random.chance(0.1) {
            true => random.below(bytes.tokens.len()) as u32,
            false => *random.pick(&spoken),
        }));
        let decoded = tokenizer.decode(&ids, true).unwrap();
        if let Ok(text) = String::from_utf8(rendered(&bytes, &ids)) {
            exact += 1;
            assert_eq!(text, decoded, "{ids:?}");
        }
    }
    exact
}

#[test]
fn the_pocket_tokenizer_is_sentencepiece_with_byte_fallback() {
    let tokenizer = pocket::tokenizer();
    let bytes = TokenBytes::read(&tokenizer).unwrap();
    assert_eq!((bytes.tokens.len(), bytes.start), (6264, Start::DropsSpace));
    let id = |entry: &str| tokenizer.token_to_id(entry).unwrap() as usize;
    assert_eq!(bytes.tokens[id("<0xE2>")].as_deref(), Some(&[0xE2][..]));
    assert_eq!(bytes.tokens[id("▁the")].as_deref(), Some(&b" the"[..]));
    for special in ["<unk>", "<s>", "</s>", "<mask>"] {
        assert_eq!(bytes.tokens[id(special)], None, "{special}");
    }
    let exact = compare(&tokenizer, 4000, 21);
    assert!(exact > 2000, "{exact}");
}

#[test]
fn the_golden_tokenizers_are_byte_level() {
    for (name, seed) in [("mdlm", 22), ("roberta_cls", 23)] {
        let path = format!("crates/treasure-models/tests/golden/{name}/tokenizer.json");
        let tokenizer = Tokenizer::from_file(pocket::file(&path)).unwrap();
        let bytes = TokenBytes::read(&tokenizer).unwrap();
        assert_eq!(bytes.start, Start::AsIs);
        let exact = compare(&tokenizer, 4000, seed);
        assert!(exact > 1000, "{name}: {exact}");
    }
}

fn small(decoder: Value, entries: &[&str]) -> Tokenizer {
    let vocab: serde_json::Map<String, Value> =
        entries.iter().enumerate().map(|(id, entry)| ((*entry).to_owned(), json!(id))).collect();
    let json = json!({
        "version": "1.0", "added_tokens": [
            {"id": 0, "content": "[PAD]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
        ],
        "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": decoder,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[PAD]"},
    });
    Tokenizer::from_bytes(json.to_string()).unwrap()
}

#[test]
fn word_pieces_and_metaspace_are_read_as_they_decode() {
    let pieces =
        ["[PAD]", "a", "##b", "cat", "##s", ".", "?", "'", "'s", "n't", "é", "##é", ",", "do"];
    for cleanup in [true, false] {
        let decoder = json!({"type": "WordPiece", "prefix": "##", "cleanup": cleanup});
        let tokenizer = small(decoder, &pieces);
        assert_eq!(TokenBytes::read(&tokenizer).unwrap().start, Start::DropsWordSpace);
        assert_eq!(compare(&tokenizer, 2000, 24), 2000);
    }
    let entries = ["[PAD]", "▁a", "b", "▁", "▁▁", "c▁d", "é", "▁é"];
    for (scheme, start) in [
        ("always", Start::DropsSpacesOfToken),
        ("first", Start::DropsSpacesOfToken),
        ("never", Start::AsIs),
    ] {
        let decoder = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
        let tokenizer = small(decoder, &entries);
        assert_eq!(TokenBytes::read(&tokenizer).unwrap().start, start);
        assert_eq!(compare(&tokenizer, 2000, 25), 2000);
    }
}

#[test]
fn decoders_that_do_not_give_bytes_are_refused() {
    let say = |decoder: Value| {
        TokenBytes::read(&small(decoder, &["[PAD]", "a"])).unwrap_err().to_string()
    };
    let expected =
        "tokenizer: expected a decoder for byte-level BPE, SentencePiece or WordPiece, got ";
    assert_eq!(say(Value::Null), format!("{expected}none"));
    let error = say(json!({"type": "BPEDecoder", "suffix": "</w>"}));
    assert!(error.starts_with(expected) && error.contains("BPEDecoder"), "{error}");
    let error = say(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    assert!(error.contains("Strip"), "{error}");
}

#[test]
fn a_vocabulary_is_as_wide_as_the_model_and_silent_where_asked() {
    let bytes = TokenBytes::read(&small(json!({"type": "Fuse"}), &["[PAD]", "a", "b"])).unwrap();
    let vocabulary = bytes.vocabulary(5, &[0], &[2]).unwrap();
    assert_eq!((vocabulary.size(), vocabulary.spoken(), vocabulary.eos()), (5, 1, &[0][..]));
    let narrow = bytes.vocabulary(2, &[0], &[]).unwrap_err().to_string();
    assert_eq!(narrow, "vocabulary: expected at least the tokenizer's 3 entries, got 2");
}
