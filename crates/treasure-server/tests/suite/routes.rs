//! Every route, asked as it should be.

use serde_json::{Value, json};
use treasure_server::{Chat, Served};

use crate::{
    call::{complete, get, post},
    toy,
};

fn reward() -> Value {
    json!({"reward": "contains:dog,cat"})
}

#[tokio::test]
async fn a_completion_has_openais_shape_and_ours_under_one_key() {
    let app = toy::app(toy::options());
    let body = json!({"model": "own", "prompt": "the old dog", "max_tokens": 8, "seed": 3, "treasure": reward()});
    let answer = complete(&app, body).await;
    assert!(!answer.header("x-request-id").is_empty());
    let answer = answer.ok();
    assert_eq!(answer["object"], "text_completion");
    assert_eq!(answer["model"], "own");
    assert!(answer["id"].as_str().unwrap().starts_with("cmpl-"));
    let choice = &answer["choices"][0];
    assert_eq!((&choice["index"], &choice["logprobs"]), (&json!(0), &Value::Null));
    assert!(["stop", "length"].contains(&choice["finish_reason"].as_str().unwrap()));
    let own = &choice["treasure"];
    for field in ["reward", "rewards", "cost", "plan", "seed", "method", "tokens"] {
        assert!(!own[field].is_null(), "{field}: {own}");
    }
    assert_eq!(own["plan"]["length"], 8);
    assert_eq!(own["plan"]["seed"], 3);
    let usage = &answer["usage"];
    assert_eq!(usage["prompt_tokens"], 4, "<bos> the old dog");
    let completion = usage["completion_tokens"].as_u64().unwrap();
    assert_eq!(completion as usize, own["tokens"].as_array().unwrap().len());
    assert_eq!(usage["total_tokens"], 4 + completion);
}

#[tokio::test]
async fn prompt_lists_and_n_give_choices_in_order() {
    let app = toy::app(toy::options());
    let body =
        json!({"prompt": ["the dog", "a cat"], "n": 3, "max_tokens": 6, "treasure": reward()});
    let answer = complete(&app, body).await.ok();
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 6);
    let samples: Vec<_> =
        choices.iter().map(|choice| choice["treasure"]["sample"].as_u64().unwrap()).collect();
    assert_eq!(samples, [0, 1, 2, 0, 1, 2]);
    assert_eq!(answer["usage"]["prompt_tokens"], 6);
    // Each is what it would be by itself.
    let alone =
        complete(&app, json!({"prompt": "a cat", "n": 3, "max_tokens": 6, "treasure": reward()}))
            .await
            .ok();
    for (index, choice) in alone["choices"].as_array().unwrap().iter().enumerate() {
        assert_eq!(choice["text"], choices[3 + index]["text"]);
    }
}

#[tokio::test]
async fn the_first_model_and_the_usual_length_are_the_default() {
    let app = toy::app(toy::options());
    let answer = complete(
        &app,
        json!({"prompt": "the", "treasure": {"reward": "contains:dog", "method": "fhs"}}),
    )
    .await
    .ok();
    assert_eq!(answer["model"], "own");
    assert_eq!(answer["choices"][0]["treasure"]["plan"]["length"], 48);
}

#[tokio::test]
async fn a_template_comes_back_whole_and_a_suffix_stays_out_of_the_middle() {
    let app = toy::app(toy::options());
    let body = json!({"prompt": "", "treasure": {"template": "the [MASK:3] was [MASK:2] .", "reward": "contains:dog"}});
    let answer = complete(&app, body).await.ok();
    let text = answer["choices"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("the ") && text.contains(" was ") && text.ends_with(" ."), "{text}");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");

    let body = json!({"prompt": "the dog", "suffix": " ran home .", "max_tokens": 4, "treasure": reward()});
    for path in ["/v1/fim/completions", "/v1/completions"] {
        let answer = post(&app, path, body.clone()).await.ok();
        let middle = answer["choices"][0]["text"].as_str().unwrap();
        let whole = answer["choices"][0]["treasure"]["plan"]["template"].as_str().unwrap();
        assert_eq!(whole, "the dog[MASK:4] ran home .");
        assert!(!middle.contains("ran home .") && !middle.starts_with("the dog"), "{middle}");
        assert_eq!(middle.split_whitespace().count(), 4, "{middle}");
    }
}

