//! Templates and constraints made by their grammars, down to the tables of a vocabulary.

use std::time::Duration;

use serde_json::Value;
use treasure::{Plan, Request, Session, Template};

use super::{Choices, Seen, fuzz, toy};

fn regex(choices: &mut Choices<'_>, depth: usize) -> String {
    if depth == 0 {
        let atoms = [
            "w1",
            "w[0-9]",
            " ",
            ".",
            "w",
            "\\d",
            "[^ ]",
            "a",
            "\\w",
            "[a-",
            "w{2",
            "\\p{L}",
            "^",
            "$",
            "\\b",
            "(?-u:\\b)",
            "(?m:^)",
            "(?i:W)",
            "(?s:.)",
            "\\x{41}",
            "[[:alpha:]&&[^w]]",
            "(?:)",
            "\\z",
            "\\B",
            "(?P<n>w)",
        ];
        return (*choices.pick(&atoms)).into();
    }
    let inner = regex(choices, depth - 1);
    match choices.below(7) {
        0 => format!("({inner})*"),
        1 => format!("({inner}|{})", regex(choices, depth - 1)),
        2 => format!("{inner}{}", regex(choices, depth - 1)),
        3 => format!("({inner}){{{},{}}}", choices.below(4), choices.small(40)),
        4 => format!("({inner})?"),
        5 => format!("({inner})+"),
        _ => inner,
    }
}

fn schema(choices: &mut Choices<'_>, depth: usize) -> String {
    match choices.below(if depth == 0 { 12 } else { 19 }) {
        0 => r#"{"type":"string"}"#.into(),
        1 => format!(
            r#"{{"type":"integer","minimum":{},"maximum":{}}}"#,
            choices.small(9),
            choices.small(99)
        ),
        2 => r#"{"enum":["w1","w2 w3",3,null]}"#.into(),
        3 => format!(r#"{{"type":"string","maxLength":{}}}"#, choices.small(9)),
        4 => format!(r#"{{"const":{}}}"#, choices.number()),
        5 => {
            let formats = ["date", "time", "date-time", "uuid", "ipv4", "email", "hostname"];
            format!(r#"{{"type":"string","format":"{}"}}"#, choices.pick(&formats))
        }
        6 => {
            let inner = choices.below(3);
            format!(r#"{{"type":"string","pattern":{}}}"#, Value::from(regex(choices, inner)))
        }
        7 => format!(
            r#"{{"type":"string","minLength":{},"maxLength":{},"pattern":"^w","title":"x"}}"#,
            choices.small(4),
            choices.small(9)
        ),
        8 => format!(
            r#"{{"type":"number","exclusiveMinimum":{},"maximum":{}}}"#,
            choices.float(),
            choices.float()
        ),
        9 => format!(r#"{{"type":"integer","multipleOf":{}}}"#, choices.small(9)),
        10 => {
            let places = ["#/$defs/x", "#", "#/%24defs/x", "other.json", "#/$defs/%zz", "#/no"];
            format!(
                r##"{{"$ref":"{}","$defs":{{"x":{{"type":"boolean"}}}}}}"##,
                choices.pick(&places)
            )
        }
        11 => r#"{"enum":[{"a":[1,"w1",{"b":null}]},[],"\u00e9\n",-1.5e9,true]}"#.into(),
        12 => format!(
            r#"{{"type":"array","items":{},"maxItems":{}}}"#,
            schema(choices, depth - 1),
            choices.small(5)
        ),
        13 => format!(
            r#"{{"type":"object","properties":{{"a":{},"b":{}}},"required":["a"]}}"#,
            schema(choices, depth - 1),
            schema(choices, depth - 1)
        ),
        14 => format!(
            r#"{{"{}":[{},{}]}}"#,
            choices.pick(&["oneOf", "oneOf", "allOf"]),
            schema(choices, depth - 1),
            schema(choices, depth - 1)
        ),
        17 => format!(
            r#"{{"oneOf":[{{"type":"integer","maximum":{}}},{{"type":"integer","minimum":{}}}]}}"#,
            choices.small(9),
            choices.small(9)
        ),
        15 => format!(
            r#"{{"type":"array","prefixItems":[{},{}],"minItems":{},"uniqueItems":{}}}"#,
            schema(choices, depth - 1),
            schema(choices, depth - 1),
            choices.small(4),
            choices.chance(60)
        ),
        16 => format!(
            r#"{{"type":["object","null"],"properties":{{"a":{}}},"additionalProperties":{}{}}}"#,
            schema(choices, depth - 1),
            choices.pick(&["true", "false", r#"{"type":"integer"}"#]),
            choices.pick(&[
                "",
                r#","required":["z"]"#,
                r#","maxProperties":2"#,
                r#","required":3"#
            ])
        ),
        _ => format!(
            r#"{{"anyOf":[{},{}]}}"#,
            schema(choices, depth - 1),
            schema(choices, depth - 1)
        ),
    }
}

fn hole(choices: &mut Choices<'_>) -> String {
    let size = match choices.below(4) {
        0 => String::new(),
        1 => format!(":{}", choices.number()),
        _ => format!(":{}", 1 + choices.below(9)),
    };
    let depth = choices.below(4);
    match choices.below(8) {
        0 => format!("[MASK{size}|regex:{}]", regex(choices, depth)),
        1 => format!("[MASK{size}|choices:w1,w2 w3,{}]", choices.text(4)),
        2 => format!("[MASK{size}|json-schema:{}]", schema(choices, depth.min(2))),
        3 => format!("[MASK{size}|{}]", choices.text(5)),
        4 => format!("[MASK{}]", choices.text(3)),
        _ => format!("[MASK{size}]"),
    }
}

fn start(session: &Session, template: String) -> Seen {
    let request = Request {
        model: Some("own".into()),
        reward: Some("contains:w1".into()),
        template: Some(template),
        ..Request::default()
    };
    let plan = match Plan::new(&request) {
        Ok(plan) => plan,
        Err(error) => return Seen { past_the_reader: true, ..Seen::refused(error) },
    };
    match session.start(&plan, "") {
        Ok(start) => {
            assert_eq!(start.state.n_masked(), plan.length);
            Seen::deep(format!("started, constrained {}", plan.is_constrained()))
        }
        Err(error) => Seen { past_the_reader: true, ..Seen::refused(error) },
    }
}

#[test]
fn a_template_of_any_shape_starts_a_search_or_says_why_not() {
    let session = toy::session();
    fuzz("templates", Duration::from_secs(10), |choices| {
        let pieces = 1 + choices.below(4);
        let piece = |choices: &mut Choices<'_>| match choices.chance(150) {
            true => hole(choices),
            false => choices.text(5),
        };
        let text: String = (0..pieces).map(|_| piece(choices)).collect();
        let template = match Template::parse(&text) {
            Ok(template) => template,
            Err(error) => return Seen::refused(error),
        };
        let canonical = template.canonical();
        let again = Template::parse(&canonical).expect("what is written can be read");
        assert_eq!(again.n_masks(), template.n_masks(), "{canonical}");
        start(&session, text)
    });
}
