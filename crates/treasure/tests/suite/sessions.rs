//! Sessions: weights once, the same bytes alone and together, frames, cancellation, own parts.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use serde_json::json;
use treasure::{
    FunctionModel, Hint as _, Job, Plan, Request, Sample, Session, SessionOptions, Watch,
    core::{Dense, Facts, Progress, State},
    models::Tokenizer,
    sample_key,
};

const WORDS: usize = 12;

/// Words in a circle, with neighbours that pull on each other: quick, and not trivial.
fn circle() -> Session {
    let entries: Vec<String> = (0..WORDS).map(|id| format!("\"w{id}\": {id}")).collect();
    let json = format!(
        r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
            "pre_tokenizer":{{"type":"Whitespace"}},"post_processor":null,"decoder":null,
            "model":{{"type":"WordLevel","vocab":{{{}}},"unk_token":"w0"}}}}"#,
        entries.join(",")
    );
    let tokenizer = Tokenizer::parse(&json, "words").unwrap();
    let facts = Facts {
        vocab_size: WORDS,
        never: vec![WORDS as u32 - 1],
        time_agnostic: true,
        max_len: 64,
    };
    let model = Dense::new(facts, |states: &[State<'_>]| {
        let rows = |state: &State<'_>| {
            let slots: Vec<_> = state.seq.slots().collect();
            let row = |at: usize| {
                let near = |id: usize, other: Option<u32>| match other {
                    Some(other) => f64::from(other as usize % WORDS == (id + WORDS - 1) % WORDS),
                    None => 0.0,
                };
                let before = at.checked_sub(1).and_then(|at| slots[at]);
                let after = slots.get(at + 1).copied().flatten();
                (0..WORDS)
                    .map(|id| {
                        ((id * 7 + at * 3) % 5) as f64 * 0.3 + near(id, before) + near(id, after)
                    })
                    .collect()
            };
            state.seq.masked().map(row).collect()
        };
        Ok(states.iter().map(rows).collect())
    });
    Session::on(FunctionModel::new(model, tokenizer))
}

fn without_seconds(sample: &Sample) -> String {
    let mut row = serde_json::to_value(sample).unwrap();
    row["cost"].as_object_mut().unwrap().remove("seconds");
    row.to_string()
}

#[test]
fn the_same_request_gives_the_same_bytes_alone_seated_and_in_any_company() {
    let session = circle();
    for method in ["treasure", "bon", "fk", "greedy"] {
        let request =
            json!({"model": "own", "reward": "contains:w3,w5", "length": 10, "method": method});
        let plan = Plan::new(&Request::from_value(request).unwrap()).unwrap();
        let jobs: Vec<Job> = (0..12)
            .map(|i| Job {
                prompt: format!("w{}", i % 4),
                prompt_index: i % 4,
                sample: i / 4,
                ..Job::default()
            })
            .collect();
        let alone: Vec<String> = jobs
            .iter()
            .map(|job| without_seconds(&session.run(&plan, job, Watch::default()).unwrap()))
            .collect();
        for in_flight in [1, 2, 8] {
            let options = SessionOptions { in_flight, ..SessionOptions::default() };
            let together = session.with_options(options).collect(&plan, &jobs).unwrap();
            let together: Vec<String> = together.iter().map(without_seconds).collect();
            assert_eq!(together, alone, "{method} with {in_flight} in flight");
        }
    }
}

#[test]
fn prompts_do_not_share_their_randomness_and_the_rule_is_the_evaluations() {
    let first = sample_key(0, "The city", 0).bits();
    assert_ne!(first, sample_key(0, "The lake", 0).bits());
    assert_ne!(first, sample_key(0, "The city", 1).bits());
    assert_ne!(first, sample_key(1, "The city", 0).bits());
}

