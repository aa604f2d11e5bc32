//! Combinators, rules, breakdowns and the run cache, by exact numbers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::support::{build, build_with, close, quick, score};
use proptest::prelude::*;
use treasure_rewards::{Composite, Explained, Range, Result, RunCache, Spec, TextReward, metrics};

/// The number that a text is.
struct Number(AtomicUsize);

impl TextReward for Number {
    fn name(&self) -> &str {
        "number"
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        self.0.fetch_add(texts.len(), Ordering::SeqCst);
        Ok(texts.iter().map(|text| text.parse().unwrap_or(f64::NAN)).collect())
    }
}

fn numbers(spec: &str) -> Composite {
    let spec: Spec = spec.parse().expect("a spec");
    Composite::new(&spec, |_, _| Ok(Arc::new(Number(AtomicUsize::new(0))))).expect("a reward")
}

#[test]
fn every_combinator_gives_the_number_it_says() {
    // `ppl:x` and `ppl:y` both stand for the number that the text is.
    for (spec, text, wanted) in [
        ("ppl:x", "0.25", 0.25),
        ("ppl:x + ppl:y", "0.25", 0.5),
        ("2*ppl:x + -0.5*ppl:y", "4", 6.0),
        ("min(2*ppl:x, ppl:y)", "3", 3.0),
        ("min(2*ppl:x, ppl:y)", "-3", -6.0),
        ("3*(ppl:x + ppl:y)", "2", 12.0),
        ("atleast(ppl:x, 0.9)", "0.5", -0.4),
        ("atleast(ppl:x, 0.9)", "0.95", 0.0),
        ("atmost(ppl:x, 0.9)", "1.5", -0.6),
        ("atmost(ppl:x, 0.9)", "0.5", 0.0),
        ("step(ppl:x, 0.9)", "0.9", 1.0),
        ("step(ppl:x, 0.9)", "0.89", 0.0),
        ("product(step(ppl:x, 1), 0.5*step(ppl:x, 2))", "3", 0.5),
        ("product(step(ppl:x, 1), 0.5*step(ppl:x, 2))", "1", 0.0),
    ] {
        close(numbers(spec).score(&[text]).expect("a score")[0], wanted);
    }
}

#[test]
fn a_breakdown_reports_each_part_beside_the_total() {
    let rows = numbers("ppl:x + 0.5*ppl:y").breakdown(&["2", "4"]).expect("rows");
    assert_eq!(rows[1].total, 6.0);
    assert_eq!(rows[1].parts, [("ppl:x".to_string(), 4.0), ("0.5*ppl:y".to_string(), 2.0)]);
    let rows = numbers("min(ppl:x, ppl:y)").breakdown(&["2"]).expect("rows");
    assert_eq!(rows[0].parts, [("ppl:x".to_string(), 2.0), ("ppl:y".to_string(), 2.0)]);
}

#[test]
fn a_reward_written_twice_is_scored_once() {
    let number = Arc::new(Number(AtomicUsize::new(0)));
    let spec: Spec = "ppl:x + 2*ppl:x + min(ppl:x, ppl:x)".parse().expect("a spec");
    let reward = Composite::new(&spec, |_, _| Ok(number.clone())).expect("a reward");
    assert_eq!(reward.score(&["1", "2"]).expect("scores"), [4.0, 8.0]);
    assert_eq!(number.0.load(Ordering::SeqCst), 2);
}

#[test]
fn a_nan_names_the_reward_and_the_text() {
    let error = numbers("ppl:x + regex:a").score(&["1", "not a number"]).expect_err("NaN");
    let message = error.to_string();
    assert!(message.contains("number") && message.contains("NaN"), "{message}");
    assert!(message.contains("\"not a number\""), "{message}");
    let core: treasure_core::Error = error.into();
    assert!(core.to_string().contains("\"not a number\""), "{core}");
}

/// A promise and a number, which may break it.
struct Lying(Range, f64);

impl TextReward for Lying {
    fn name(&self) -> &str {
        "lying"
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        Ok(vec![self.1; texts.len()])
    }

    fn range(&self) -> Range {
        self.0
    }
}

