//! Requests become plans: every default filled, every wrong word named.

use serde_json::json;
use treasure::{Hint as _, Method, Plan, Preset, Request};
use treasure_models::exec::{Isa, Precision};

fn plan(value: serde_json::Value) -> treasure::Result<Plan> {
    Plan::new(&Request::from_value(value)?)
}

fn refused(value: serde_json::Value) -> String {
    let error = plan(value).unwrap_err();
    format!("{error} / {}", error.hint().as_deref().unwrap_or("no hint"))
}

#[test]
fn a_plan_read_as_a_request_is_the_same_plan() {
    for request in [
        json!({}),
        json!({"reward": "sentiment=negative", "beam_width": 8, "tree_width": "linear:8..2", "seed": 3}),
        json!({"reward": "cola + 0.5*perplexity", "method": "bon", "particles": 7, "sampler": "first-hitting"}),
        json!({"method": "fk", "preset": "fk", "length": 64}),
        json!({"method": "fk", "lambda": 3.5, "potential": "max", "judge": ["cola"]}),
        json!({"precision": "bf16", "reward": "cola"}),
        json!({"precision": "auto", "seed": 4}),
        json!({"template": "The [MASK:3] was [MASK].", "preset": "paper"}),
        json!({"screen": "distinct:2", "screen_share": 0.25, "max_nfe": 9, "target_reward": -0.5}),
    ] {
        let made = plan(request.clone()).unwrap_or_else(|error| panic!("{request}: {error}"));
        let again = plan(made.to_value()).unwrap_or_else(|error| panic!("{request}: {error}"));
        assert_eq!(made, again, "{request}");
        assert_eq!(made.to_value()["keys"], 2);
    }
}

#[test]
fn every_method_makes_a_plan_by_its_name_alone() {
    for name in Method::NAMES {
        let made = plan(json!({"method": name})).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(made.to_value()["method"], *name);
    }
}

#[test]
fn the_paper_is_the_paper_and_the_default_is_readable() {
    let paper = plan(json!({"preset": "paper", "reward": "cola"})).unwrap().to_value();
    assert_eq!(
        (&paper["order"], &paper["prior"], &paper["variety"], &paper["min_p"], &paper["answer"]),
        (&json!("uniform"), &json!(0.0), &json!(0.0), &json!(0.0), &json!("final"))
    );
    let ours = plan(json!({"reward": "cola"})).unwrap().to_value();
    assert_eq!((&ours["order"], &ours["answer"]), (&json!("confidence"), &json!("best-seen")));
    assert!(ours["prior"].as_f64().unwrap() > 0.0 && ours["variety"].as_f64().unwrap() > 0.0);
    assert_eq!(plan(json!({})).unwrap().preset, Preset::Plain);
}

#[test]
fn what_says_the_same_of_most_texts_is_tried_on_more_tokens() {
    let of = |reward: &str| {
        let plan = plan(json!({"reward": reward})).unwrap().to_value();
        (plan["beam_width"].clone(), plan["widen"].clone())
    };
    assert_eq!(of("contains:sad"), (json!(64), json!(0)));
    for own in ["own:count", "exec:wc", "own:count + contains:sad"] {
        assert_eq!(of(own), (json!(5), json!(64)), "{own}");
    }
    for judged in ["cola", "own:count + cola", "perplexity"] {
        assert_eq!(of(judged), (json!(5), json!(0)), "{judged}");
    }
}

#[test]
fn a_plan_names_the_precision_that_auto_chose_and_f32_is_the_default() {
    assert_eq!(plan(json!({})).unwrap().to_value()["precision"], "f32");
    assert!(!plan(json!({})).unwrap().line().contains("products"));
    let auto = plan(json!({"precision": "auto"})).unwrap();
    let chosen = auto.to_value()["precision"].as_str().unwrap().to_owned();
    // Everything in the box is small; what is held otherwise than it is multiplied is not rounded to eight bits.
    assert_eq!(chosen == "int8", Isa::best().dots_int8(), "{chosen}");
    let of = |with: serde_json::Value| plan(with).unwrap().to_value()["precision"].clone();
    assert_ne!(of(json!({"precision": "auto", "dtype": "file"})), "int8");
    assert_eq!(of(json!({"precision": "auto", "dtype": "f16"})), "f32");
    assert_eq!(of(json!({"precision": "auto", "reward_dtype": "int8"})), "f32");
    assert_ne!(of(json!({"precision": "auto", "model": "nobody/fetched-this"})), "int8");
    assert_ne!(of(json!({"precision": "auto", "reward": "hf:nobody/fetched-this#0"})), "int8");
    assert_eq!(auto.line().contains(&format!("{chosen} products")), chosen != "f32");
    let int8 = plan(json!({"precision": "int8"})).unwrap();
    let on = if Isa::best().has_tiles(Precision::Int8) { " on AMX" } else { "" };
    assert!(int8.line().contains(&format!(" · int8 products{on} · seed 0")), "{}", int8.line());
}

#[test]
fn names_of_other_samplers_are_understood() {
    assert_eq!(plan(json!({"gen_length": 7})).unwrap().length, 7);
    assert_eq!(plan(json!({"max_new_tokens": 9})).unwrap().length, 9);
}

