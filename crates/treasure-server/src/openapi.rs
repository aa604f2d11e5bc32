//! The OpenAPI 3.1 document: every route, with the bodies that are read and the answers that are given.

use serde_json::{Map, Value, json};

use crate::{
    constraint,
    limits::Limits,
    openai::{NEUTRAL, NOTED},
};

/// The document; `treasure` is the schema of the `treasure` key.
pub(crate) fn document(treasure: &Value, limits: &Limits) -> Value {
    let mut own = treasure.clone();
    if let Some(own) = own.as_object_mut() {
        own.shift_remove("$schema");
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "treasure",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Masked diffusion language models, steered by tree search. OpenAI's shapes; everything of ours stands under `treasure`.",
        },
        "paths": paths(),
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Treasure": own,
                "CompletionRequest": completion(limits),
                "ChatRequest": chat(limits),
                "FimRequest": fim(limits),
                "RefineRequest": refine(limits),
                "ScoreRequest": score(),
                "Completion": answer("text_completion", "text", json!({"type": "string"})),
                "ChatCompletion": answer("chat.completion", "message", json!({
                    "type": "object",
                    "properties": {"role": {"const": "assistant"}, "content": {"type": "string"}},
                })),
                "Scores": list(json!({
                    "type": "object",
                    "properties": {
                        "index": {"type": "integer"},
                        "reward": {"type": "number"},
                        "rewards": {"type": "object"},
                        "detail": {"type": "object"},
                    },
                })),
                "List": list(json!({"type": "object", "properties": {"id": {"type": "string"}}})),
                "Error": error(),
            },
        },
        // Only where the operator has a file of keys.
        "security": [{}, {"key": []}],
    })
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn content(kind: &str, schema: Value) -> Value {
    json!({kind: {"schema": schema}})
}

fn paths() -> Value {
    let mut paths = Map::new();
    for (path, what, request, answer) in [
        (
            "/v1/completions",
            "Continue a text, or fill its holes.",
            "CompletionRequest",
            "Completion",
        ),
        (
            "/v1/chat/completions",
            "Answer a conversation, where the model has a chat template.",
            "ChatRequest",
            "ChatCompletion",
        ),
        (
            "/v1/fim/completions",
            "Write what stands between a prompt and a suffix.",
            "FimRequest",
            "Completion",
        ),
        ("/v1/refine", "Make finished texts better.", "RefineRequest", "Completion"),
        ("/v1/score", "Score texts.", "ScoreRequest", "Scores"),
    ] {
        let mut ok = content("application/json", reference(answer));
        if answer != "Scores" {
            ok["text/event-stream"] = json!({"schema": {"type": "string"}});
        }
        let mut responses = Map::from_iter([(
            "200".to_owned(),
            json!({"description": "The answer; with `stream` its chunks.", "content": ok}),
        )]);
        for (status, why) in [
            ("400", "A field that cannot be what it is, or that is not supported."),
            ("401", "No known key."),
            ("404", "No such model."),
            ("408", "The body did not come in time."),
            ("413", "The body is too large."),
            ("422", "What was asked for cannot be had."),
            ("429", "The queue is full; see Retry-After."),
            ("502", "A reward outside of the server failed."),
            ("503", "The server is loading or shutting down; see Retry-After."),
        ] {
            let content = content("application/json", reference("Error"));
            responses.insert(status.into(), json!({"description": why, "content": content}));
        }
        let body =
            json!({"required": true, "content": content("application/json", reference(request))});
        paths.insert(
            path.into(),
            json!({"post": {"summary": what, "requestBody": body, "responses": responses}}),
        );
    }
    for (path, what, kind, schema) in [
        ("/v1/models", "The models.", "application/json", reference("List")),
        ("/v1/models/{id}", "One model.", "application/json", json!({"type": "object"})),
        ("/v1/rewards", "The rewards.", "application/json", reference("List")),
        (
            "/v1/schema",
            "The JSON Schema of the `treasure` key.",
            "application/json",
            json!({"type": "object"}),
        ),
        ("/openapi.json", "This document.", "application/json", json!({"type": "object"})),
        ("/health", "Whether the process answers.", "application/json", json!({"type": "object"})),
        ("/ready", "Whether new work is taken.", "application/json", json!({"type": "object"})),
        (
            "/metrics",
            "Numbers for Prometheus.",
            "application/openmetrics-text",
            json!({"type": "string"}),
        ),
        ("/", "The playground.", "text/html", json!({"type": "string"})),
    ] {
        let ok = json!({"description": what, "content": content(kind, schema)});
        let mut get = json!({"summary": what, "responses": {"200": ok}});
        if path == "/v1/schema" {
            let what = "Tell the defaults of a search for this reward.";
            get["parameters"] = json!([{"name": "reward", "in": "query", "description": what, "schema": {"type": "string"}}]);
        }
        if path.ends_with("{id}") {
            get["parameters"] = json!([{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}]);
        }
        paths.insert(path.into(), json!({"get": get}));
    }
    paths.into()
}