#[test]
fn frames_show_the_text_forming_and_end_with_no_mask() {
    let session = circle();
    let mut masks = Vec::new();
    let found = session
        .prompt("w1")
        .reward("contains:w3")
        .length(8)
        .watch(|frame| {
            assert_eq!(frame.tokens.iter().filter(|token| token.masked).count(), frame.masks_left);
            masks.push(frame.masks_left);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(masks, [7, 6, 5, 4, 3, 2, 1, 0]);
    assert!(found.text.starts_with("w1"));
    let stopped = session
        .prompt("w1")
        .reward("contains:w3")
        .length(8)
        .watch(|frame| match frame.masks_left {
            5 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .unwrap();
    assert!(stopped.is_interrupted());
}

#[test]
fn a_search_can_be_driven_and_left_and_cancelled() {
    let session = circle();
    let ask = || session.prompt("w1").reward("contains:w3,w4").length(8);
    let whole = ask().run().unwrap();
    let driven = ask().drive(|run| {
        while run.step()? == Progress::More {}
        Ok(())
    });
    assert_eq!(without_seconds(&driven.unwrap()), without_seconds(&whole));
    let left = ask().drive(|run| run.step().map(drop).map_err(Into::into)).unwrap();
    assert!(left.is_interrupted() && left.cost.nfe < whole.cost.nfe);
    let cancel = AtomicBool::new(true);
    let watch = Watch { cancel: Some(&cancel), ..Watch::default() };
    let plan = ask().plan().unwrap();
    let job = Job { prompt: "w1".into(), ..Job::default() };
    assert!(session.run(&plan, &job, watch).unwrap_err().is_interrupted());
}

#[cfg(unix)]
#[test]
fn a_deadline_acts_while_a_program_is_waited_for_and_says_what_was_not_done() {
    let session = circle();
    // Quick for the first texts, then silent for ever.
    let program = "n=0; while read l; do n=$((n+1)); [ $n -gt 4 ] && sleep 1000; echo 0.$n; done";
    let ask = || session.prompt("w1").reward(format!("exec:'{program}'")).length(8);
    let began = std::time::Instant::now();
    let found = ask().set("max_seconds", 0.6).judge("exec:'sleep 1000'").run().unwrap();
    assert!(began.elapsed().as_secs_f64() < 5.0, "{:?}", began.elapsed());
    assert_eq!(found.stopped.as_deref(), Some("max-seconds"));
    assert!(found.reward > 0.0 && found.held_out.is_none());
    assert!(found.notes.iter().any(|note| note.contains("not asked")), "{:?}", found.notes);
    // Where no text was scored there is nothing to show, and that is said.
    let nothing =
        session.prompt("w1").reward("exec:'sleep 1000'").length(8).set("max_seconds", 0.2);
    let error = nothing.run().unwrap_err();
    assert!(error.to_string().contains("stopped by the deadline"), "{error}");
    assert_eq!(error.hint().as_deref(), Some("raise max_seconds"));
}

#[test]
fn a_closure_is_a_reward_and_composes() {
    let session = circle();
    let count =
        |texts: &[&str]| texts.iter().map(|text| text.matches("w7").count() as f64).collect();
    let found = session.prompt("w1").reward_fn("sevens", count).length(8).run().unwrap();
    assert_eq!(found.reward, found.text.matches("w7").count() as f64);
    assert!(found.reward >= 2.0, "{found:?}");
    let both = session.prompt("w1").reward("own:sevens + 2*contains:w5").length(8).run().unwrap();
    assert_eq!(both.rewards.len(), 2);
    let missing = session.prompt("w1").reward("own:nobody").length(8).run().unwrap_err();
    assert!(missing.to_string().contains("nobody"), "{missing}");
    let wrong = session.prompt("w1").reward_fn("few", |_| Vec::new()).length(8).run().unwrap_err();
    assert!(wrong.to_string().contains("few"), "{wrong}");
    let nan =
        session.prompt("w1").reward_fn("nan", |texts| vec![f64::NAN; texts.len()]).length(8).run();
    assert!(nan.unwrap_err().to_string().contains("finite"));
}

#[test]
fn callers_fields_and_traces_come_through() {
    let session = circle();
    let plan = session.prompt("w1").reward("contains:w3").length(6).plan().unwrap();
    let extra = json!({"id": "q7", "meta": {"a": 1}}).as_object().unwrap().clone();
    let job = Job { prompt: "w1".into(), extra, ..Job::default() };
    let watch = Watch { trace: true, tree: true, ..Watch::default() };
    let found = session.run(&plan, &job, watch).unwrap();
    let row = serde_json::to_value(&found).unwrap();
    assert_eq!(
        (&row["id"], &row["meta"]["a"], &row["version"]),
        (&json!("q7"), &json!(1), &json!(2))
    );
    assert!(row.get("stopped").is_some_and(serde_json::Value::is_null), "null instead of absent");
    let trace = String::from_utf8(found.trace.unwrap()).unwrap();
    assert!(trace.lines().nth(1).unwrap().contains("\"event\":\"sample\""));
    assert!(trace.lines().last().unwrap().contains("\"texts\""), "token texts close a trace");
    assert!(found.tree.unwrap().len() > 10);
    for field in row.as_object().unwrap().keys() {
        let known = treasure::ROW_FIELDS.contains(&field.as_str());
        assert!(known || ["id", "meta"].contains(&field.as_str()), "{field}");
    }
}

#[test]
fn rows_land_as_they_finish_and_a_stop_keeps_what_is_there() {
    let session =
        circle().with_options(SessionOptions { in_flight: 4, ..SessionOptions::default() });
    let plan = session.prompt("").reward("contains:w3").length(12).plan().unwrap();
    let plan = Plan::new(&Request {
        model: Some("own".into()),
        ..Request::from_value(plan.to_value()).unwrap()
    })
    .unwrap();
    let jobs: Vec<Job> = (0..20)
        .map(|i| Job { prompt: format!("w{}", i % 9), prompt_index: i, ..Job::default() })
        .collect();
    let seen = AtomicUsize::new(0);
    let mut order = Vec::new();
    let mut done = |index: usize, made: treasure::Result<Sample>| {
        made.unwrap();
        order.push(index);
        match seen.fetch_add(1, Ordering::SeqCst) {
            9 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    };
    let quiet = |_: usize, _: &treasure::core::Event| ControlFlow::Continue(());
    let look = Watch::default();
    session.run_all(std::slice::from_ref(&plan), &jobs, &look, &quiet, &mut done).unwrap();
    assert!((10..=14).contains(&order.len()), "about half of the rows: {order:?}");
}

#[cfg(feature = "pocket")]
#[test]
fn a_judge_that_is_reward_and_judge_and_screen_is_loaded_once() {
    let session = Session::pocket().unwrap();
    let found = session
        .prompt("The dog")
        .reward("sentiment=negative")
        .judge("sentiment=positive")
        .judge("accuracy:sentiment=negative")
        .set("screen", "prob:sentiment=negative")
        .length(4)
        .run()
        .unwrap();
    assert!(found.held_out.unwrap().judges.len() == 2);
    // The denoiser, the one judge, and the scorer that perplexity is read from.
    assert_eq!(session.store().loaded(), 3);
}

#[cfg(feature = "pocket")]
#[test]
fn constraints_hold_of_what_a_session_writes() {
    let session = Session::pocket().unwrap();
    let ask = || session.prompt("The old dog").reward("sentiment=negative").length(12);
    let found = ask().matches(" was (sad|happy) [0-9]{2}!").run().unwrap();
    let digits = found.continuation.strip_prefix(" was sad ");
    let digits = digits.or(found.continuation.strip_prefix(" was happy "));
    let digits = digits.and_then(|rest| rest.strip_suffix('!')).unwrap_or_default();
    assert!(digits.len() == 2 && digits.parse::<u8>().is_ok(), "{:?}", found.continuation);
    let schema =
        json!({"type": "object", "properties": {"a": {"enum": [1, true]}}, "required": ["a"]});
    let found = ask().set("json_schema", schema.clone()).run().unwrap();
    let value: serde_json::Value = serde_json::from_str(&found.continuation).unwrap();
    assert!(value == json!({"a": 1}) || value == json!({"a": true}), "{value}");
    let fields =
        json!({"reward": "cola", "length": 6, "prompt": "A cat", "choices": [" ran.", " sat."]});
    let found = session.ask(Request::from_value(fields).unwrap()).run().unwrap();
    assert!(["A cat ran.", "A cat sat."].contains(&found.text.as_str()), "{}", found.text);
    let several = ask().matches("a").set("json_schema", schema).run().unwrap_err();
    assert!(several.to_string().contains("got several"), "{several}");
    let long = ask().matches("a{200}").run().unwrap_err();
    assert!(long.to_string().contains("expected at least"), "{long}");
}

#[cfg(feature = "pocket")]
#[test]
fn a_judge_under_the_windows_of_a_preset_and_without_them_is_loaded_once() {
    let session = Session::pocket().unwrap();
    let ask = session.prompt("The dog").method("fk").set("preset", "fk").set("particles", 2);
    let ask = ask.reward("sentiment=negative").judge("accuracy:sentiment=negative").length(8);
    assert!(ask.run().unwrap().held_out.is_some());
    // What the run loaded, of which the judge without a window is one.
    let loaded = session.store().loaded();
    session.score("sentiment=negative", &["The dog barked."]).unwrap();
    assert_eq!(session.store().loaded(), loaded);
}

#[cfg(feature = "pocket")]
#[test]
fn the_six_lines_work() {
    let session = Session::pocket().unwrap();
    let found =
        session.prompt("The old dog").reward("sentiment=negative").seed(0).length(6).run().unwrap();
    assert!(found.text.starts_with("The old dog"));
    assert!(found.reward <= 0.0 && found.cost.nfe > 0);
}

#[test]
fn a_search_that_waits_for_somebody_never_lies_on_the_batch_of_that_somebody() {
    let session = Session::pocket().unwrap();
    let texts = ["The lake was blue and the boat was small."; 24];
    let rounds = 40;
    let (told, hears) = std::sync::mpsc::channel();
    let hears = std::sync::Mutex::new(hears);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..rounds {
                session.score("sentiment=negative", &texts).unwrap();
                told.send(()).unwrap();
            }
        });
        // Each waits, on a thread that networks might run on, for a batch that only the other thread can end.
        for _ in 0..rounds {
            let wait = || hears.lock().unwrap().recv_timeout(std::time::Duration::from_secs(60));
            treasure_models::exec::on_a_worker(wait).expect("the batch ends beside the search");
        }
    });
}
