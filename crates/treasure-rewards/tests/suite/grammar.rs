//! The grammar of reward specifications: what is understood, and where faults are pointed at.

use proptest::prelude::*;
use treasure_core::Hint as _;
use treasure_rewards::{
    Error, Spec,
    spec::{Judge, Kind, Leaf, Node, Rule, ValueKind},
};

fn parse(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn leaf(text: &str) -> Leaf {
    match parse(text).root.kind {
        Kind::Leaf(leaf) => leaf,
        other => panic!("{text} is {other:?}"),
    }
}

fn rule<const N: usize>(name: &str, arguments: [&str; N]) -> Leaf {
    Leaf::Rule(Rule::new(name, arguments).expect("a rule"))
}

/// The message's first line and the character under the caret (`None` at the end).
fn fault(text: &str) -> (String, Option<char>) {
    let error = text.parse::<Spec>().expect_err(text);
    let shown = error.to_string();
    let caret = shown.lines().last().expect("a caret line");
    assert_eq!(caret.trim(), "^", "{shown}");
    let Error::Spec { at, message, .. } = error else { panic!("{shown}") };
    assert_eq!(caret.chars().count() - 3, text[..at].chars().count(), "{shown}");
    (message, text[at..].chars().next())
}

#[test]
fn short_names_are_the_shipped_judges() {
    for (name, judge) in Judge::ALL {
        assert_eq!(leaf(name), Leaf::Judge(judge, ValueKind::LogProb));
    }
    assert_eq!(leaf("perplexity"), Leaf::Perplexity);
    assert_eq!(leaf("prob:toxicity"), Leaf::Judge(Judge::Toxicity, ValueKind::Prob));
    assert_eq!(
        leaf("accuracy:sentiment=negative"),
        Leaf::Judge(Judge::Negative, ValueKind::Accuracy)
    );
}

#[test]
fn every_scheme_is_understood() {
    let classifier = |label: Option<&str>, value| Leaf::Classifier {
        model: "some dir/x".into(),
        label: label.map(Into::into),
        value,
    };
    assert_eq!(leaf("hf:some dir/x#LABEL_1"), classifier(Some("LABEL_1"), ValueKind::LogProb));
    assert_eq!(leaf("prob:hf:some dir/x#2"), classifier(Some("2"), ValueKind::Prob));
    assert_eq!(leaf("hf:'some dir/x'#'a label'"), classifier(Some("a label"), ValueKind::LogProb));
    assert_eq!(leaf("hf:some dir/x"), classifier(None, ValueKind::LogProb));
    assert_eq!(leaf("ppl:org/name"), Leaf::Scorer { model: "org/name".into() });
    assert_eq!(leaf("nelbo:pocket"), Leaf::Nelbo { model: "pocket".into() });
    assert_eq!(leaf("raw:hf:some dir/x"), classifier(None, ValueKind::Raw));
    assert_eq!(leaf("regex:^a.*b$"), rule("regex", ["^a.*b$"]));
    assert_eq!(leaf("contains:sea, old man"), rule("contains", ["sea", "old man"]));
    assert_eq!(leaf("avoids:'a, b',c"), rule("avoids", ["a, b", "c"]));
    assert_eq!(leaf("length:40..60"), rule("length", ["40..60"]));
    assert_eq!(leaf("length:..60"), rule("length", ["..60"]));
    assert_eq!(leaf("length:40.."), rule("length", ["40.."]));
    assert_eq!(leaf("length:7"), rule("length", ["7"]));
    assert_eq!(leaf("distinct:3"), rule("distinct", ["3"]));
}

#[cfg(feature = "schema")]
#[test]
fn a_schema_may_say_that_other_text_may_come_first() {
    assert_eq!(leaf("json-schema:a.json"), rule("json-schema", ["a.json"]));
    assert_eq!(leaf("json-schema:a.json#anywhere"), rule("json-schema", ["a.json", "anywhere"]));
    assert_eq!(fault("json-schema:a.json#nowhere").1, Some('n'));
}

#[cfg(feature = "exec")]
#[test]
fn a_command_is_taken_as_it_is() {
    assert_eq!(leaf("exec:python judge.py --x 1"), Leaf::Exec("python judge.py --x 1".into()));
}

/// A build without a feature knows its rewards by name and refuses them by the feature's.
#[test]
fn a_reward_of_a_missing_feature_is_refused_by_name() {
    for (spec, there, feature) in [
        ("exec:true", cfg!(feature = "exec"), "exec"),
        ("json-schema:a.json", cfg!(feature = "schema"), "schema"),
        ("prob:tei+http://host:80#x", cfg!(feature = "remote"), "remote"),
    ] {
        match spec.parse::<Spec>() {
            Ok(_) => assert!(there, "{spec}"),
            Err(error) => {
                let wanted = format!("cargo feature `{feature}`");
                assert!(!there && error.to_string().contains(&wanted), "{error}");
            }
        }
    }
}

#[cfg(feature = "remote")]
#[test]
fn servers_have_protocols_addresses_and_labels() {
    for (word, protocol) in treasure_rewards::spec::Protocol::ALL {
        let Leaf::Remote(remote) = leaf(&format!("{word}+http://host:80/path#x")) else { panic!() };
        assert_eq!((remote.protocol, remote.label.as_deref()), (protocol, Some("x")));
        assert_eq!(remote.urls, ["http://host:80/path"]);
    }
    let Leaf::Remote(two) = leaf("tei+http://a:1/,http://b:2#pos") else { panic!() };
    assert_eq!(two.urls, ["http://a:1", "http://b:2"]);
    let Leaf::Remote(two) = leaf("prob:tei+https://a:1,tei+http://b:2#pos") else { panic!() };
    assert_eq!(two.urls, ["https://a:1", "http://b:2"]);
    assert_eq!(two.value, ValueKind::Prob);
    let Leaf::Remote(one) = leaf("sglang+http://a/v1/score?labels=1,2#Is it, well, kind?") else {
        panic!()
    };
    assert_eq!(one.urls, ["http://a/v1/score?labels=1,2"]);
    assert_eq!(one.label.as_deref(), Some("Is it, well, kind?"));
}

#[test]
fn a_plus_combines_only_between_spaces() {
    let Kind::Sum(terms) = parse("sentiment=positive + 0.5*perplexity").root.kind else { panic!() };
    assert_eq!(terms.len(), 2);
    assert!(matches!(&terms[1].kind, Kind::Weighted(weight, _) if *weight == 0.5));
    assert_eq!(leaf("regex:a+b"), rule("regex", ["a+b"]));
    assert_eq!(leaf("regex:a +b"), rule("regex", ["a +b"]));
    assert_eq!(leaf("regex:'a + b*'"), rule("regex", ["a + b*"]));
    assert_eq!(leaf("regex:'it''s'"), rule("regex", ["it's"]));
    assert_eq!(leaf("regex:don't"), rule("regex", ["don't"]));
    let Kind::Sum(terms) = parse("regex:'a+ b*' + regex:c").root.kind else { panic!() };
    assert_eq!(terms[0].kind, Kind::Leaf(rule("regex", ["a+ b*"])));
    assert_eq!(fault("cola+perplexity").1, Some('+'));
}

#[test]
fn weights_are_numbers_with_a_star() {
    for (text, wanted) in
        [("2*cola", 2.0), ("-1*toxicity", -1.0), ("1e-3 * cola", 1e-3), (".5*cola", 0.5)]
    {
        assert!(
            matches!(parse(text).root.kind, Kind::Weighted(weight, _) if weight == wanted),
            "{text}"
        );
    }
    assert_eq!(fault("x*cola").1, Some('x'));
    assert_eq!(fault("inf*cola").1, Some('i'));
}

#[test]
fn functions_take_parts_and_leave_lists_and_brackets_alone() {
    let Kind::Min(parts) = parse("min(contains:a,b, regex:(x|y){1,2}, cola)").root.kind else {
        panic!()
    };
    assert_eq!(parts.len(), 3);
    assert_eq!(parts[0].kind, Kind::Leaf(rule("contains", ["a", "b"])));
    assert_eq!(parts[1].kind, Kind::Leaf(rule("regex", ["(x|y){1,2}"])));
    let Kind::Product(parts) = parse("product(prob:cola,length:3..4)").root.kind else { panic!() };
    assert_eq!(parts.len(), 2);
    assert!(matches!(parse("atleast(cola, -0.1)").root.kind, Kind::AtLeast(_, t) if t == -0.1));
    assert!(
        matches!(parse("atmost(prob:toxicity, 0.2)").root.kind, Kind::AtMost(_, t) if t == 0.2)
    );
    assert!(matches!(parse("step(perplexity, -3)").root.kind, Kind::Step(_, t) if t == -3.0));
    assert!(matches!(parse("2*(cola + perplexity)").root.kind, Kind::Weighted(..)));
}

#[test]
fn a_product_takes_only_parts_within_zero_and_one() {
    parse("product(prob:cola, step(perplexity, -3), 0.5*length:3 + 0.5*regex:a)");
    let (message, at) = fault("product(prob:cola, perplexity)");
    assert!(message.contains("[0, 1]") && message.contains("perplexity"), "{message}");
    assert_eq!(at, Some('p'));
    fault("product(cola, prob:cola)");
    fault("product(prob:cola, 2*prob:cola)");
    fault("product(raw:cola, prob:cola)");
}

#[test]
fn faults_are_pointed_at() {
    for (text, at) in [
        ("", None),
        ("   ", None),
        ("kola", Some('k')),
        ("sentiment", None),
        ("sentiment=happy", Some('h')),
        ("cola + ", None),
        ("cola +", Some('+')),
        ("cola perplexity", Some('p')),
        ("foo:bar", Some('f')),
        ("zei+http://x", Some('z')),
        ("regex:", None),
        ("regex:'abc", Some('\'')),
        ("regex:'abc'd", Some('d')),
        ("regex:a(b", Some('(')),
        ("regex:aé[z-a]", Some('z')),
        ("length:x..3", Some('x')),
        ("length:3..y", Some('y')),
        ("length:5..3", Some('5')),
        ("distinct:0", Some('0')),
        ("contains:a,,b", Some(',')),
        ("hf:dir#", None),
        ("tei+http://#pos", Some('/')),
        ("min(cola)", Some(')')),
        ("min(cola, perplexity", None),
        ("max(cola, perplexity)", Some('m')),
        ("atleast(cola)", Some(')')),
        ("atleast(cola, high)", Some('h')),
        ("prob:perplexity", Some('p')),
        ("prob:regex:a", Some('r')),
        ("regex:'it''s[z-a]'", Some('z')),
        ("regex:'a''b''c(d'", Some('(')),
        ("sentiment:positive", Some(':')),
        ("cola:x", Some(':')),
    ] {
        assert_eq!(fault(text).1, at, "{text}: {}", fault(text).0);
    }
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let error = "kola".parse::<Spec>().expect_err("unknown");
    let hint = error.hint().expect("a hint");
    assert!(hint.contains("sentiment=positive") && hint.contains("hf:"), "{hint}");
}

#[test]
fn a_fault_comes_with_what_to_write_instead() {
    for (text, hint) in [
        ("sentimnt", "did you mean `sentiment`?"),
        ("Cola", "did you mean `cola`?"),
        ("preplexity", "did you mean `perplexity`?"),
        ("regx:a", "did you mean `regex:`?"),
        ("porb:cola", "did you mean `prob:`?"),
        ("mni(cola, perplexity)", "did you mean `min(`?"),
        ("rei+http://x", "did you mean `tei+http`?"),
        ("sentiment:positive", "write sentiment=positive"),
        ("sentiment:negatve", "write sentiment=negative"),
        ("sentiment=positiv", "did you mean `sentiment=positive`?"),
        ("toxicity:0", "write toxicity"),
        ("cola - perplexity", "cola + -1*perplexity"),
        ("cola, perplexity", "cola + perplexity, or joined: min(cola, perplexity)"),
        ("cola perplexity", "cola + …"),
        ("cola * perplexity", "0.5*perplexity"),
        ("cola +perplexity", "a space on both sides"),
        ("cola+perplexity", "a space on both sides"),
        ("max(cola, perplexity)", "write min(a, b), product(a, b), atleast(a, 0.5)"),
        ("min(cola)", "write min(cola, …)"),
        ("atleast(cola)", "write atleast(cola, NUMBER)"),
        ("atleast(cola, x)", "a plain number, such as 0.5"),
        ("min(cola, perplexity", "close every `(`"),
        ("regex:'a", "a doubled one stands for itself"),
        ("regex:'a'b", "a doubled one stands for itself"),
        ("regex:a(b", r"regex:a\(b"),
        ("sentiment=blue", "write sentiment=positive, sentiment=neutral or sentiment=negative"),
        ("prob:regex:a", "name a classifier"),
        ("tei+http://", "write HOST:PORT"),
        ("zzzz+http://x", "reward+http://HOST:PORT"),
        ("contains:", "docs/rewards.md has every reward"),
    ] {
        let error = text.parse::<Spec>().expect_err(text);
        let given = error.hint().expect("a hint");
        assert!(given.contains(hint), "{text}: {given}");
    }
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    let deep = "(".repeat(100_000);
    fault(&deep);
    fault(&"min(cola, ".repeat(100_000));
}

#[test]
fn parts_are_reported_as_written() {
    let names = |text: &str| -> Vec<String> {
        parse(text).parts().into_iter().map(|part: &Node| part.written.clone()).collect()
    };
    assert_eq!(names("perplexity"), ["perplexity"]);
    assert_eq!(
        names(" sentiment=positive + 0.5*perplexity "),
        ["sentiment=positive", "0.5*perplexity"]
    );
    assert_eq!(names("regex:'a+ b*' + cola"), ["regex:'a+ b*'", "cola"]);
    assert_eq!(names("min(cola, perplexity)"), ["cola", "perplexity"]);
    assert_eq!(
        names("min(cola, length:3) + regex:a"),
        ["min(cola, length:3)", "cola", "length:3", "regex:a"]
    );
    assert_eq!(names("2*(cola + perplexity)"), ["2*(cola + perplexity)", "cola", "perplexity"]);
    assert_eq!(names("cola + cola"), ["cola"]);
}

proptest! {
    #[test]
    fn no_input_makes_the_parser_panic(text in "\\PC{0,60}") {
        let _ = text.parse::<Spec>();
    }

    #[test]
    fn no_mix_of_its_own_pieces_makes_the_parser_panic(
        pieces in proptest::collection::vec(
            proptest::sample::select(vec![
                "cola", " + ", "min(", ")", ", ", "'", "regex:", "hf:", "#", "0.5*", "tei+http://", "http://",
                "contains:", ",", "(", "length:", "..", "prob:", "é", " ", "\\", "[", "atleast(", "\n",
            ]),
            0..14,
        )
    ) {
        if let Ok(spec) = pieces.concat().parse::<Spec>() {
            let again: Spec = spec.to_string().parse().expect("what displays parses");
            prop_assert_eq!(again, spec);
        }
    }
}
