//! The pocket models, end to end.

use std::time::Instant;

use serde_json::{Value, json};
use treasure_server::{App, ServeOptions};

use crate::call::{complete, get, post};

#[tokio::test]
async fn the_pocket_models_write_towards_a_reward_in_frames() {
    let session = treasure::Session::pocket().unwrap();
    let app = App::new(ServeOptions { quiet: true, ..ServeOptions::default() }, &session).unwrap();
    app.load().unwrap();
    let rewards = get(&app, "/v1/rewards").await.ok();
    assert_eq!(rewards["data"][0]["value"], "log-probability");
    let body = |own: Value| json!({"model": "pocket", "prompt": "The old dog", "max_tokens": 12, "seed": 0, "treasure": own});
    let own = json!({"reward": "sentiment=negative + 0.5*perplexity", "min_length": 6, "judge": ["cola"]});
    let plain = complete(&app, body(own.clone())).await.ok();
    let choice = &plain["choices"][0];
    assert_eq!(choice["treasure"]["rewards"].as_object().unwrap().len(), 2);
    assert!(choice["treasure"]["held_out"]["judges"]["cola"].is_number());
    let mut streamed = body(own);
    for (name, value) in [("stream", json!(true)), ("diffusing", json!(true))] {
        streamed[name] = value;
    }
    streamed["treasure"]["trace"] = true.into();
    let began = Instant::now();
    let chunks = complete(&app, streamed).await.chunks();
    eprintln!("{} chunks in {:?}", chunks.len(), began.elapsed());
    let last = chunks.iter().rfind(|chunk| chunk.get("diffusion_meta").is_some()).unwrap();
    assert_eq!(last["diffusion_meta"]["masks_left"], 0);
    assert_eq!(last["choices"][0]["text"], choice["text"]);
    let tokens = last["treasure"]["tokens"].as_array().unwrap();
    let spelt: String = tokens.iter().map(|token| token["text"].as_str().unwrap()).collect();
    assert_eq!(spelt, format!("The old dog{}", choice["text"].as_str().unwrap()));
    assert!(tokens.iter().filter(|token| token.get("p").is_some()).count() >= 1);
    forms_of_output_hold(&app).await;
    refinements_stay_within_a_form_of_output(&app).await;
}

async fn refinements_stay_within_a_form_of_output(app: &std::sync::Arc<App>) {
    let before = "The old dog was very sad.";
    for (field, form) in [
        ("guided_regex", json!("The old dog was [a-z ]+\\.")),
        ("guided_choice", json!([before, "The old dog was very nice.", "A dog."])),
        ("structured_outputs", json!({"regex": "The old [a-z ]+ sad\\."})),
    ] {
        let own = json!({"reward": "sentiment=positive", "rounds": 3});
        let mut body = json!({"model": "pocket", "input": before, "seed": 1, "treasure": own});
        body[field] = form;
        let answer = post(app, "/v1/refine", body).await.ok();
        let text = answer["choices"][0]["text"].as_str().unwrap();
        let holds = match field {
            "guided_regex" => text.starts_with("The old dog was ") && text.ends_with('.'),
            "guided_choice" => [before, "The old dog was very nice."].contains(&text),
            _ => text.starts_with("The old ") && text.ends_with(" sad."),
        };
        assert!(holds, "{field}: {text}");
    }
}

async fn forms_of_output_hold(app: &std::sync::Arc<App>) {
    let ask = |name: &str, value: Value| {
        let mut body = json!({"model": "pocket", "prompt": "My dog is", "max_tokens": 16, "treasure": {"reward": "sentiment=negative"}});
        body[name] = value;
        body
    };
    let text = async |body: Value| {
        let answer = complete(app, body).await.ok();
        answer["choices"][0]["text"].as_str().unwrap().to_owned()
    };
    let choices = json!([" red", " sad", " a happy dog"]);
    for name in ["guided_choice", "structured_outputs"] {
        let value =
            if name == "guided_choice" { choices.clone() } else { json!({"choice": choices}) };
        let got = text(ask(name, value)).await;
        assert!(choices.as_array().unwrap().contains(&json!(got)), "{got}");
    }
    let got = text(ask("guided_regex", json!(" [a-z]+ [0-9]{2}!"))).await;
    let digits = got.strip_suffix('!').unwrap().rsplit(' ').next().unwrap();
    assert!(digits.len() == 2 && digits.parse::<u8>().is_ok(), "{got}");
    let schema =
        json!({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]});
    let format = json!({"type": "json_schema", "json_schema": {"name": "dog", "schema": schema}});
    for (name, form) in [("response_format", format), ("guided_json", schema)] {
        let got = text(ask(name, form)).await;
        let value: Value = serde_json::from_str(&got).unwrap();
        assert!(value["age"].is_i64(), "{name}: {got}");
    }
    let refused = complete(app, ask("guided_regex", json!("a{200}"))).await;
    assert_eq!(refused.status.as_u16(), 422);
}