#[tokio::test]
async fn finished_texts_are_refined_and_say_what_they_were() {
    let app = toy::app(toy::options());
    let texts = ["the old dog ran home", "the cat was sad"];
    let own = json!({"reward": "contains:happy", "keep": "^the ", "rounds": 6});
    let body = json!({"input": texts, "seed": 1, "treasure": own});
    let answer = post(&app, "/v1/refine", body.clone()).await.ok();
    assert_eq!(answer["object"], "text_completion");
    for (index, before) in texts.iter().enumerate() {
        let choice = &answer["choices"][index];
        let (text, own) = (choice["text"].as_str().unwrap(), &choice["treasure"]);
        assert!(text.starts_with("the"), "{text}");
        assert_eq!(text.split_whitespace().count(), before.split_whitespace().count());
        assert_eq!((&own["before"], &own["reward_before"]), (&json!(before), &json!(0.0)));
        assert!(own["reward"].as_f64().unwrap() > 0.0, "{choice}");
        assert_eq!((&own["method"], &choice["finish_reason"]), (&json!("refine"), &json!("stop")));
        // Each is what it would be by itself.
        let alone = json!({"input": before, "seed": 1, "treasure": body["treasure"]});
        let alone = post(&app, "/v1/refine", alone).await.ok();
        assert_eq!(alone["choices"][0]["text"], choice["text"]);
    }
    let mut streamed = body;
    streamed["stream"] = true.into();
    let chunks = post(&app, "/v1/refine", streamed.clone()).await.chunks();
    for index in 0..texts.len() {
        let own = chunks.iter().flat_map(|chunk| chunk["choices"].as_array().unwrap());
        let own = own.filter(|choice| choice["index"] == index);
        let joined: String = own.filter_map(|choice| choice["text"].as_str()).collect();
        assert_eq!(joined, answer["choices"][index]["text"].as_str().unwrap());
    }
    streamed["diffusing"] = true.into();
    let frames = post(&app, "/v1/refine", streamed).await.chunks();
    // Finished texts are among the frames; a slow reader is not sent each of them.
    let whole = frames.iter().filter(|frame| {
        frame["choices"][0]["index"] == 0 && frame["diffusion_meta"]["masks_left"] == 0
    });
    let whole: Vec<&Value> = whole.map(|frame| &frame["choices"][0]["text"]).collect();
    assert!(whole.last().is_some_and(|last| **last == answer["choices"][0]["text"]), "{whole:?}");
}

#[tokio::test]
async fn refinements_that_make_no_sense_are_refused_beside_their_field() {
    let app = toy::app(toy::options());
    let cases = [
        (json!({}), "input"),
        (json!({"input": 3}), "input"),
        (json!({"input": " "}), "input"),
        (json!({"input": "the dog barks"}), "input"),
        (json!({"input": "the dog", "prompt": "the"}), "prompt"),
        (json!({"input": "the dog", "max_tokens": 5}), "max_tokens"),
        (json!({"input": "the dog", "guided_regex": "a"}), "input"),
        (json!({"input": "the dog", "treasure": {"text": "a"}}), "treasure.text"),
        (json!({"input": "the dog", "treasure": {"keep": "("}}), "treasure.keep"),
        (json!({"input": "the dog", "treasure": {"keep": ".*"}}), "treasure.keep"),
        (json!({"input": "the dog", "treasure": {"method": "bon"}}), "input"),
        (json!({"input": "the dog", "treasure": {"rounds": 65}}), "treasure.rounds"),
    ];
    for (body, param) in cases {
        let (status, message, got) = post(&app, "/v1/refine", body.clone()).await.refusal();
        assert_eq!((status, got), (400, json!(param)), "{body}: {message}");
    }
    let mut options = toy::options();
    options.limits.insert("length".into(), 3);
    let app = toy::app(options);
    let (status, message, param) =
        post(&app, "/v1/refine", json!({"input": "the old dog ran"})).await.refusal();
    assert_eq!((status, param), (400, json!("input")), "{message}");
}

#[tokio::test]
async fn echo_and_stop_shape_the_text_and_not_the_search() {
    let app = toy::app(toy::options());
    let body = json!({"prompt": "the dog", "max_tokens": 12, "seed": 1, "treasure": reward()});
    let plain = complete(&app, body.clone()).await.ok();
    let text = plain["choices"][0]["text"].as_str().unwrap();
    let mut echoed = body.clone();
    echoed["echo"] = true.into();
    let echoed = complete(&app, echoed).await.ok();
    assert_eq!(echoed["choices"][0]["text"].as_str().unwrap(), format!("the dog{text}"));
    let word = text.split_whitespace().nth(3).unwrap();
    let mut stopped = body;
    stopped["stop"] = json!(["nothing of the kind", word]);
    let stopped = complete(&app, stopped).await.ok();
    let choice = &stopped["choices"][0];
    assert_eq!(choice["text"].as_str().unwrap(), &text[..text.find(word).unwrap()]);
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(choice["treasure"]["uncut"].as_str().unwrap(), text);
    assert_eq!(choice["treasure"]["reward"], plain["choices"][0]["treasure"]["reward"]);
}

