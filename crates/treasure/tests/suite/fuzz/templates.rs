//! Templates and constraints made by their grammars, down to the tables of a vocabulary.

use std::time::Duration;

use treasure::{Plan, Request, Session, Template};

use super::{Choices, Seen, fuzz, toy};

fn regex(choices: &mut Choices<'_>, depth: usize) -> String {
    if depth == 0 {
        let atoms =
            ["w1", "w[0-9]", " ", ".", "w", "\\d", "[^ ]", "a", "\\w", "[a-", "w{2", "\\p{L}"];
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
    match choices.below(if depth == 0 { 5 } else { 8 }) {
        0 => r#"{"type":"string"}"#.into(),
        1 => format!(
            r#"{{"type":"integer","minimum":{},"maximum":{}}}"#,
            choices.small(9),
            choices.small(99)
        ),
        2 => r#"{"enum":["w1","w2 w3",3,null]}"#.into(),
        3 => format!(r#"{{"type":"string","maxLength":{}}}"#, choices.small(9)),
        4 => format!(r#"{{"const":{}}}"#, choices.number()),
        5 => format!(
            r#"{{"type":"array","items":{},"maxItems":{}}}"#,
            schema(choices, depth - 1),
            choices.small(5)
        ),
        6 => format!(
            r#"{{"type":"object","properties":{{"a":{},"b":{}}},"required":["a"]}}"#,
            schema(choices, depth - 1),
            schema(choices, depth - 1)
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