#[test]
fn what_is_wrong_is_named_with_what_would_be_right() {
    for (request, words) in [
        (
            json!({"beam_widht": 3}),
            "beam_widht: there is no such option / did you mean beam_width?",
        ),
        (json!({"method": "tresure"}), "did you mean treasure?"),
        (json!({"method": "greedy", "particles": 3}), "particles: method greedy has no use for it"),
        (json!({"beam_width": "many"}), "beam_width: "),
        (json!({"seed": -1}), "seed: "),
        (json!({"length": 0}), "length: expected at least 1, got 0"),
        (json!({"length": 10_000_000_000_u64}), "length: expected at most 65536"),
        (json!({"min_length": 99}), "min_length: expected at most the length 48, got 99"),
        (json!({"samples": 1_000_000_000}), "samples: expected at most 1000000"),
        (json!({"beam_width": 100_000, "tree_width": 100_000}), "children a step"),
        (json!({"max_seconds": 1.9e19}), "max_seconds: expected at most"),
        (json!({"max_seconds": 0.0}), "max_seconds: expected a positive number"),
        (json!({"method": "bon", "particles": 18_446_744_073_709_551_615_u64}), "particles: "),
        (json!({"precision": "fp8"}), "precision: expected auto, f32, bf16 or int8, got \"fp8\""),
        (
            json!({"precision": "int8", "dtype": "f16"}),
            "dtype with precision int8: expected auto, got f16 / leave the dtype out",
        ),
        (json!({"precision": "bf16", "reward_dtype": "int8"}), "reward: dtype with precision bf16"),
        (json!({"answer": "draw"}), "does not sample"),
        (json!({"template": "no hole"}), "at least one hole"),
        (json!({"prompt": "a", "template": "[MASK]"}), "got both"),
        (json!({"keys": 1}), "keys: expected 2, got 1"),
        (json!({"method": "bon", "sampler": "first-hitting", "steps": 9}), "steps: "),
        (json!({"x0_samples": 3}), "x0_samples: this value needs no sampled completions"),
        (json!({"screen_share": 0.5}), "screen_share: expected a screen"),
        (json!({"screen": "cola", "method": "bon"}), "has no use for it"),
        (json!({"min_p": 1.5}), "min p: expected a number in [0, 1]"),
        (json!({"prior": -1.0}), "prior: expected a finite number of at least 0"),
    ] {
        let got = refused(request.clone());
        assert!(got.contains(words), "{request}: {got}");
    }
    assert!(Request::from_value(json!([1])).is_err());
}

#[test]
fn any_json_object_is_a_plan_or_an_error_and_never_a_panic() {
    let odd = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1.5),
        json!(1e300),
        json!("x"),
        json!([]),
        json!({}),
        json!(18_446_744_073_709_551_615_u64),
        json!([1, "a"]),
    ];
    let mut names: Vec<String> =
        treasure::FIELDS.iter().map(|field| field.name.to_owned()).collect();
    for method in Method::NAMES {
        names.extend(Method::named(method).unwrap().options().into_iter().map(|(key, _)| key));
    }
    for name in &names {
        for value in &odd {
            for method in Method::NAMES {
                let _ = plan(json!({name.as_str(): value, "method": method}));
            }
        }
    }
}

#[test]
fn the_table_of_limits_is_the_one_that_is_written_down() {
    let page = include_str!("../../../../docs/limits.md");
    for bound in treasure::BOUNDS {
        let row = format!("| `{}` | {} | {} |", bound.option, bound.most, bound.why);
        assert!(page.contains(&row), "docs/limits.md: expected the row {row}");
    }
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, treasure::BOUNDS.len(), "and no other");
}

#[test]
fn every_bound_of_an_option_is_checked_and_names_what_would_be_accepted() {
    for bound in treasure::BOUNDS {
        for method in Method::with_option(bound.option) {
            let given = json!({"method": method, bound.option: bound.most + 1});
            let got = refused(given);
            assert!(
                got.contains(&format!("{}: expected at most", bound.option)),
                "{method}: {got}"
            );
            assert!(got.contains(&format!("take {} or less", bound.most)), "{method}: {got}");
        }
    }
}

#[test]
fn a_plan_says_what_it_will_take_and_is_refused_where_that_cannot_fit() {
    let small = plan(json!({"method": "bon", "particles": 4, "length": 10})).unwrap();
    let estimate = small.estimate(1000);
    assert_eq!((estimate.model_calls, estimate.reward_calls), (40, 4));
    assert!(estimate.bytes > small.estimate(0).bytes && estimate.bytes < 1_000_000);
    assert!(
        small.line().ends_with("about 40 model and 4 reward calls in 1 MB"),
        "{}",
        small.line()
    );
    if cfg!(target_os = "linux") {
        // 10^10 completions at once: no machine has that.
        let wide = json!({"method": "fk", "particles": 100_000, "x0_samples": 100_000});
        let got = refused(wide);
        assert!(got.starts_with("memory: expected at most the "), "{got}");
        assert!(got.contains("take particles "), "{got}");
    }
}