#[test]
fn a_number_outside_the_promised_range_names_the_reward_and_the_text() {
    for (range, value) in [
        (Range::UNIT, 1.01),
        (Range::UNIT, -0.01),
        (Range::AT_MOST_ZERO, 5.0),
        (Range::AT_MOST_ZERO, 1e300),
        (Range::at_most(3.0), 3.1),
        (Range::ANY, f64::INFINITY),
        (Range::AT_MOST_ZERO, f64::NEG_INFINITY),
        (Range::ANY, f64::NAN),
    ] {
        let reward = Composite::single(Arc::new(Lying(range, value)));
        for error in [
            reward.score(&["abc"]).expect_err("a lie"),
            reward.score_parts(&["abc"]).expect_err("a lie"),
            reward.breakdown(&["abc"]).expect_err("a lie"),
        ] {
            let message = error.to_string();
            assert!(message.contains("lying") && message.contains("\"abc\""), "{message}");
        }
    }
    // What only rounding carried out is the end of the range.
    let reward = Composite::single(Arc::new(Lying(Range::AT_MOST_ZERO, 1e-9)));
    assert_eq!(reward.score(&["abc"]).expect("a score"), [0.0]);
}

#[test]
fn a_sum_that_is_no_number_any_more_is_an_error() {
    let error = numbers("1e200*ppl:x").score(&["1e200"]).expect_err("too large");
    assert!(error.to_string().contains("expected a finite number, got inf"), "{error}");
}

#[test]
fn rules_give_partial_credit() {
    assert_eq!(score("regex:^a.c$", &["abc", "abcd", ""]), [1.0, 0.8, 0.4]);
    assert_eq!(
        score("contains:cat,dog", &["The CAT sat.", "cat and dog", "concatenate", ""]),
        [0.5, 1.0, 0.0, 0.0]
    );
    // Each word once, however often it is written; of a phrase, the longest run of its words.
    assert_eq!(score("contains:cat,Cat,dog", &["a cat"]), [0.5]);
    assert_eq!(
        score("contains:the old man", &["an old man", "men", "the old man"]),
        [2.0 / 3.0, 0.0, 1.0]
    );
    // The first find is the inside of a word, the second overlaps it.
    assert_eq!(score("contains:a a", &["ba a a"]), [1.0]);
    assert_eq!(
        score("avoids:ass,old man", &["first class", "An old man", "the old men"]),
        [1.0, 0.5, 1.0]
    );
    assert_eq!(
        score("length:2..4", &["one", "one two", "a b c d", "a b c d e", ""]),
        [0.5, 1.0, 1.0, 0.8, 0.0]
    );
    assert_eq!(score("distinct:1", &["a b a b", "a b c", ""]), [0.5, 1.0, 1.0]);
    close(score("distinct:2", &["a b a b"])[0], 2.0 / 3.0);
}

#[test]
fn a_pattern_counts_what_is_missing_for_a_match() {
    let said = "regex:'[A-Z][a-z]+ said'";
    for (text, edits) in [
        ("Then Tom said so", 0.0),
        ("then the king said so", 1.0), // a capital
        ("Tom sat", 2.0),               // sa(t→i)(+d)
        ("Tom", 5.0),                   // " said"
        ("", 7.0),
    ] {
        close(score(said, &[text])[0], 1.0 - edits / 7.0);
    }
    // Of alternatives the nearest, of repetitions the required number, of assertions one each.
    close(score("regex:(elephant|cat)s", &["cat"])[0], 1.0 - 1.0 / 4.0);
    close(score("regex:x[0-9]{4,}y", &["x12y"])[0], 1.0 - 2.0 / 6.0);
    close(score(r"regex:\bend$", &["the end."])[0], 1.0 - 1.0 / 5.0);
    // Too large to be looked at so closely.
    assert_eq!(score("regex:a{2000}", &["a", &"a".repeat(2000)]), [0.0, 1.0]);
}