#[tokio::test]
async fn chat_needs_a_template_and_uses_it() {
    let mut options = toy::options();
    let mut talks = Served::new("talks=own");
    talks.chat = Some(Chat::new(|messages| {
        Ok(messages.iter().map(|message| message.content.clone()).collect::<Vec<_>>().join(" "))
    }));
    options.models.push(talks);
    let app = toy::app(options);
    let body = |model: &str| {
        json!({"model": model, "max_completion_tokens": 6, "treasure": reward(), "messages": [
            {"role": "system", "content": "the old"},
            {"role": "user", "content": [{"type": "text", "text": "dog"}]}]})
    };
    let (status, message, param) = post(&app, "/v1/chat/completions", body("own")).await.refusal();
    assert_eq!((status, param), (400, json!("messages")));
    assert!(message.contains("chat template"), "{message}");
    let answer = post(&app, "/v1/chat/completions", body("talks")).await.ok();
    assert_eq!(answer["object"], "chat.completion");
    let choice = &answer["choices"][0];
    assert_eq!(choice["message"]["role"], "assistant");
    let plain = json!({"prompt": "the old dog", "max_tokens": 6, "treasure": reward()});
    let plain = complete(&app, plain).await.ok();
    assert_eq!(choice["message"]["content"], plain["choices"][0]["text"]);
    // Where the operator keeps a model is not told.
    assert_eq!(choice["treasure"]["plan"]["model"], "talks");
}

#[tokio::test]
async fn texts_are_scored() {
    let app = toy::app(toy::options());
    let body = json!({"input": ["the dog", "the dog and the cat"], "reward": "contains:dog,cat + 2*length:1..3"});
    let answer = post(&app, "/v1/score", body).await.ok();
    let rewards: Vec<_> = answer["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["reward"].as_f64().unwrap())
        .collect();
    assert_eq!(rewards.len(), 2);
    assert_eq!(rewards[0], 2.5);
    assert_eq!(answer["data"][1]["rewards"]["contains:dog,cat"], 1.0);
}

#[tokio::test]
async fn what_there_is_can_be_listed() {
    let app = toy::app(toy::options());
    let models = get(&app, "/v1/models").await.ok();
    assert_eq!((&models["object"], &models["data"][0]["id"]), (&json!("list"), &json!("own")));
    assert_eq!(get(&app, "/v1/models/own").await.ok()["object"], "model");
    let rewards = get(&app, "/v1/rewards").await.ok();
    let contains = rewards["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["id"] == "contains:")
        .unwrap();
    assert_eq!(
        (&contains["value"], &contains["example"]),
        (&json!("unit"), &json!("contains:river,hat"))
    );
    let schema = get(&app, "/v1/schema").await.ok();
    for name in
        ["reward", "method", "beam_width", "tree_width", "prior", "min_p", "trace", "particles"]
    {
        assert!(schema["properties"].get(name).is_some(), "{name}");
    }
    assert!(schema["properties"].get("tokenizer").is_none());
    // The defaults follow the reward.
    let of = async |reward: &str| get(&app, &format!("/v1/schema?reward={reward}")).await;
    let beam = |schema: &Value| schema["properties"]["beam_width"]["default"].clone();
    for reward in ["contains:dog", "sentiment%3Dnegative+%2B+0.5*perplexity"] {
        let own = of(reward).await.ok();
        let asked = reward.replace("%3D", "=").replace('+', " ").replace("%2B", "+");
        let plan = treasure::Plan::new(&treasure::Request {
            reward: Some(asked.clone()),
            ..Default::default()
        });
        let plan = plan.unwrap().to_value();
        for name in ["reward", "beam_width", "tree_width", "prior", "min_p", "order", "select"] {
            assert_eq!(own["properties"][name]["default"], plan[name], "{asked}: {name}");
        }
    }
    assert_ne!(beam(&schema), beam(&of("contains:dog").await.ok()));
    let (status, _, param) = of("sentimnt=sad").await.refusal();
    assert_eq!((status, param), (400, json!("reward")));
    assert_eq!(of("exec:id").await.json()["error"]["code"], "reward_not_allowed");
    // A judge that no search is paid for, to be asked beside a reward.
    let negative =
        rewards["data"].as_array().unwrap().iter().find(|own| own["id"] == "sentiment=negative");
    if let Some(negative) = negative {
        assert_eq!(negative["held_out"], "hf:pocket/judge-sentiment-heldout#negative");
    }
    assert_eq!(get(&app, "/health").await.ok()["status"], "ok");
    assert_eq!(get(&app, "/ready").await.ok()["status"], "ready");
}

#[tokio::test]
async fn the_document_has_every_route_and_its_references_lead_somewhere() {
    let app = toy::app(toy::options());
    let document = get(&app, "/openapi.json").await.ok();
    assert_eq!(document["openapi"], "3.1.0");
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path.replace("{id}", "own");
        for method in methods.as_object().unwrap().keys() {
            let answer = match method.as_str() {
                "get" => get(&app, &path).await,
                _ => post(&app, &path, json!({})).await,
            };
            assert!(
                ![404, 405, 500].contains(&answer.status.as_u16()),
                "{method} {path}: {}",
                answer.text()
            );
        }
    }
    fn look(value: &Value, whole: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(to)) = fields.get("$ref") {
                    assert!(whole.pointer(to.trim_start_matches('#')).is_some(), "{to}");
                }
                fields.values().for_each(|value| look(value, whole));
            }
            Value::Array(items) => items.iter().for_each(|value| look(value, whole)),
            _ => {}
        }
    }
    look(&document, &document);
}

