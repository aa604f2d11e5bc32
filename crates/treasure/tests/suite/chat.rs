//! A conversation steered towards a reward model's liking, on LLaDA- and Llama-shaped checkpoints.

use std::path::Path;

#[path = "../../examples/chat.rs"]
#[expect(dead_code, reason = "its main is the program's")]
mod example;

use serde_json::{Value, json};
use treasure::{Message, Plan, Request, Sample, Session};

fn golden(family: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../treasure-models/tests/golden");
    root.join(family).display().to_string()
}

fn request(own: Value) -> Request {
    let mut fields = json!({
        "model": golden("llada_chat"), "reward": format!("raw:hf:{}", golden("llama_reward")),
        "length": 16, "seed": 1,
    });
    fields.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
    Request::from_value(fields).unwrap()
}

fn ask(session: &Session, own: Value) -> Sample {
    session.ask(request(own)).run().unwrap()
}

/// The conversations of the golden folder, as transformers writes and reads them.
fn written() -> Vec<Value> {
    let text = std::fs::read_to_string(format!("{}/meta.json", golden("llada_chat"))).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["chat"].as_array().unwrap().clone()
}

#[test]
fn a_prompt_in_chat_is_what_transformers_writes_token_by_token() {
    let session = Session::pocket().unwrap();
    for case in written() {
        let messages: Vec<Message> = serde_json::from_value(case["messages"].clone()).unwrap();
        let plan = Plan::new(&request(json!({"messages": messages}))).unwrap();
        let prompt = session.conversation(&plan, &messages).unwrap();
        assert_eq!(prompt, case["text"].as_str().unwrap());
        let start = session.start(&plan, &prompt).unwrap();
        let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
        let slots: Vec<_> = start.state.slots().collect();
        assert_eq!(slots[..ids.len()], ids.iter().map(|&id| Some(id)).collect::<Vec<_>>());
        assert_eq!(slots[ids.len()..], vec![None; 16], "no token too many, no second beginning");
    }
}

#[test]
fn a_steered_answer_is_liked_better_than_the_models_own() {
    let session = Session::pocket().unwrap();
    let said = json!({"prompt": "Tell me about rain.", "chat": true});
    let with = |own: Value| {
        let mut all = said.clone();
        all.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        ask(&session, all)
    };
    let alone = with(json!({"method": "llada", "block": 8, "steps": 8}));
    let steered = with(json!({"block": 8}));
    let quick = with(json!({"block": 8, "steps": 8}));
    assert!(steered.reward > alone.reward, "{} against {}", steered.reward, alone.reward);
    assert!(quick.reward > alone.reward, "{} against {}", quick.reward, alone.reward);
    // Two tokens a step: half the model calls.
    assert_eq!(alone.cost.nfe, 8);
    assert!(quick.cost.nfe <= steered.cost.nfe / 2 + 2, "{:?} {:?}", quick.cost, steered.cost);
    for sample in [&alone, &steered, &quick] {
        assert_eq!(sample.prompt, written()[0]["text"].as_str().unwrap());
        // The row's reward is that of its text, which the reward model writes its own way.
        let spec = format!("raw:hf:{}", golden("llama_reward"));
        let again = session.score(&spec, &[&sample.text]).unwrap()[0].reward;
        assert_eq!(sample.reward, again);
    }
}