#[test]
fn a_rule_that_is_not_met_is_named() {
    let unmet =
        |spec: &str, text: &str| build(spec).breakdown(&[text]).expect("a row")[0].unmet.clone();
    assert_eq!(unmet("regex:said", "he sai"), ["regex:said"]);
    assert_eq!(unmet("regex:said", "he said"), [""; 0]);
    let spec = "2*contains:a + min(regex:b, length:1) + -1*contains:z + 0*avoids:q + atmost(regex:y, 0) + distinct:1";
    assert_eq!(unmet(spec, "c c q"), ["contains:a", "regex:b", "length:1"]);
    let reward = build(spec);
    assert_eq!(reward.rules().collect::<Vec<_>>(), ["contains:a", "regex:b", "length:1"]);
    assert!(build("regex:a").is_rule() && !reward.is_rule() && !build("2*regex:a").is_rule());
}

#[test]
fn the_run_cache_scores_equal_texts_once_and_changes_no_number() {
    let number = Arc::new(Number(AtomicUsize::new(0)));
    let cache = RunCache::new(number.clone(), 1 << 20);
    assert_eq!(cache.score(&["1", "2", "1"]).expect("scores"), [1.0, 2.0, 1.0]);
    assert_eq!(cache.score(&["2", "3"]).expect("scores"), [2.0, 3.0]);
    assert_eq!(number.0.load(Ordering::SeqCst), 3);
}

#[test]
fn the_run_cache_is_bounded() {
    let number = Arc::new(Number(AtomicUsize::new(0)));
    let cache = RunCache::new(number.clone(), 1 << 10);
    let texts: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    for text in texts.iter().chain(&texts) {
        assert_eq!(
            cache.score(&[text]).expect("a score")[0],
            text.parse::<f64>().expect("a number")
        );
    }
    assert!(number.0.load(Ordering::SeqCst) > 1900, "little fits, so nearly all were scored twice");
}

/// The fewest edits that turn `pattern` into some part of `text`, by the plain table.
fn edits(pattern: &[char], text: &[char]) -> usize {
    let mut row: Vec<usize> = vec![0; text.len() + 1];
    for (index, wanted) in pattern.iter().enumerate() {
        let mut above = row.clone();
        above[0] = index + 1;
        for (at, c) in text.iter().enumerate() {
            above[at + 1] =
                (row[at] + usize::from(c != wanted)).min(row[at + 1] + 1).min(above[at] + 1);
        }
        row = above;
    }
    row.into_iter().min().unwrap_or(0)
}

/// Specifications over `ppl:x`, which gives any number, and rules.
fn specs() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec!["ppl:x", "cola", "prob:cola", "regex:a", "length:3"]);
    leaf.prop_map(String::from).prop_recursive(3, 12, 3, |inner| {
        let number = -3.0f64..3.0;
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} + {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("min({a}, {b})")),
            (inner.clone(), inner.clone(), number.clone())
                .prop_map(|(a, b, t)| format!("product(step({a}, {t}), prob:cola, step({b}, 0))")),
            (number.clone(), inner.clone()).prop_map(|(w, a)| format!("{w}*({a})")),
            (number.clone(), inner.clone()).prop_map(|(t, a)| format!("atleast({a}, {t})")),
            (number.clone(), inner.clone()).prop_map(|(t, a)| format!("atmost({a}, {t})")),
            (number, inner).prop_map(|(t, a)| format!("step({a}, {t})")),
        ]
    })
}

