//! Reward models of Llama's and Qwen2's type against transformers, and ArmoRM's gate.

use treasure_models::{Classifier, Dtype, Family, LoadOptions, inspect};

use crate::{scalar::Scalar, support::*};

fn load(family: &str) -> Classifier {
    Classifier::load(&resolver(), &spec(&golden(family)), &LoadOptions::default()).unwrap()
}

fn rows(family: &str) -> Vec<Vec<u32>> {
    let io = Io::read(family);
    (0..3).map(|row| io.ids(&format!("row{row}_input_ids")).remove(0)).collect()
}

#[test]
fn one_logit_is_that_of_transformers() {
    for family in REWARD_MODELS {
        let (model, io, atol) = (load(family), Io::read(family), tolerance(family));
        assert_eq!(model.family(), Family::LlamaClassifier);
        assert_eq!(model.labels().len(), 1, "{family}");
        for (row, ids) in rows(family).iter().enumerate() {
            let got = model.logits_ids(&[ids]).unwrap().concat();
            let off = distance(&got, &io.numbers(&format!("row{row}_logits")));
            assert!(off <= atol, "{family} row {row} is off by {off}, allowed are {atol}");
        }
    }
}

#[test]
fn padding_at_the_end_is_not_read_as_transformers_does_not() {
    for family in ["llama_reward", "qwen2_reward"] {
        let model = load(family);
        let pad = model.tokenizer().unwrap().specials().pad.unwrap();
        for ids in rows(family) {
            let mut padded = ids.clone();
            padded.extend([pad; 3]);
            assert_eq!(model.logits_ids(&[&ids]).unwrap(), model.logits_ids(&[&padded]).unwrap());
        }
    }
}

#[test]
fn a_batch_gives_bitwise_the_numbers_of_each_row_in_every_precision() {
    for family in REWARD_MODELS {
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::Int8] {
            let options = LoadOptions { dtype, ..LoadOptions::default() };
            let model = Classifier::load(&resolver(), &spec(&golden(family)), &options).unwrap();
            let rows = rows(family);
            let views: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
            let together = model.logits_ids(&views).unwrap();
            for (row, got) in views.iter().zip(&together) {
                assert_eq!(&model.logits_ids(&[row]).unwrap()[0], got, "{family} {dtype}");
            }
        }
    }
}

#[test]
fn another_executor_gives_the_same_logits() {
    for family in REWARD_MODELS {
        let (resolver, spec) = (resolver(), spec(&golden(family)));
        let options = LoadOptions::default();
        let model = Classifier::load_on(&Scalar, &resolver, &spec, &options).unwrap();
        for (row, ids) in rows(family).iter().enumerate() {
            let got = model.logits_ids(&[ids]).unwrap().concat();
            let off = distance(&got, &Io::read(family).numbers(&format!("row{row}_logits")));
            assert!(off <= tolerance(family), "{family} is off by {off}");
        }
    }
}

#[test]
fn a_conversation_is_written_by_the_reward_models_own_template() {
    // The same conversation as LLaDA's template and as ChatML write it.
    let llada = "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\nTell me about rain.<|eot_id|>\
                 <|start_header_id|>assistant<|end_header_id|>\n\n";
    let chat_ml = "<|im_start|>user\nTell me about rain.<|im_end|>\n<|im_start|>assistant\n";
    for family in REWARD_MODELS {
        let model = load(family);
        for (sample, answer) in meta(family)["text_samples"].as_array().unwrap().iter().zip([
            "It falls.",
            "No.",
            "Rain is water that falls from clouds, and it is good.",
        ]) {
            let expected: Vec<u32> = (sample["token_ids"].as_array().unwrap().iter())
                .map(|id| id.as_u64().unwrap() as u32)
                .collect();
            for prompt in [llada, chat_ml] {
                let ids = model.ids(&format!("{prompt}{answer}")).unwrap();
                assert_eq!(ids, expected, "{family}: {answer}");
            }
        }
    }
}

#[test]
fn a_text_that_is_no_conversation_is_read_as_it_is_but_not_by_a_gate() {
    let model = load("llama_reward");
    let ids = model.ids("Rain falls.").unwrap();
    assert_eq!(model.tokenizer().unwrap().decode(&ids).unwrap(), "Rain falls.");
    assert!(model.log_probs_ids(&[&ids]).is_ok());
    let gated = load("armorm");
    let error = gated.log_probs_ids(&[&gated.ids("Rain falls.").unwrap()]).unwrap_err();
    assert!(error.to_string().contains("a conversation in Llama 3's format"), "{error}");
}

#[test]
fn an_inspection_knows_a_reward_model_and_its_template() {
    for family in REWARD_MODELS {
        let found = inspect(&resolver(), &spec(&golden(family)), &LoadOptions::default()).unwrap();
        assert_eq!(found.architecture, Family::LlamaClassifier);
        assert!(found.chat, "{family}");
    }
}
