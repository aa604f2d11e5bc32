//! Conversations by the template of a checkpoint, steered by a reward model.

use std::path::Path;

use serde_json::{Value, json};
use treasure::{Request, Session};
use treasure_server::{App, ServeOptions, Served};

use crate::call::{get, post};

fn golden(family: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../treasure-models/tests/golden");
    root.join(family).display().to_string()
}

#[tokio::test]
async fn an_answer_by_the_checkpoints_template_is_the_librarys() {
    let session = Session::pocket().unwrap();
    let reward = format!("raw:hf:{}", golden("llama_reward"));
    let options = ServeOptions {
        models: vec![Served::new(&format!("llada={}", golden("llada_chat")))],
        allow: vec![format!("liked={reward}")],
        quiet: true,
        ..ServeOptions::default()
    };
    let app = App::new(options, &session).unwrap();
    app.load().unwrap();
    assert_eq!(get(&app, "/v1/models").await.ok()["data"][0]["chat"], true);
    let messages = json!([
        {"role": "system", "content": "Be kind."}, {"role": "user", "content": "Tell me about rain."}
    ]);
    let body = json!({"messages": messages, "max_tokens": 16, "seed": 3,
        "treasure": {"reward": "own:liked", "block_length": 8, "steps": 8}});
    let answer = post(&app, "/v1/chat/completions", body).await.ok();
    let said = answer["choices"][0]["message"]["content"].as_str().unwrap();
    let request = json!({"model": golden("llada_chat"), "reward": reward, "messages": messages,
        "length": 16, "seed": 3, "block": 8, "steps": 8});
    let own = session.ask(Request::from_value(request).unwrap()).run().unwrap();
    assert_eq!(said, own.continuation);
    assert_eq!(answer["choices"][0]["treasure"]["reward"], json!(own.reward));
    // The same answer as through every other door.
    let told = std::fs::read_to_string(format!("{}/answer.json", golden("llada_chat"))).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    let body = json!({"messages": [{"role": "user", "content": told["prompt"]}], "max_tokens": 16,
        "seed": 3, "treasure": {"reward": "own:liked", "block": 8, "steps": 8}});
    let answer = post(&app, "/v1/chat/completions", body).await.ok();
    let choice = &answer["choices"][0];
    println!("{} earns {}", choice["message"]["content"], choice["treasure"]["reward"]);
    assert_eq!(choice["message"]["content"], told["answer"]);
    let reward = |of: &Value| of["reward"].as_f64().unwrap();
    assert!((reward(&choice["treasure"]) - reward(&told)).abs() < 1e-4);
    let refused = json!({"messages": messages, "treasure": {"chat": false}});
    let (status, _, param) = post(&app, "/v1/chat/completions", refused).await.refusal();
    assert_eq!((status, param), (400, json!("treasure.chat")));
}