/// What completions, chat and infilling have in common.
fn common(limits: &Limits) -> Map<String, Value> {
    let count = |least: u64, option: &str| {
        let mut schema = json!({"type": ["integer", "null"], "minimum": least});
        if let Some(most) = limits.most(option) {
            schema["maximum"] = most.into();
        }
        schema
    };
    let flag = json!({"type": ["boolean", "null"]});
    let mut fields = Map::from_iter([
        ("model".to_owned(), json!({"type": ["string", "null"]})),
        ("max_tokens".to_owned(), count(1, "length")),
        ("min_tokens".to_owned(), count(0, "length")),
        ("n".to_owned(), count(1, "samples")),
        ("seed".to_owned(), json!({"type": ["integer", "null"], "minimum": 0})),
        (
            "stop".to_owned(),
            json!({
                "description": "The text ends before any of these; the reward is that of the uncut text.",
                "type": ["string", "array", "null"],
                "items": {"type": "string", "minLength": 1},
            }),
        ),
        ("stream".to_owned(), flag.clone()),
        (
            "diffusing".to_owned(),
            json!({
                "description": "Chunks are whole texts that replace each other; needs `stream`.",
                "type": ["boolean", "null"],
            }),
        ),
        (
            "stream_options".to_owned(),
            json!({
                "type": ["object", "null"],
                "properties": {"include_usage": flag, "include_obfuscation": flag},
            }),
        ),
        ("treasure".to_owned(), reference("Treasure")),
    ]);
    let length = fields["max_tokens"].clone();
    fields.insert("max_completion_tokens".into(), length);
    fields.extend(settled());
    for name in constraint::FIELDS {
        fields.insert((*name).to_owned(), json!({"description": "The form of the output."}));
    }
    fields
}

/// What stands for nothing here.
fn settled() -> impl Iterator<Item = (String, Value)> {
    let noted = NOTED.iter().map(|name| (*name, "Taken and not looked at.".to_owned()));
    let neutral =
        NEUTRAL.iter().map(|neutral| (neutral.name, format!("Only {}.", neutral.expected)));
    noted.chain(neutral).map(|(name, what)| (name.to_owned(), json!({"description": what})))
}

fn object(fields: Map<String, Value>, required: &[&str]) -> Value {
    json!({"type": "object", "properties": fields, "required": required})
}

fn completion(limits: &Limits) -> Value {
    let mut fields = common(limits);
    let prompt = json!({
        "description": "One text or several; may be left out beside a template.",
        "type": ["string", "array", "null"],
        "items": {"type": "string"},
    });
    fields.insert("prompt".into(), prompt);
    fields.insert("suffix".into(), json!({"type": ["string", "null"]}));
    fields.insert("echo".into(), json!({"type": ["boolean", "null"]}));
    object(fields, &[])
}

fn chat(limits: &Limits) -> Value {
    let mut fields = common(limits);
    let message = json!({
        "type": "object",
        "properties": {
            "role": {"enum": ["system", "developer", "user", "assistant"]},
            "content": {"type": ["string", "array"]},
        },
        "required": ["role", "content"],
    });
    fields.insert("messages".into(), json!({"type": "array", "minItems": 1, "items": message}));
    object(fields, &["messages"])
}

