//! Streams: append-only by default, whole texts with `diffusing`, a trace with `trace`.

use serde_json::{Value, json};
use treasure_server::{Chat, ServeOptions, Served};

use crate::{
    call::{complete, post},
    toy,
};

fn body(method: &str, more: Value) -> Value {
    let mut body = json!({"prompt": "the old dog", "max_tokens": 12, "seed": 5,
        "treasure": {"reward": "contains:dog,cat + distinct:2", "method": method, "min_length": 4}});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn joined(chunks: &[Value], index: u64) -> String {
    let own = |chunk: &Value| {
        chunk["choices"].as_array().unwrap().iter().find(|choice| choice["index"] == index).cloned()
    };
    chunks
        .iter()
        .filter_map(own)
        .map(|choice| choice["text"].as_str().unwrap_or("").to_owned())
        .collect()
}

#[tokio::test]
async fn appended_chunks_join_to_the_answer_for_every_method() {
    let app = toy::app(toy::options());
    for method in treasure::Method::NAMES {
        for stop in [json!(null), json!("the"), json!([".", "dog"])] {
            let plain = complete(&app, body(method, json!({"stop": stop}))).await.ok();
            let streamed =
                complete(&app, body(method, json!({"stop": stop, "stream": true}))).await;
            assert_eq!(streamed.header("content-type"), "text/event-stream; charset=utf-8");
            let chunks = streamed.chunks();
            assert_eq!(
                joined(&chunks, 0),
                plain["choices"][0]["text"].as_str().unwrap(),
                "{method} {stop}"
            );
            let last = chunks.last().unwrap();
            assert_eq!(last["choices"][0]["finish_reason"], plain["choices"][0]["finish_reason"]);
            assert_eq!(
                last["choices"][0]["treasure"]["reward"],
                plain["choices"][0]["treasure"]["reward"]
            );
            assert_eq!(last["usage"], plain["usage"]);
            assert!(
                chunks[..chunks.len() - 1]
                    .iter()
                    .all(|chunk| chunk["choices"][0]["finish_reason"].is_null())
            );
        }
    }
}

#[tokio::test]
async fn a_single_text_is_sent_while_it_forms() {
    let app = toy::app(toy::options());
    // Left to right, so that nearly every step settles a word, and slowly, so that it is sent by itself.
    let mut asked = body("greedy", json!({"stream": true, "prompt": "the slow dog"}));
    asked["treasure"]["order"] = "left-to-right".into();
    let chunks = complete(&app, asked).await.chunks();
    assert!(chunks.len() > 5, "{} chunks", chunks.len());
}

#[tokio::test]
async fn usage_comes_apart_where_it_is_asked_for() {
    let app = toy::app(toy::options());
    let more = json!({"stream": true, "stream_options": {"include_usage": true}});
    let chunks = complete(&app, body("fhs", more)).await.chunks();
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert!(last["usage"]["completion_tokens"].as_u64().unwrap() > 0);
    assert!(chunks[..chunks.len() - 1].iter().all(|chunk| chunk.get("usage").is_none()));
}

#[tokio::test]
async fn frames_replace_each_other_and_the_last_has_no_masks() {
    let app = toy::app(toy::options());
    for method in treasure::Method::NAMES {
        let plain = complete(&app, body(method, json!({}))).await.ok();
        let chunks =
            complete(&app, body(method, json!({"stream": true, "diffusing": true}))).await.chunks();
        let frames: Vec<&Value> = chunks
            .iter()
            .filter(|chunk| chunk["diffusion_meta"]["diffusion_content"] == true)
            .collect();
        let masks: Vec<u64> = frames
            .iter()
            .map(|frame| frame["diffusion_meta"]["masks_left"].as_u64().unwrap())
            .collect();
        assert_eq!((masks[0], *masks.last().unwrap()), (12, 0), "{method}");
        assert!(masks.len() >= 2, "{method}: {masks:?}");
        // Where particles are resampled, the first of them may be one with more masks.
        if ["treasure", "base", "fhs", "greedy", "bon"].contains(method) {
            assert!(masks.is_sorted_by(|a, b| a >= b), "{method}: {masks:?}");
        }
        let first = &frames[0]["diffusion_meta"];
        assert_eq!((first["step"].as_u64(), first["nfe"].as_u64()), (Some(0), Some(0)));
        assert_eq!(frames[0]["choices"][0]["text"], "░".repeat(12));
        for frame in &frames {
            let text = frame["choices"][0]["text"].as_str().unwrap();
            let left = frame["diffusion_meta"]["masks_left"].as_u64().unwrap() as usize;
            // Masks behind an end of text are no part of the text.
            assert!(text.matches('░').count() <= left, "{method}: {text}");
        }
        let last = &frames.last().unwrap()["choices"][0];
        assert_eq!(last["text"], plain["choices"][0]["text"]);
        assert_eq!(last["treasure"]["reward"], plain["choices"][0]["treasure"]["reward"]);
        assert_eq!(last["finish_reason"], plain["choices"][0]["finish_reason"]);
        assert!(
            frames[..frames.len() - 1]
                .iter()
                .all(|frame| frame["choices"][0]["finish_reason"].is_null())
        );
        assert!(frames.iter().all(|frame| frame.get("treasure").is_none()));
    }
}

#[tokio::test]
async fn a_traced_search_tells_its_tree_and_its_tokens() {
    let app = toy::app(toy::options());
    let mut asked = body("treasure", json!({"stream": true, "diffusing": true}));
    asked["treasure"]["trace"] = true.into();
    let chunks = complete(&app, asked.clone()).await.chunks();
    let frames: Vec<&Value> =
        chunks.iter().filter(|chunk| chunk.get("treasure").is_some()).collect();
    let events: Vec<&Value> =
        frames.iter().flat_map(|frame| frame["treasure"]["events"].as_array().unwrap()).collect();
    assert_eq!(events[0]["event"], "start");
    assert_eq!(events.last().unwrap()["event"], "end");
    let nodes: Vec<&&Value> = events.iter().filter(|event| event["event"] == "node").collect();
    let known: std::collections::HashMap<u64, &Value> =
        nodes.iter().map(|node| (node["id"].as_u64().unwrap(), **node)).collect();
    assert!(nodes.len() > 50, "{}", nodes.len());
    for node in &nodes {
        if let Some(parent) = node["parent"].as_u64() {
            assert!(known.contains_key(&parent));
            // What was not scored has no log-probability told.
            assert!(
                node["text"].is_string() && (node["p"].is_number() || node["reason"] == "bounded"),
                "{node}"
            );
        }
    }
    // Tokens by position: given, masked, written; and at the end they spell the answer.
    let first = frames[0]["treasure"]["tokens"].as_array().unwrap();
    assert_eq!(first.len(), 4 + 12);
    assert_eq!(first.iter().filter(|token| token.is_null()).count(), 12);
    let last = frames.last().unwrap();
    let tokens = last["treasure"]["tokens"].as_array().unwrap();
    let spelt: String = tokens.iter().map(|token| token["text"].as_str().unwrap()).collect();
    assert_eq!(spelt, format!("the old dog{}", last["choices"][0]["text"].as_str().unwrap()));
    // The answer's node is on a line whose reveals are the answer's.
    let ids: Vec<Value> = events.last().unwrap()["tokens"].as_array().unwrap().clone();
    let mut node = known.get(&last["treasure"]["node"].as_u64().unwrap());
    let mut depth = 0;
    while let Some(at) = node {
        if let Some(position) = at["position"].as_u64() {
            assert_eq!(at["token"], ids[position as usize]);
            // Behind an end of text nothing is told.
            if tokens[..position as usize].iter().all(|token| token.get("end").is_none()) {
                assert_eq!(tokens[position as usize]["p"], at["p"]);
            }
            depth += 1;
        }
        node = at["parent"].as_u64().and_then(|parent| known.get(&parent));
    }
    assert!(depth > 0);
}

#[tokio::test]
async fn holes_are_shown_where_they_are() {
    let app = toy::app(toy::options());
    let asked = json!({"prompt": "", "stream": true, "diffusing": true, "treasure": {
        "template": "the [MASK:3] [MASK:2] was [MASK] .", "reward": "contains:dog", "trace": true}});
    let chunks = complete(&app, asked).await.chunks();
    let first = &chunks[0]["choices"][0]["text"];
    assert_eq!(first.as_str().unwrap(), "the ░░░░░ was ░ .");
    let last = chunks.iter().rfind(|chunk| chunk.get("treasure").is_some()).unwrap();
    let spelt = last["treasure"]["tokens"].as_array().unwrap().iter();
    let spelt: String = spelt.map(|token| token["text"].as_str().unwrap()).collect();
    assert_eq!(spelt, last["choices"][0]["text"].as_str().unwrap());
    let asked = json!({"prompt": "the", "suffix": " ran .", "max_tokens": 3, "stream": true, "diffusing": true,
        "treasure": {"reward": "contains:dog"}});
    let chunks = post(&app, "/v1/fim/completions", asked).await.chunks();
    assert_eq!(chunks[0]["choices"][0]["text"], "░░░");
}

#[tokio::test]
async fn several_texts_stream_beside_each_other() {
    let app = toy::app(toy::options());
    let plain =
        complete(&app, body("fhs", json!({"prompt": ["the dog", "a cat"], "n": 2}))).await.ok();
    for diffusing in [false, true] {
        let more =
            json!({"prompt": ["the dog", "a cat"], "n": 2, "stream": true, "diffusing": diffusing});
        let chunks = complete(&app, body("fhs", more)).await.chunks();
        for (index, choice) in plain["choices"].as_array().unwrap().iter().enumerate() {
            let text = match diffusing {
                false => joined(&chunks, index as u64),
                true => {
                    let own = chunks.iter().rfind(|chunk| chunk["choices"][0]["index"] == index);
                    own.unwrap()["choices"][0]["text"].as_str().unwrap().to_owned()
                }
            };
            assert_eq!(text, choice["text"].as_str().unwrap());
        }
    }
}

#[tokio::test]
async fn what_is_wrong_from_the_start_is_no_stream_and_what_fails_later_is_told_in_it() {
    let app = toy::app(toy::options());
    let refused = complete(&app, body("treasure", json!({"stream": true, "seed": "x"}))).await;
    assert_eq!(refused.refusal().0, 400);
    let failed =
        complete(&app, body("treasure", json!({"stream": true, "prompt": "the boom"}))).await;
    assert_eq!(failed.status, 200);
    let events = failed.events();
    let error: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert!(error["error"]["message"].as_str().unwrap().contains("boom"), "{error}");
}

#[tokio::test]
async fn an_answer_in_a_conversation_streams_as_whole_texts_too() {
    let mut model = Served::new("own");
    model.chat = Some(Chat::plain());
    let app = toy::app(ServeOptions { models: vec![model], ..toy::options() });
    let mut asked = json!({"messages": [{"role": "user", "content": "the old dog"}], "max_tokens": 9,
        "treasure": {"reward": "contains:dog", "min_length": 4}});
    let plain = post(&app, "/v1/chat/completions", asked.clone()).await.ok();
    let wanted = &plain["choices"][0]["message"]["content"];
    asked["stream"] = true.into();
    asked["diffusing"] = true.into();
    let chunks = post(&app, "/v1/chat/completions", asked).await.chunks();
    let frames: Vec<&Value> =
        chunks.iter().filter(|chunk| chunk.get("diffusion_meta").is_some()).collect();
    assert!(frames.len() > 2, "{} frames", frames.len());
    for frame in &frames {
        assert_eq!(frame["object"], "chat.completion.chunk");
        assert_eq!(frame["diffusion_meta"]["diffusion_content"], true);
        assert!(frame["choices"][0]["delta"]["content"].is_string(), "{frame}");
    }
    assert_eq!(frames[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(frames[0]["choices"][0]["delta"]["content"], "░".repeat(9));
    let last = &frames.last().unwrap()["choices"][0];
    assert_eq!(&last["delta"]["content"], wanted);
    assert_eq!(last["finish_reason"], plain["choices"][0]["finish_reason"]);
}

#[tokio::test]
async fn a_silent_stream_is_kept_open_by_comments_that_change_nothing() {
    let app = toy::app(ServeOptions { silence_seconds: 0.02, ..toy::options() });
    // A tree search says nothing before its end.
    let asked = body("treasure", json!({"prompt": "the slow dog"}));
    let plain = complete(&app, asked.clone()).await.ok();
    let mut streamed = asked;
    streamed["stream"] = true.into();
    let answer = complete(&app, streamed).await;
    let text = answer.text();
    assert!(text.matches(": still here\n\n").count() >= 2, "{text}");
    assert_eq!(joined(&answer.chunks(), 0), plain["choices"][0]["text"].as_str().unwrap());
}