proptest! {
    #[test]
    fn the_range_of_an_expression_holds_its_values(spec in specs(), shares in prop::collection::vec(0.0f64..=1.0, 5)) {
        let spec: Spec = spec.parse().expect("a spec");
        let mut shares = shares.iter().cycle();
        let reward = Composite::new(&spec, |_, leaf| {
            // Each leaf has a share of its own, so that they do not move together.
            let (share, range) = (*shares.next().expect("endless"), leaf.range());
            let (low, high) = (range.low.max(-1e3), range.high.min(1e3));
            Ok(Arc::new(Lying(range, (low + share * (high - low)).clamp(low, high))))
        });
        let reward = reward.expect("a reward");
        prop_assert_eq!(reward.range(), spec.range());
        let value = reward.score(&["x"]).expect("a score")[0];
        prop_assert!(reward.range().contains(value), "{} not in {:?}", value, reward.range());
    }

    #[test]
    fn a_plain_pattern_is_as_near_as_its_edits(pattern in "[abc ]{1,6}", text in "[abcd ]{0,12}") {
        let of = |text: &str| treasure_rewards::rules::Pattern::new("x", &pattern).expect("a pattern").score(&[text]).expect("a score")[0];
        let letters = |text: &str| text.chars().collect::<Vec<char>>();
        let length = pattern.chars().count();
        let expected = 1.0 - edits(&letters(&pattern), &letters(&text)) as f64 / length as f64;
        prop_assert!((of(&text) - expected).abs() < 1e-12);
        prop_assert_eq!(of(&text) == 1.0, text.contains(&pattern));
        // Text around changes nothing for the worse, and a longer beginning of the pattern is nearer.
        let around = format!("x{text}x");
        prop_assert!(of(&around) >= of(&text));
        for end in 1..length {
            let (short, long) = (&letters(&pattern)[..end], &letters(&pattern)[..end + 1]);
            let of = |part: &[char]| of(&part.iter().collect::<String>());
            prop_assert!(of(long) > of(short));
        }
    }

    #[test]
    fn a_pattern_gives_one_exactly_if_it_matches(
        pattern in "([ab]|\\\\b|\\(a\\|bc\\)|\\[ab\\]\\+|c\\?|\\.|\\^|\\$){1,6}",
        text in "[abc ]{0,8}",
    ) {
        let regex = regex::Regex::new(&pattern).expect("a pattern");
        let value = treasure_rewards::rules::Pattern::new("x", &pattern).expect("a pattern").score(&[&text]).expect("a score")[0];
        prop_assert_eq!(value == 1.0, regex.is_match(&text), "{}", value);
        prop_assert!((0.0..=1.0).contains(&value));
    }

    #[test]
    fn batch_sizes_change_no_number(texts in proptest::collection::vec("[a-c ]{0,12}", 0..20), size in 1usize..8) {
        let spec = "contains:a,bb + distinct:1 + length:2..3";
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut options = quick();
        let plain = build(spec).score(&texts).expect("scores");
        options.batch = Some(size);
        let batched = build_with(spec, options).expect("a reward").score(&texts).expect("scores");
        prop_assert_eq!(plain, batched);
    }

    #[test]
    fn rules_stay_within_zero_and_one(text in "\\PC{0,80}") {
        let mut values = score("length:2..4", &[&text]);
        values.extend(score("contains:a,é", &[&text]));
        values.extend(score("avoids:a,é", &[&text]));
        values.extend(score("distinct:2", &[&text]));
        values.extend(score("regex:'(a|b)+c'", &[&text]));
        prop_assert!(values.iter().all(|value| (0.0..=1.0).contains(value)), "{:?}", values);
    }
}

#[test]
fn diversity_has_two_definitions() {
    let texts = [" a b a", "b a"];
    close(metrics::dist(&texts, 1).expect("words"), 2.0 / 5.0);
    close(metrics::dist(&texts, 2).expect("pairs"), 2.0 / 3.0);
    // Words: "", a, b, a, b, a: six; distinct pairs: _a, a_b, b_a.
    close(metrics::dist_reference(&texts, 1).expect("words"), 3.0 / 6.0);
    close(metrics::dist_reference(&texts, 2).expect("words"), 3.0 / 6.0);
    assert_eq!(metrics::dist(&["a"], 2), None);
    assert_eq!(metrics::dist_reference(&[], 1), None);
}

/// A scorer that finds every text equally likely.
struct Flat;

impl TextReward for Flat {
    fn name(&self) -> &str {
        "flat"
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        Ok(vec![-2.0; texts.len()])
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        let detail = Some(serde_json::json!({"nll_mean": 2.0, "tokens": 3}));
        Ok(texts.iter().map(|_| Explained { value: -2.0, detail: detail.clone() }).collect())
    }
}

#[test]
fn detail_is_flat_for_one_reward_and_keyed_for_several() {
    let single = Composite::single(Arc::new(Flat)).breakdown(&["a"]).expect("rows");
    assert_eq!(single[0].detail, Some(serde_json::json!({"nll_mean": 2.0, "tokens": 3})));
    let spec: Spec = "perplexity + regex:a".parse().expect("a spec");
    let several = Composite::new(&spec, |_, _| Ok(Arc::new(Flat))).expect("a reward");
    let detail = several.breakdown(&["a"]).expect("rows")[0].detail.clone().expect("detail");
    assert_eq!(detail["flat"]["tokens"], 3);
}