fn fim(limits: &Limits) -> Value {
    let mut fields = common(limits);
    fields.insert("prompt".into(), json!({"type": "string"}));
    fields.insert("suffix".into(), json!({"type": ["string", "null"]}));
    object(fields, &["prompt"])
}

/// What a finished text says by itself; a refinement refuses them.
const LENGTHS: [&str; 3] = ["max_tokens", "max_completion_tokens", "min_tokens"];

fn refine(limits: &Limits) -> Value {
    let mut fields = common(limits);
    for other in LENGTHS {
        fields.shift_remove(other);
    }
    let input = json!({
        "description": "Finished texts; each comes back as it was, or better.",
        "type": ["string", "array"],
        "items": {"type": "string"},
    });
    fields.insert("input".into(), input);
    object(fields, &["input"])
}

fn score() -> Value {
    let input = json!({"type": ["string", "array"], "items": {"type": "string"}});
    let mut fields = Map::from_iter([
        ("input".to_owned(), input),
        ("reward".to_owned(), json!({"type": "string"})),
        ("model".to_owned(), json!({"description": "Taken and not looked at."})),
    ]);
    fields.extend(settled());
    object(fields, &["input", "reward"])
}

fn answer(kind: &str, text: &str, schema: Value) -> Value {
    let choice = json!({
        "type": "object",
        "properties": {
            "index": {"type": "integer"},
            text: schema,
            "finish_reason": {"enum": ["stop", "length"]},
            "treasure": {
                "description": "reward, rewards, cost, plan, and what else is known of the text.",
                "type": "object",
            },
        },
    });
    json!({
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "object": {"const": kind},
            "created": {"type": "integer"},
            "model": {"type": "string"},
            "choices": {"type": "array", "items": choice},
            "usage": {"type": "object"},
        },
    })
}

fn list(item: Value) -> Value {
    json!({
        "type": "object",
        "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": item}},
    })
}

fn error() -> Value {
    let text = json!({"type": ["string", "null"]});
    json!({
        "type": "object",
        "properties": {"error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": text,
                "code": text,
                "hint": text,
            },
            "required": ["message", "type", "param", "code"],
        }},
        "required": ["error"],
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use treasure::Session;

    use super::*;
    use crate::{
        App, Chat, ServeOptions, Served,
        ask::{self, Api},
        fields::READ,
        routes::score,
    };

    #[test]
    fn every_field_that_a_route_reads_is_documented_and_no_other() {
        let mut model = Served::new("pocket");
        model.chat = Some(Chat::plain());
        let options = ServeOptions { models: vec![model], quiet: true, ..ServeOptions::default() };
        let app = App::new(options, &Session::pocket().unwrap()).unwrap();
        let read = |api: Option<Api>, body: &Value| {
            READ.take();
            let body = body.to_string();
            match api {
                Some(api) => ask::read(&app, api, body.as_bytes()).map(drop),
                None => score::read(&app, body.as_bytes()).map(drop),
            }
        };
        let messages = json!([{"role": "user", "content": "hello"}]);
        for (name, api, mut body) in [
            ("CompletionRequest", Some(Api::Completions), json!({"prompt": "the dog"})),
            ("ChatRequest", Some(Api::Chat), json!({"messages": messages})),
            ("FimRequest", Some(Api::Fim), json!({"prompt": "the", "suffix": "."})),
            ("RefineRequest", Some(Api::Refine), json!({"input": "the dog"})),
            ("ScoreRequest", None, json!({"input": "the dog", "reward": "length:1..2"})),
        ] {
            read(api, &body).unwrap_or_else(|refusal| panic!("{name}: {}", refusal.to_value()));
            let mut taken: BTreeSet<String> = READ.take();
            if api == Some(Api::Refine) {
                // Read to be refused.
                for length in LENGTHS {
                    assert!(taken.remove(length), "{length}");
                    body[length] = 5.into();
                    assert!(read(api, &body).is_err(), "{name} {length}");
                    body[length] = Value::Null;
                }
            }
            let schema = &app.openapi()["components"]["schemas"][name]["properties"];
            let documented: BTreeSet<String> =
                schema.as_object().unwrap().keys().cloned().collect();
            assert_eq!(taken, documented, "{name}");
        }
    }
}