#[tokio::test]
async fn the_page_is_served_with_its_files_and_types() {
    let app = toy::app(toy::options());
    let index = get(&app, "/").await;
    assert_eq!(index.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(index.header("x-content-type-options"), "nosniff");
    let index = index.text();
    assert!(index.contains("data-testid=\"prompt\""));
    for (name, kind) in [("main.js", "text/javascript"), ("style.css", "text/css")] {
        assert!(index.contains(name), "{name}");
        let file = get(&app, &format!("/{name}")).await;
        assert_eq!(file.header("content-type"), format!("{kind}; charset=utf-8"));
    }
    // Every module that a file imports is there.
    for (name, _) in walk_modules(&app).await {
        assert_eq!(get(&app, &format!("/{name}")).await.status, 200, "{name}");
    }
    let docs = get(&app, "/page.md").await;
    assert!(index.contains("href=\"page.md\"") && docs.status == 200);
    assert_eq!(docs.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(get(&app, "/README.md").await.status, 404);
    assert_eq!(get(&app, "/..%2fCargo.toml").await.status, 404);
}

async fn walk_modules(app: &std::sync::Arc<treasure_server::App>) -> Vec<(String, usize)> {
    let mut found = vec![("main.js".to_owned(), 0)];
    let mut at = 0;
    while at < found.len() {
        let text = get(app, &format!("/{}", found[at].0)).await.text();
        for piece in text.split("\"./").skip(1) {
            let name = piece.split('"').next().unwrap().to_owned();
            if name.ends_with(".js") && found.iter().all(|(known, _)| *known != name) {
                found.push((name, at));
            }
        }
        at += 1;
    }
    assert!(found.len() > 10, "{found:?}");
    found
}

#[tokio::test]
async fn values_that_ask_for_nothing_are_taken_on_every_route() {
    let app = toy::app(toy::options());
    let neutral = json!({"min_p": 0, "top_k": -1, "repetition_penalty": 1.0, "temperature": 1, "user": "x", "unheard_of": 3});
    let with = |mut body: Value| {
        body.as_object_mut().unwrap().extend(neutral.as_object().unwrap().clone());
        body
    };
    let search =
        with(json!({"prompt": "the", "max_tokens": 2, "treasure": {"reward": "contains:dog"}}));
    post(&app, "/v1/completions", search.clone()).await.ok();
    let scored = with(json!({"input": "the dog", "reward": "contains:dog"}));
    post(&app, "/v1/score", scored.clone()).await.ok();
    for (path, body) in [("/v1/completions", search), ("/v1/score", scored)] {
        for (name, value) in [("min_p", json!(0.1)), ("top_k", json!(5)), ("top_p", json!(0.5))] {
            let mut wrong = body.clone();
            wrong[name] = value;
            let (status, _, param) = post(&app, path, wrong).await.refusal();
            assert_eq!((status, param), (400, json!(name)), "{path}");
        }
    }
    for (name, hint) in [("rewrad", "did you mean reward?"), ("tree_width", "fields: input")] {
        let body = json!({"input": "a", "reward": "contains:dog", name: 3});
        let (status, message, param) = post(&app, "/v1/score", body).await.refusal();
        assert_eq!((status, param), (400, json!(name)));
        assert!(message.contains(hint), "{message}");
    }
}
