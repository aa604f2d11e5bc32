//! Each remote protocol against a server of our own: right answers, wrong answers, slow ones, none.

use std::{
    io::Write as _,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    server::{Asked, FakeServer, Reply},
    support::{build, build_with, close, failure, quick, score, whole},
};
use serde_json::{Value, json};
use treasure_rewards::{Error, Interrupt, TextReward};

fn texts_of(body: &Value, field: &str) -> Vec<String> {
    body[field]
        .as_array()
        .expect(field)
        .iter()
        .map(|text| text.as_str().expect("a text").into())
        .collect()
}

/// Logits of a text: `good` grows with its length.
fn good(text: &str) -> f64 {
    text.len() as f64 / 4.0
}

/// TEI as documented: rows sorted by score, a pair for a list of two strings, 413 above four texts.
fn tei(asked: &Asked) -> Reply {
    if asked.path == "/info" {
        return Reply::text(404, "no info here");
    }
    assert_eq!(asked.path, "/predict");
    assert_eq!(asked.body["raw_scores"], true);
    assert_eq!(asked.body["truncate"], true);
    let inputs = asked.body["inputs"].as_array().expect("a list");
    if inputs.len() > 4 {
        return Reply::text(413, r#"{"error":"batch size too large","error_type":"Validation"}"#);
    }
    let rows = inputs.iter().map(|input| {
        let text = input[0].as_str().expect("each text in a list of its own");
        assert_eq!(input.as_array().map(Vec::len), Some(1));
        let mut row = vec![("GOOD", good(text)), ("bad", 1.0), ("so-so", 0.5)];
        row.sort_by(|a, b| b.1.total_cmp(&a.1));
        row.into_iter().map(|(label, score)| json!({"label": label, "score": score})).collect()
    });
    Reply::json(rows.collect::<Vec<Value>>().into())
}

fn log_softmax_of(text: &str, wanted: f64) -> f64 {
    wanted - (good(text).exp() + 1f64.exp() + 0.5f64.exp()).ln()
}

#[test]
fn tei_labels_are_matched_by_name_though_rows_are_sorted_by_score() {
    let server = FakeServer::start(|asked, _| tei(asked));
    let url = format!("tei+http://{}#good", server.address);
    let texts = ["a", "a long text here", "mid text", "x", "y", "zz", "another one"];
    for (text, value) in texts.iter().zip(score(&url, &texts)) {
        close(value, log_softmax_of(text, good(text)));
    }
    let prob = score(&format!("prob:tei+http://{}#bad", server.address), &["a"])[0];
    close(prob, log_softmax_of("a", 1.0).exp());
    let accuracy = score(&format!("accuracy:tei+http://{}#good", server.address), &texts[..2]);
    assert_eq!(accuracy, [0.0, 1.0]);
    let detail = build(&url).breakdown(&["a"]).expect("rows")[0].detail.clone().expect("detail");
    close(detail["labels"]["bad"].as_f64().expect("a number"), log_softmax_of("a", 1.0));
}

#[test]
fn an_unknown_label_lists_the_known_ones() {
    let server = FakeServer::start(|asked, _| tei(asked));
    let message = failure(&format!("tei+http://{}#great", server.address), &["a"]);
    assert!(message.contains("\"great\"") && message.contains("GOOD, bad, so-so"), "{message}");
    let message = failure(&format!("tei+http://{}", server.address), &["a"]);
    assert!(message.contains("expected a label") && message.contains("so-so"), "{message}");
}

#[test]
fn tei_limits_and_label_numbers_come_from_its_info() {
    let server = FakeServer::start(|asked, _| match asked.path.as_str() {
        "/info" => Reply::json(json!({
            "max_client_batch_size": 2,
            "model_type": {"classifier": {"id2label": {"0": "bad", "1": "so-so", "2": "GOOD"}}},
        })),
        _ => tei(asked),
    });
    let values = score(&format!("tei+http://{}#2", server.address), &["a", "b", "ccc"]);
    close(values[2], log_softmax_of("ccc", good("ccc")));
    let sizes: Vec<usize> = server
        .posted()
        .iter()
        .map(|asked| asked.body["inputs"].as_array().map_or(0, Vec::len))
        .collect();
    assert!(sizes.len() == 2 && sizes.iter().all(|&size| size <= 2), "{sizes:?}");
}

#[test]
fn a_reward_model_of_one_output_gives_its_raw_score() {
    let server = FakeServer::start(|asked, _| match asked.method.as_str() {
        "GET" => Reply::text(404, ""),
        _ => Reply::json(json!([[{"label": "LABEL_0", "score": -3.25}]])),
    });
    assert_eq!(score(&format!("tei+http://{}", server.address), &["a"]), [-3.25]);
    let log_sigmoid = score(&format!("tei+http://{}#LABEL_0", server.address), &["a"])[0];
    close(log_sigmoid, (1.0 / (1.0 + 3.25f64.exp())).ln());
}

fn vllm_classify(asked: &Asked) -> Reply {
    if asked.method == "GET" {
        return match asked.path.as_str() {
            "/v1/models" => Reply::json(json!({"data": [{"id": "served", "owned_by": "vllm"}]})),
            _ => Reply::text(404, ""),
        };
    }
    assert_eq!(asked.body["model"], "served");
    let texts = texts_of(&asked.body, "input");
    let rows = texts.iter().enumerate().rev().map(|(index, text)| {
        let probs = if text.contains("good") { [0.25, 0.75] } else { [0.9, 0.1] };
        let label = if text.contains("good") { "positive" } else { "negative" };
        json!({"index": index, "label": label, "probs": probs, "num_classes": 2})
    });
    Reply::json(json!({"object": "list", "data": rows.collect::<Vec<_>>()}))
}

#[test]
fn vllm_classify_gives_probabilities_by_label_name_in_any_row_order() {
    let server = FakeServer::start(|asked, _| vllm_classify(asked));
    let url = format!("vllm+http://{}#Positive", server.address);
    let values = score(&url, &["bad", "good"]);
    close(values[0], 0.1f64.ln());
    close(values[1], 0.75f64.ln());
    assert_eq!(server.posted()[0].path, "/classify");
    // One text names the other label only: the last unnamed one is meant.
    close(score(&url, &["bad"])[0], 0.1f64.ln());
    close(score(&format!("vllm+http://{}#1", server.address), &["bad"])[0], 0.1f64.ln());
    assert_eq!(score(&format!("prob:vllm+http://{}#negative", server.address), &["good"]), [0.25]);
    let message = failure(&format!("vllm+http://{}#pozitive", server.address), &["bad", "good"]);
    assert!(message.contains("negative, positive"), "{message}");
}

#[test]
fn a_label_that_no_answer_names_is_an_error_and_never_a_guess() {
    let server = FakeServer::start(|asked, _| match asked.method.as_str() {
        "GET" => Reply::text(404, ""),
        _ => Reply::json(
            json!({"data": [{"index": 0, "label": "a", "probs": [0.5, 0.3, 0.2], "num_classes": 3}]}),
        ),
    });
    let message = failure(&format!("vllm+http://{}#b", server.address), &["x"]);
    assert!(message.contains("0 = a") && message.contains("index after #"), "{message}");
    assert_eq!(score(&format!("prob:vllm+http://{}#2", server.address), &["x"]), [0.2]);
}

#[test]
fn an_answer_with_fewer_labels_than_another_is_an_error() {
    let server = FakeServer::start(|asked, _| match asked.method.as_str() {
        "GET" => Reply::text(404, ""),
        _ => Reply::json(json!({"data": [
            {"index": 0, "label": "good", "probs": [0.2, 0.8], "num_classes": 2},
            {"index": 1, "probs": [0.7], "num_classes": 1},
        ]})),
    });
    for kind in ["", "prob:", "accuracy:"] {
        let message = failure(&format!("{kind}vllm+http://{}#good", server.address), &["x", "y"]);
        assert!(message.contains("label 1 is called \"good\""), "{message}");
        assert!(message.contains("this answer has 1 labels"), "{message}");
    }
}

#[test]
fn sglang_classify_tries_both_endpoints_and_reads_both_shapes() {
    let server = FakeServer::start(|asked, _| match (asked.method.as_str(), asked.path.as_str()) {
        ("POST", "/v1/classify") => vllm_classify(asked),
        _ => vllm_classify(asked),
    });
    assert_eq!(
        score(&format!("prob:sglang+http://{}#positive", server.address), &["good"]),
        [0.75]
    );
    assert_eq!(server.posted()[0].path, "/v1/classify");
    let old = FakeServer::start(|asked, _| match asked.path.as_str() {
        "/classify" => {
            let texts = texts_of(&asked.body, "text");
            Reply::json(
                texts
                    .iter()
                    .map(|text| json!({"embedding": [text.len()]}))
                    .collect::<Vec<_>>()
                    .into(),
            )
        }
        _ => Reply::text(404, "Not Found"),
    });
    assert_eq!(score(&format!("sglang+http://{}", old.address), &["abc", "a"]), [3.0, 1.0]);
}

#[test]
fn score_endpoints_of_vllm_and_sglang() {
    let vllm = FakeServer::start(|asked, _| match asked.method.as_str() {
        "GET" => Reply::text(404, ""),
        _ => {
            assert_eq!(
                (asked.path.as_str(), &asked.body["text_1"]),
                ("/score", &json!("Is it kind?"))
            );
            let rows = texts_of(&asked.body, "text_2");
            let rows = rows
                .iter()
                .enumerate()
                .map(|(i, text)| json!({"index": i, "object": "score", "score": text.len()}));
            Reply::json(json!({"data": rows.collect::<Vec<_>>()}))
        }
    });
    assert_eq!(
        score(&format!("vllm+http://{}/score#Is it kind?", vllm.address), &["ab", "a"]),
        [2.0, 1.0]
    );
    let sglang = FakeServer::start(|asked, _| match asked.method.as_str() {
        "GET" => Reply::text(404, ""),
        _ => {
            assert_eq!(asked.path, "/v1/score");
            assert_eq!(asked.body["label_token_ids"], json!([7, 9]));
            assert_eq!(asked.body["apply_softmax"], true);
            Reply::json(json!({"scores": [[0.8, 0.2], [0.4, 0.6]], "object": "scoring"}))
        }
    });
    let url = format!("{}/v1/score?labels=7,9#Kind?", sglang.address);
    assert_eq!(score(&format!("prob:sglang+http://{url}"), &["a", "b"]), [0.8, 0.4]);
    assert_eq!(score(&format!("accuracy:sglang+http://{url}"), &["a", "b"]), [1.0, 0.0]);
    close(score(&format!("sglang+http://{url}"), &["a", "b"])[1], 0.4f64.ln());
    let message = failure(&format!("sglang+http://{}/v1/score#Kind?", sglang.address), &["a"]);
    assert!(message.contains("token ids"), "{message}");
}

#[test]
fn completions_average_the_prompt_and_drop_the_generated_token() {
    let server = FakeServer::start(|asked, _| match asked.path.as_str() {
        "/v1/models" => Reply::json(json!({"data": [{"id": "lm", "owned_by": "vllm"}]})),
        "/v1/completions" => {
            assert_eq!(asked.body["echo"], true);
            assert_eq!(asked.body["max_tokens"], 1);
            let rows = texts_of(&asked.body, "prompt");
            let rows = rows.iter().enumerate().rev().map(|(index, text)| {
                let first = -(text.len() as f64);
                json!({"index": index, "logprobs": {"token_logprobs": [null, first, -1.0, -100.0]}})
            });
            Reply::json(
                json!({"choices": rows.collect::<Vec<_>>(), "usage": {"completion_tokens": 2}}),
            )
        }
        path => Reply::text(404, path),
    });
    let url = format!("completions+http://{}", server.address);
    assert_eq!(score(&url, &["abc", "abcde"]), [-2.0, -3.0]);
    assert_eq!(score(&format!("{url}/v1"), &["abc"]), [-2.0]);
    assert_eq!(score(&format!("{url}/v1/completions"), &["abc"]), [-2.0]);
    let detail = build(&url).breakdown(&["abc"]).expect("rows")[0].detail.clone();
    assert_eq!(detail, Some(json!({"nll_mean": 2.0, "tokens": 2})));
}

#[test]
fn vllm_prompt_logprobs_take_the_token_that_stood_in_the_prompt() {
    let server = FakeServer::start(|asked, _| match asked.method.as_str() {
        "GET" => Reply::text(404, ""),
        _ => {
            assert_eq!(asked.body["prompt_logprobs"], 0);
            let entry =
                json!({"5": {"logprob": -0.5, "rank": 1}, "8": {"logprob": -3.0, "rank": 40}});
            let only = json!({"6": {"logprob": -1.0, "rank": 1, "decoded_token": "x"}});
            Reply::json(json!({"choices": [{"index": 0, "prompt_logprobs": [null, entry, only]}]}))
        }
    });
    assert_eq!(
        score(&format!("completions+http://{}?prompt_logprobs=1", server.address), &["x"]),
        [-2.0]
    );
}

#[test]
fn sglang_generate_gives_input_logprobs() {
    let server = FakeServer::start(|asked, _| {
        assert_eq!(asked.path, "/generate");
        assert_eq!(asked.body["return_logprob"], true);
        let row = json!({"meta_info": {"input_token_logprobs": [[null, 1, "a"], [-2.0, 2, "b"], [-4.0, 3, "c"]]}});
        Reply::json(row)
    });
    assert_eq!(score(&format!("sglang+http://{}/generate", server.address), &["abc"]), [-3.0]);
}

#[test]
fn llama_server_is_refused_with_a_reason() {
    let models = FakeServer::start(|_, _| {
        Reply::json(json!({"data": [{"id": "x", "owned_by": "llamacpp"}]}))
    });
    let header = FakeServer::start(|asked, _| match asked.method.as_str() {
        "GET" => Reply::text(404, ""),
        _ => Reply::json(json!({"choices": []})).header("server", "llama.cpp"),
    });
    let shape = FakeServer::start(|asked, _| match asked.method.as_str() {
        "GET" => Reply::text(404, ""),
        _ => Reply::json(json!({"choices": [{"index": 0, "logprobs": {"content": []}}]})),
    });
    for server in [models, header, shape] {
        let message = failure(&format!("completions+http://{}", server.address), &["x"]);
        assert!(message.contains("llama-server gives no log-probabilities"), "{message}");
        assert!(message.contains("ppl:FILE.gguf"), "{message}");
    }
}

fn lengths(asked: &Asked) -> Reply {
    let rewards: Vec<usize> = texts_of(&asked.body, "query").iter().map(String::len).collect();
    Reply::json(json!({ "rewards": rewards }))
}

#[test]
fn openrlhf_get_reward() {
    let server = FakeServer::start(|asked, _| {
        assert_eq!(asked.path, "/get_reward");
        lengths(asked)
    });
    assert_eq!(score(&format!("reward+http://{}", server.address), &["abc", ""]), [3.0, 0.0]);
    let nested = FakeServer::start(|asked, _| {
        assert_eq!(asked.path, "/judge");
        Reply::json(json!({"scores": [[0.5], [1.5]]}))
    });
    assert_eq!(score(&format!("reward+http://{}/judge", nested.address), &["a", "b"]), [0.5, 1.5]);
}

#[test]
fn a_server_that_fails_twice_then_recovers_is_waited_for() {
    for status in [429, 500, 503] {
        let server = FakeServer::start(move |asked, before| match before {
            0 | 1 => Reply::text(status, "overloaded"),
            _ => lengths(asked),
        });
        assert_eq!(score(&format!("reward+http://{}", server.address), &["abc"]), [3.0]);
        assert_eq!(server.posted().len(), 3);
    }
}

#[test]
fn a_server_that_keeps_failing_is_given_up_with_its_address() {
    let server = FakeServer::start(|_, _| Reply::text(503, "still loading"));
    let message = failure(&format!("reward+http://{}", server.address), &["abc"]);
    for part in ["503", "still loading", "5 tries", server.address.as_str(), "/get_reward"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(server.posted().len(), 5);
}

#[test]
fn a_slow_server_is_waited_for_and_a_silent_one_is_given_up() {
    let slow = FakeServer::start(|asked, _| lengths(asked).after(Duration::from_millis(150)));
    assert_eq!(score(&format!("reward+http://{}", slow.address), &["abc"]), [3.0]);
    let silent = FakeServer::start(|asked, _| lengths(asked).after(Duration::from_secs(3)));
    let mut options = quick();
    options.remote.timeout = Duration::from_millis(100);
    let reward =
        build_with(&format!("reward+http://{}", silent.address), options).expect("a reward");
    let message = whole(&reward.score(&["abc"]).expect_err("a time-out"));
    assert!(
        message.contains("no answer within 100ms") && message.contains(&silent.address),
        "{message}"
    );
}

#[test]
fn garbage_is_an_error_that_shows_it() {
    for (body, part) in [
        ("<html>hello</html>", "not JSON"),
        ("", "not JSON"),
        ("{}", "1 rows"),
        (r#"{"rewards": [1, 2]}"#, "1 rows"),
        (r#"{"rewards": ["high"]}"#, "high"),
        (r#"{"rewards": [null]}"#, "null"),
    ] {
        let server = FakeServer::start(move |_, _| Reply::text(200, body));
        let message = failure(&format!("reward+http://{}", server.address), &["abc"]);
        assert!(message.contains(part) && message.contains(&server.address), "{body}: {message}");
    }
    let server = FakeServer::start(|asked, _| match asked.method.as_str() {
        "GET" => Reply::text(404, ""),
        _ => Reply::json(json!([[{"label": 3}]])),
    });
    for scheme in ["tei", "vllm", "sglang", "completions"] {
        let message = failure(&format!("{scheme}+http://{}", server.address), &["abc"]);
        assert!(
            message.contains("expected") && message.contains(&server.address),
            "{scheme}: {message}"
        );
    }
}

#[test]
fn an_answer_beyond_the_limit_is_not_read() {
    let server = FakeServer::start(|_, _| Reply::text(200, "9".repeat(5000)));
    let mut options = quick();
    options.remote.max_answer_bytes = 1000;
    let reward =
        build_with(&format!("reward+http://{}", server.address), options).expect("a reward");
    let message = whole(&reward.score(&["abc"]).expect_err("too large"));
    assert!(message.contains("larger than 1000 bytes"), "{message}");
}

#[test]
fn a_compressed_answer_is_counted_as_it_unfolds() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..64 {
        packed.write_all(&[b' '; 1 << 20]).expect("packed");
    }
    let packed = packed.finish().expect("packed");
    let server = FakeServer::start(move |_, _| {
        Reply::text(200, packed.clone()).header("content-encoding", "gzip")
    });
    let mut options = quick();
    options.remote.max_answer_bytes = 1 << 20;
    let reward = build_with(&format!("reward+http://{}", server.address), options);
    let message = whole(&reward.expect("a reward").score(&["abc"]).expect_err("too large"));
    // A client built without gzip sees the packed bytes, which begin with 1f 8b; one with it must count what unfolds.
    let packed = message.contains("the answer is not JSON") && message.contains("\\u{1f}");
    assert!(message.contains("larger than 1048576 bytes") || packed, "{message}");
    assert_eq!(server.asked()[0].accept_encoding.as_deref(), Some("identity"));
}

#[test]
fn an_answer_with_more_values_than_any_is_not_taken_apart() {
    let server = FakeServer::start(|_, _| Reply::text(200, format!("[{}0]", "0,".repeat(3 << 20))));
    let message = failure(&format!("reward+http://{}", server.address), &["abc"]);
    assert!(message.contains("more than 2000000 values"), "{message}");
}

/// A server that answers every POST with the same.
fn constant(answer: Value) -> FakeServer {
    FakeServer::start(move |asked, _| match asked.method.as_str() {
        "GET" => Reply::text(404, ""),
        _ => Reply::json(answer.clone()),
    })
}

#[test]
fn what_cannot_be_a_probability_is_an_error_with_the_text_and_the_address() {
    for probs in [json!([7, -3]), json!([1e300, 0]), json!([-0.1, 1.1]), json!([0.5, 1.5])] {
        let server = constant(json!({"data": [{"index": 0, "label": "a", "probs": probs}]}));
        for scheme in ["vllm", "prob:vllm", "accuracy:vllm", "sglang"] {
            let message = failure(&format!("{scheme}+http://{}#0", server.address), &["abc"]);
            for part in ["within [0, 1]", "\"abc\"", server.address.as_str()] {
                assert!(message.contains(part), "{scheme} {probs}: {message}");
            }
        }
        let scores = constant(json!({ "scores": [probs] }));
        let url = format!("sglang+http://{}/v1/score?labels=7,9#Kind?", scores.address);
        let message = failure(&url, &["abc"]);
        assert!(message.contains("within [0, 1]") && message.contains("\"abc\""), "{message}");
    }
    // One that rounding carried over 1 is 1.
    let server = constant(json!({"data": [{"index": 0, "label": "a", "probs": [1.0000001, 0]}]}));
    assert_eq!(score(&format!("vllm+http://{}#0", server.address), &["abc"]), [0.0]);
}

#[test]
fn a_log_probability_above_zero_is_an_error_with_the_text_and_the_address() {
    let logprobs = json!({"token_logprobs": [null, -9.0, 5.0, -1.0]});
    let entry = json!({"5": {"logprob": 5.0, "rank": 1}});
    for (end, answer) in [
        ("", json!({"choices": [{"index": 0, "logprobs": logprobs}]})),
        (
            "?prompt_logprobs=1",
            json!({"choices": [{"index": 0, "prompt_logprobs": [null, entry]}]}),
        ),
    ] {
        let server = constant(answer);
        let message = failure(&format!("completions+http://{}{end}", server.address), &["abc"]);
        for part in ["none above 0", "\"abc\"", server.address.as_str()] {
            assert!(message.contains(part), "{end}: {message}");
        }
    }
    let server = constant(json!({"meta_info": {"input_token_logprobs": [[null, 1], [0.5, 2]]}}));
    let message = failure(&format!("sglang+http://{}/generate", server.address), &["abc"]);
    assert!(message.contains("none above 0"), "{message}");
}

#[test]
fn an_answer_that_breaks_off_is_asked_for_once_more() {
    let server = FakeServer::start(|asked, before| match before {
        0 => lengths(asked).cut_at(5),
        _ => lengths(asked),
    });
    assert_eq!(score(&format!("reward+http://{}", server.address), &["abc"]), [3.0]);
    let server = FakeServer::start(|asked, _| lengths(asked).cut_at(5));
    let message = failure(&format!("reward+http://{}", server.address), &["abc"]);
    assert!(message.contains("the connection ended before the answer did"), "{message}");
    assert!(message.contains("gave up after 2 tries"), "{message}");
    assert_eq!(server.posted().len(), 2);
}

#[test]
fn control_characters_of_a_server_are_shown_and_not_obeyed() {
    let answers = [
        json!([[{"label": "\u{1b}[2Ja", "score": 1}, {"label": "b", "score": 0}]]),
        json!({"data": [{"label": "\u{1b}[2Ja", "probs": [0.5, 0.2, 0.3]}]}),
        json!("\u{1b}[2J"),
    ];
    for answer in answers {
        let server = constant(answer);
        for scheme in ["tei", "vllm", "completions", "reward"] {
            let label = if matches!(scheme, "tei" | "vllm") { "#zzz" } else { "" };
            let message = failure(&format!("{scheme}+http://{}{label}", server.address), &["abc"]);
            assert!(!message.contains('\u{1b}'), "{message:?}");
        }
    }
    let server = FakeServer::start(|_, _| Reply::text(400, "\u{1b}[2J\u{202e}"));
    let message = failure(&format!("reward+http://{}", server.address), &["abc"]);
    assert!(!message.contains(['\u{1b}', '\u{202e}']), "{message:?}");
}

#[test]
fn an_interrupt_ends_the_wait_for_a_server_and_the_pauses_between_tries() {
    let slow = |asked: &Asked, _: usize| lengths(asked).after(Duration::from_secs(30));
    let busy = |_: &Asked, _: usize| Reply::text(503, "later").header("retry-after", "30");
    for server in [FakeServer::start(slow), FakeServer::start(busy)] {
        let interrupt = Interrupt::new();
        let mut options = quick();
        options.interrupt = interrupt.clone();
        options.batch = Some(1);
        let reward = build_with(&format!("reward+http://{}", server.address), options);
        let reward = reward.expect("a reward");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| reward.score(&["a", "b", "c"]));
            while server.posted().is_empty() {
                std::thread::sleep(Duration::from_millis(5));
            }
            let begin = Instant::now();
            interrupt.raise();
            let error = waiting.join().expect("no panic").expect_err("interrupted");
            assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
            assert!(Error::is_interruption(&error), "{error}");
        });
        let before = server.posted().len();
        assert!(Error::is_interruption(&reward.score(&["d"]).expect_err("still raised")));
        assert_eq!(server.posted().len(), before, "nothing more is sent");
    }
}

#[test]
fn a_server_that_is_not_there_is_an_error_at_once() {
    let mut server = FakeServer::start(|asked, _| lengths(asked));
    server.vanish();
    let message = failure(&format!("reward+http://{}", server.address), &["abc"]);
    assert!(message.contains("not reachable") && message.contains(&server.address), "{message}");
    assert!(message.contains("hint: is the server running"), "{message}");
}

#[test]
fn a_server_that_disappears_is_an_error_after_some_tries() {
    let mut server = FakeServer::start(|asked, _| lengths(asked));
    let reward = build(&format!("reward+http://{}", server.address));
    assert_eq!(reward.score(&["abc"]).expect("still there"), [3.0]);
    server.vanish();
    let message = whole(&reward.score(&["abcd"]).expect_err("gone"));
    assert!(message.contains("not reachable") && message.contains("5 tries"), "{message}");
}

#[test]
fn a_redirect_is_not_followed() {
    let other = FakeServer::start(|asked, _| lengths(asked));
    let target = format!("http://{}/get_reward", other.address);
    let server =
        FakeServer::start(move |_, _| Reply::text(307, "").header("location", target.clone()));
    let message = failure(&format!("reward+http://{}", server.address), &["abc"]);
    assert!(message.contains("redirects elsewhere"), "{message}");
    assert!(other.asked().is_empty(), "nothing may reach an address the user did not name");
}

#[test]
fn nothing_is_sent_before_a_text_is_scored() {
    let server = FakeServer::start(|asked, _| lengths(asked));
    for scheme in ["tei", "vllm", "sglang", "completions", "reward"] {
        build(&format!("{scheme}+http://{}", server.address));
    }
    assert!(server.asked().is_empty());
}

#[test]
fn a_key_is_sent_as_a_bearer_token() {
    let server = FakeServer::start(|asked, _| lengths(asked));
    let url = format!("reward+http://{}", server.address);
    let mut options = quick();
    options.remote.api_key = Some("secret".into());
    assert!(!format!("{options:?}").contains("secret"), "a key must not be printed");
    build_with(&url, options).expect("a reward").score(&["a"]).expect("a score");
    score(&url, &["a"]);
    let sent: Vec<_> = server.posted().into_iter().map(|asked| asked.authorization).collect();
    assert_eq!(sent, [Some("Bearer secret".to_string()), None]);
}

#[test]
fn any_batch_size_gives_the_same_numbers() {
    let server = FakeServer::start(|asked, _| tei(asked));
    let url = format!("tei+http://{}#good", server.address);
    let texts: Vec<String> = (0..13).map(|n| "x".repeat(n)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let whole: Vec<u64> = score(&url, &texts).into_iter().map(f64::to_bits).collect();
    for size in [1, 2, 3, 100] {
        let mut options = quick();
        options.batch = Some(size);
        let values = build_with(&url, options).expect("a reward").score(&texts).expect("scores");
        assert_eq!(
            values.into_iter().map(f64::to_bits).collect::<Vec<_>>(),
            whole,
            "batches of {size}"
        );
    }
}

#[test]
fn several_servers_share_the_load_and_one_may_be_missing() {
    // Each of the two holds its answer until both were asked: only a shared load gets through.
    let gate = Arc::new((Mutex::new([false; 2]), Condvar::new()));
    let start = |own: usize| {
        let gate = gate.clone();
        FakeServer::start(move |asked, _| {
            let (seen, changed) = &*gate;
            let mut seen = seen.lock().expect("no panic");
            seen[own] = true;
            changed.notify_all();
            while !seen.iter().all(|seen| *seen) {
                seen = changed.wait(seen).expect("no panic");
            }
            drop(seen);
            lengths(asked)
        })
    };
    let (first, second) = (start(0), start(1));
    let mut options = quick();
    options.batch = Some(1);
    let url = format!("reward+http://{},http://{}", first.address, second.address);
    let reward = build_with(&url, options.clone()).expect("a reward");
    assert_eq!(reward.score(&["a", "bb", "ccc", "dddd"]).expect("scores"), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(first.posted().len() + second.posted().len(), 4);

    let mut gone = FakeServer::start(|asked, _| lengths(asked));
    gone.vanish();
    let url = format!("reward+http://{},http://{}", gone.address, second.address);
    let reward = build_with(&url, options).expect("a reward");
    assert_eq!(reward.score(&["eeeee", "ffffff"]).expect("the other answers"), [5.0, 6.0]);
}

#[test]
fn equal_texts_are_sent_once_per_run() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = sent.clone();
    let server = FakeServer::start(move |asked, _| {
        counter.fetch_add(texts_of(&asked.body, "query").len(), Ordering::SeqCst);
        lengths(asked)
    });
    let reward = build(&format!("reward+http://{}", server.address));
    assert_eq!(reward.score(&["a", "bb", "a"]).expect("scores"), [1.0, 2.0, 1.0]);
    assert_eq!(reward.score(&["bb", "a"]).expect("scores"), [2.0, 1.0]);
    assert_eq!(reward.score_parts(&["bb"]).expect("a row")[0].total, 2.0);
    assert_eq!(sent.load(Ordering::SeqCst), 2);
}
