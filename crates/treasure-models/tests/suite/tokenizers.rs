//! Tokenizers against the ids of the reference tokenizers.

use std::fs;

use serde_json::json;
use treasure_core::Hint as _;
use treasure_models::{LoadOptions, MaskedLm, Source, Tokenizer, inspect};
use treasure_text::{Message, TextModel as _};

use crate::support::*;

fn load(family: &str) -> Tokenizer {
    Source::Directory(golden(family)).tokenizer().unwrap().unwrap()
}

fn ids(value: &serde_json::Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

#[test]
fn texts_get_the_ids_of_the_reference_and_come_back() {
    let (plain, around) = (load("mdlm"), load("roberta_cls"));
    for sample in meta("mdlm")["text_samples"].as_array().unwrap() {
        let text = sample["text"].as_str().unwrap();
        assert_eq!(plain.encode(text, false).unwrap(), ids(&sample["token_ids"]));
        assert_eq!(plain.decode(&ids(&sample["token_ids"])).unwrap(), text);
    }
    for sample in meta("roberta_cls")["text_samples"].as_array().unwrap() {
        let text = sample["text"].as_str().unwrap();
        let with_specials = ids(&sample["token_ids"]);
        assert_eq!(around.encode(text, true).unwrap(), with_specials);
        let inner = &with_specials[1..with_specials.len() - 1];
        assert_eq!(around.encode(text, false).unwrap(), inner);
        assert_eq!(around.decode(&with_specials).unwrap(), text, "special tokens stay out");
    }
}

#[test]
fn merges_may_be_pairs_or_text() {
    let text = fs::read_to_string(golden("mdlm").join("tokenizer.json")).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let as_pairs: Vec<serde_json::Value> = json["model"]["merges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|merge| json!(merge.as_str().unwrap().split_once(' ').unwrap()))
        .collect();
    json["model"]["merges"] = as_pairs.into();
    let pairs = Tokenizer::parse(&json.to_string(), "pairs").unwrap();
    let sample = &meta("mdlm")["text_samples"][1];
    let text = sample["text"].as_str().unwrap();
    assert_eq!(pairs.encode(text, false).unwrap(), ids(&sample["token_ids"]));
}

/// A folder with `vocab.json` and `merges.txt` made of a `tokenizer.json`.
fn vocabulary_and_merges(model_type: &str) -> tempfile::TempDir {
    let text = fs::read_to_string(golden("mdlm").join("tokenizer.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut vocabulary = json["model"]["vocab"].clone();
    vocabulary["<|endoftext|>"] = 209.into();
    let mut merges = "#version: 0.2\n".to_owned();
    for merge in json["model"]["merges"].as_array().unwrap() {
        merges += merge.as_str().unwrap();
        merges += "\n";
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("vocab.json"), vocabulary.to_string()).unwrap();
    fs::write(dir.path().join("merges.txt"), merges).unwrap();
    fs::write(dir.path().join("config.json"), json!({"model_type": model_type}).to_string())
        .unwrap();
    dir
}

#[test]
fn vocabulary_and_merges_give_the_ids_of_tokenizer_json() {
    let dir = vocabulary_and_merges("gpt2");
    let tokenizer = Source::Directory(dir.path().to_owned()).tokenizer().unwrap().unwrap();
    for sample in meta("mdlm")["text_samples"].as_array().unwrap() {
        let text = sample["text"].as_str().unwrap();
        assert_eq!(tokenizer.encode(text, false).unwrap(), ids(&sample["token_ids"]));
    }
    assert_eq!(tokenizer.encode("a<|endoftext|>", false).unwrap().last(), Some(&209));
}

#[test]
fn qwen2_cuts_digits_one_by_one_and_gpt2_does_not() {
    let pieces = |model_type: &str, text: &str| {
        let dir = vocabulary_and_merges(model_type);
        let path = dir.path().join("vocab.json");
        edit_json(&path, |vocabulary| vocabulary["12"] = 210.into());
        let merges = fs::read_to_string(dir.path().join("merges.txt")).unwrap();
        fs::write(dir.path().join("merges.txt"), merges + "1 2\n").unwrap();
        let source = Source::Directory(dir.path().to_owned());
        let tokenizer = source.tokenizer().unwrap().unwrap();
        let ids = tokenizer.encode(text, false).unwrap();
        ids.iter().map(|&id| tokenizer.entry(id).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(pieces("gpt2", "12"), ["12"]);
    assert_eq!(pieces("Dream", "12"), ["1", "2"]);
}

#[test]
fn an_unknown_family_of_vocabulary_files_is_an_error_not_a_guess() {
    let dir = vocabulary_and_merges("llada");
    let error = Source::Directory(dir.path().to_owned()).tokenizer().unwrap_err();
    assert!(error.to_string().contains("whose split rule is known"), "{error}");
}

/// A tiny SentencePiece-style tokenizer in the manner of Llama 2.
fn llama_style(metaspace: bool) -> Tokenizer {
    let entries = ["<unk>", "<s>", "</s>", "▁", "a", "b", "▁a", "ab", "▁ab"];
    let vocabulary: serde_json::Map<_, _> =
        entries.iter().enumerate().map(|(id, entry)| ((*entry).to_owned(), json!(id))).collect();
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let json = json!({
        "version": "1.0", "truncation": {"max_length": 2, "strategy": "LongestFirst", "stride": 0,
            "direction": "Right"}, "padding": null, "added_tokens": [],
        "normalizer": if metaspace { json!(null) } else {
            json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace]})
        },
        "pre_tokenizer": if metaspace {
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false})
        } else { json!(null) },
        "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary, "merges": ["▁ a", "a b", "▁ ab", "▁a b"]},
    });
    Tokenizer::parse(&json.to_string(), "tiny").unwrap()
}

#[test]
fn a_fragment_has_no_dummy_prefix_and_keeps_its_leading_space() {
    for metaspace in [false, true] {
        let tokenizer = llama_style(metaspace);
        let entries =
            |ids: Vec<u32>| ids.iter().map(|&id| tokenizer.entry(id).unwrap()).collect::<Vec<_>>();
        assert_eq!(entries(tokenizer.encode("ab", false).unwrap()), ["▁ab"]);
        assert_eq!(entries(tokenizer.encode_fragment("ab").unwrap()), ["ab"]);
        let whole = tokenizer.encode("ab a b", false).unwrap();
        assert!(whole.len() > 2, "a truncation in the file is not applied");
        assert_eq!(tokenizer.decode(&whole).unwrap(), "ab a b");
        assert_eq!(tokenizer.decode_fragment(&whole).unwrap(), " ab a b");
        assert_eq!(tokenizer.token_text(6).unwrap(), " a");
    }
}

#[test]
fn a_token_is_shown_as_text_with_its_space() {
    let tokenizer = load("mdlm");
    let id = tokenizer.id("Ġthe").unwrap();
    assert_eq!(tokenizer.token_text(id).unwrap(), " the");
    assert_eq!(tokenizer.token_text(209).unwrap(), "<|endoftext|>");
    assert_eq!(tokenizer.token_text(100_000), None);
}

#[test]
fn special_tokens_come_from_the_files_beside_the_tokenizer() {
    let dir = copy(&golden("roberta_cls"));
    fs::write(
        dir.path().join("tokenizer_config.json"),
        json!({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": null})
            .to_string(),
    )
    .unwrap();
    let tokenizer = Source::Directory(dir.path().to_owned()).tokenizer().unwrap().unwrap();
    let specials = tokenizer.specials();
    assert_eq!((specials.bos, specials.eos, specials.pad), (Some(0), Some(2), None));
    assert_eq!(specials.mask, Some(210));
    // Without such files the names that GPT-2's and RoBERTa's classes have by default.
    assert_eq!((load("mdlm").specials().bos, load("mdlm").specials().eos), (Some(209), Some(209)));
    // A file that says there is none is believed.
    fs::write(dir.path().join("tokenizer_config.json"), json!({"bos_token": null}).to_string())
        .unwrap();
    let tokenizer = Source::Directory(dir.path().to_owned()).tokenizer().unwrap().unwrap();
    assert_eq!(tokenizer.specials().bos, None);
}

#[test]
fn a_vocabulary_that_does_not_belong_to_the_model_is_an_error() {
    let with_tokenizer = |family: &str, from: &str| {
        let options = LoadOptions { tokenizer: Some(spec(&golden(from))), ..options(family) };
        MaskedLm::load(&resolver(), &spec(&golden(family)), &options)
    };
    // 210 entries for a model of 127 rows.
    let error = with_tokenizer("llada", "mdlm").unwrap_err();
    assert_eq!(error.to_string(), "tokenizer: vocabulary has 210 entries, the model expects 127");
    assert!(error.hint().unwrap().contains("tokenizer"));
    // Padding rows are usual; a vocabulary half the size is not.
    let tokenizer = load("mdlm");
    assert!(tokenizer.check_against(211).is_ok());
    assert!(tokenizer.check_against(224).is_ok());
    assert!(tokenizer.check_against(420).is_err());
}

#[test]
fn the_mask_token_of_a_tokenizer_is_found_by_its_name() {
    // BERT's config has no mask id; its tokenizer names [MASK].
    let dir = copy(&golden("bert_mlm"));
    let mut entries: Vec<String> =
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(String::from).into();
    entries.extend((entries.len()..109).map(|id| format!("w{id}")));
    fs::write(dir.path().join("vocab.txt"), entries.join("\n")).unwrap();
    let model = MaskedLm::load(&resolver(), &spec(dir.path()), &LoadOptions::default()).unwrap();
    assert_eq!(model.mask_id(), 4);
    let tokenizer = model.tokenizer().unwrap();
    assert_eq!(tokenizer.encode("W7 w8", true).unwrap(), [2, 7, 8, 3]);
}

#[test]
fn text_for_a_model_without_a_tokenizer_says_how_to_pass_one() {
    let model =
        MaskedLm::load(&resolver(), &spec(&golden("mdlm_sigma")), &LoadOptions::default()).unwrap();
    assert!(model.tokenizer_at_hand().is_none());
    let error = model.tokenizer().unwrap_err();
    assert!(error.to_string().contains("gpt2"), "{error}");
    assert!(error.hint().unwrap().contains("tokenizer"));
}

#[test]
fn ends_of_a_text_are_those_of_the_files_and_of_turns_each_once() {
    let dir = copy(&golden("llada_chat"));
    let ends = || {
        inspect(&resolver(), &spec(dir.path()), &LoadOptions::default()).map(|what| what.end_ids)
    };
    // The end of text, and `<|eot_id|>`, which ends a turn.
    assert_eq!(ends().unwrap(), [257, 260]);
    let path = dir.path().join("generation_config.json");
    fs::write(&path, json!({"eos_token_id": [65, 257]}).to_string()).unwrap();
    assert_eq!(ends().unwrap(), [257, 65, 260]);
    fs::write(&path, json!({"eos_token_id": "none"}).to_string()).unwrap();
    let error = ends().unwrap_err().to_string();
    assert!(error.contains("eos_token_id"), "{error}");
}

#[test]
fn tokens_of_added_tokens_json_are_whole_and_special() {
    let dir = vocabulary_and_merges("gpt2");
    let path = dir.path().join("added_tokens.json");
    fs::write(&path, json!({"<|more|>": 210}).to_string()).unwrap();
    let tokenizer = Source::Directory(dir.path().to_owned()).tokenizer().unwrap().unwrap();
    assert_eq!(tokenizer.encode("a<|more|>", false).unwrap().last(), Some(&210));
    assert!(tokenizer.special_ids().contains(&210));
    fs::write(&path, json!({"<|more|>": "x"}).to_string()).unwrap();
    let error = Source::Directory(dir.path().to_owned()).tokenizer().unwrap_err().to_string();
    assert!(error.contains("added_tokens.json: <|more|>"), "{error}");
}

#[test]
fn a_config_without_a_mask_id_gets_that_of_the_published_vocabulary_and_no_other() {
    for (family, vocabulary, mask) in [
        ("llada", 126_464, Some(126_336)),
        ("dream", 152_064, Some(151_666)),
        ("llada", 126_400, None),
    ] {
        let dir = copy(&golden(family));
        let old = meta(family)["dims"]["vocab"].as_u64().unwrap();
        edit_json(&dir.path().join("config.json"), |config| {
            config.as_object_mut().unwrap().remove("mask_token_id");
            for key in ["vocab_size", "embedding_size"] {
                if config.get(key).is_some() {
                    config[key] = vocabulary.into();
                }
            }
        });
        widen_vocabulary(&dir.path().join("model.safetensors"), old, vocabulary);
        let found = inspect(&resolver(), &spec(dir.path()), &LoadOptions::default()).unwrap();
        assert_eq!(found.mask_id, mask, "{family} with {vocabulary} entries");
    }
}

/// Gives embeddings more rows, in a file that is mostly a hole.
fn widen_vocabulary(path: &std::path::Path, old: u64, new: u64) {
    let bytes = fs::read(path).unwrap();
    let len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Map<_, _> = serde_json::from_slice(&bytes[8..8 + len]).unwrap();
    header.remove("__metadata__");
    let mut end = 0;
    for info in header.values_mut() {
        if info["shape"][0] == old {
            info["shape"][0] = new.into();
        }
        let numbers: u64 =
            info["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).product();
        info["data_offsets"] = json!([end, end + 4 * numbers]);
        end += 4 * numbers;
    }
    let header = serde_json::Value::Object(header).to_string();
    let begin = (header.len() as u64).to_le_bytes();
    fs::write(path, [&begin[..], header.as_bytes()].concat()).unwrap();
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(8 + header.len() as u64 + end).unwrap();
}

#[test]
fn a_template_file_goes_before_that_of_tokenizer_config() {
    let dir = copy(&golden("llada_chat"));
    let written = || {
        let path = spec(dir.path());
        let model = MaskedLm::load(&resolver(), &path, &LoadOptions::default()).unwrap();
        let said: Message =
            serde_json::from_value(json!({"role": "user", "content": "Hi"})).unwrap();
        model.chat().unwrap().render(&[said], true).unwrap()
    };
    assert!(written().starts_with("<|startoftext|><|start_header_id|>user"), "{}", written());
    let own = "{{ bos_token }}{% for turn in messages %}[{{ turn.content }}]{% endfor %}";
    fs::write(dir.path().join("chat_template.jinja"), own).unwrap();
    assert_eq!(written(), "<|startoftext|>[Hi]");
}