/// What every door answers: the command line, the server, Python and the page are tested against the same file.
#[test]
fn the_example_gives_the_answer_of_every_door() {
    let text = std::fs::read_to_string(format!("{}/answer.json", golden("llada_chat"))).unwrap();
    let told: Value = serde_json::from_str(&text).unwrap();
    let said = told["prompt"].as_str().unwrap();
    let found = example::answer(&golden("llada_chat"), &golden("llama_reward"), said).unwrap();
    println!("{:?} earns {}", found.continuation, found.reward);
    assert_eq!(found.continuation, told["answer"].as_str().unwrap());
    // Another instruction set may round otherwise.
    let near = |got: f64, name: &str| (got - told[name].as_f64().unwrap()).abs() < 1e-4;
    assert!(near(found.reward, "reward"), "{}", found.reward);
    for name in ["length", "block", "steps", "seed"] {
        assert_eq!(found.plan[name], told[name], "{name}");
    }
    let alone = json!({"prompt": said, "chat": true, "method": "llada", "block": 8, "steps": 8});
    let alone = ask(&Session::pocket().unwrap(), alone).reward;
    assert!(near(alone, "alone"), "{alone}");
}

#[test]
fn a_conversation_is_the_same_as_messages_as_a_system_message_and_as_written_out() {
    let session = Session::pocket().unwrap();
    let own = json!({"method": "llada", "steps": 4, "reward": "length:1..9"});
    let with = |more: Value| {
        let mut all = own.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask(&session, all)
    };
    let said = with(json!({"prompt": "Hello", "system": "Be kind."}));
    let messages = json!([
        {"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}
    ]);
    let listed = with(json!({"messages": messages}));
    let raw = with(json!({"prompt": said.prompt}));
    assert_eq!(said.text, listed.text);
    assert_eq!(said.text, raw.text, "a beginning that is written is not added again");
    assert_eq!(said.plan["chat"], true);
    assert!(raw.plan.get("chat").is_none());
}

#[test]
fn the_names_of_other_samplers_are_understood() {
    let theirs = json!({"prompt": "a", "method": "llada", "gen_length": 24, "block_length": 8, "steps": 6,
        "remasking": "random", "cfg_scale": 0.5});
    let plan = Plan::new(&Request::from_value(theirs).unwrap()).unwrap();
    assert_eq!((plan.length, plan.cfg_scale, plan.min_length), (24, 0.5, 0));
    let row = plan.to_value();
    assert_eq!((&row["block"], &row["steps"]), (&json!(8), &json!(6)));
    let theirs = json!({"prompt": "a", "method": "dream", "max_new_tokens": 24, "alg": "entropy", "top_p": 0.9});
    let row = Plan::new(&Request::from_value(theirs).unwrap()).unwrap().to_value();
    assert_eq!((&row["alg"], &row["length"]), (&json!("entropy"), &json!(24)));
    // What cannot be shared out is refused with what can.
    for (wrong, fix) in [
        (json!({"method": "llada", "length": 24, "block": 7, "steps": 8}), "such as 6 or 8"),
        (json!({"method": "llada", "length": 24, "block": 8, "steps": 7}), "such as 6 or 9"),
        (json!({"method": "llada", "block": 4, "block_length": 8}), "one block"),
        (json!({"messages": []}), "at least one"),
        (json!({"system": "x", "chat": false}), "chat beside it"),
        (json!({"chat": true, "template": "a [MASK:2]"}), "a prompt or messages"),
    ] {
        let error = Plan::new(&Request::from_value(wrong.clone()).unwrap()).unwrap_err();
        assert!(error.to_string().contains(fix), "{wrong}: {error}");
    }
}

#[test]
fn guidance_costs_two_calls_and_changes_the_text() {
    let session = Session::pocket().unwrap();
    let own = json!({"prompt": "Hello", "chat": true, "method": "llada", "reward": "length:1..9"});
    let plain = ask(&session, own.clone());
    let mut guided = own;
    guided["cfg_scale"] = 3.0.into();
    let guided = ask(&session, guided);
    assert_eq!(guided.cost.nfe, 2 * plain.cost.nfe);
    assert_ne!(guided.text, plain.text);
}

#[test]
fn a_model_without_a_template_says_so() {
    let session = Session::pocket().unwrap();
    let error = session.prompt("Hello").chat().reward("length:1..9").run().unwrap_err();
    assert!(error.to_string().contains("no chat template"), "{error}");
}
