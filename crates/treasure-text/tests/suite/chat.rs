//! Conversations against transformers' `apply_chat_template`, byte for byte.

use serde_json::{Map, Value};
use treasure_text::{ChatTemplate, Format, Message, conversation};

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/chat.json")).unwrap()
}

fn template(source: &Value, config: &Value) -> ChatTemplate {
    let mut config: Map<String, Value> = config.as_object().unwrap().clone();
    config.insert("chat_template".into(), source.clone());
    ChatTemplate::from_config(&config, "tokenizer_config.json").unwrap().unwrap()
}

fn messages(case: &Value) -> Vec<Message> {
    serde_json::from_value(case["messages"].clone()).unwrap()
}

#[test]
fn prompts_are_those_of_transformers_byte_for_byte() {
    let golden = golden();
    let mut seen = 0;
    for case in golden["cases"].as_array().unwrap() {
        let name = case["template"].as_str().unwrap();
        let template = template(&golden["templates"][name], &golden["config"]);
        let got = template.render(&messages(case), case["reply"].as_bool().unwrap());
        match case["text"].as_str() {
            Some(text) => assert_eq!(got.unwrap(), text, "{name}"),
            None => {
                let error = got.unwrap_err();
                let source = std::error::Error::source(&error).unwrap().to_string();
                assert!(source.contains("roles must alternate"), "{error}: {source}");
            }
        }
        seen += 1;
    }
    assert_eq!(seen, 48);
}

#[test]
fn the_families_own_formats_are_those_their_templates_write() {
    let golden = golden();
    for case in golden["cases"].as_array().unwrap() {
        let format = match case["template"].as_str().unwrap() {
            "headers" => Format::LLADA,
            "chatml" => Format::DREAM,
            _ => continue,
        };
        let messages = messages(case);
        // The system message of ChatML is written first wherever it stands.
        let text = ChatTemplate::family(format)
            .render(&messages, case["reply"].as_bool().unwrap())
            .unwrap();
        assert_eq!(text, case["text"].as_str().unwrap());
    }
}

#[test]
fn a_written_conversation_can_be_read_again() {
    let said = vec![
        Message::new("system", "Be brief."),
        Message::user("How are you?\nWell?"),
        Message::new("assistant", "Fine."),
    ];
    for format in [Format::LLADA, Format::DREAM] {
        let text = ChatTemplate::family(format).render(&said, false).unwrap();
        assert_eq!(conversation(&text).unwrap(), said);
        let open = ChatTemplate::family(format).render(&said[..2], true).unwrap() + "Fine.";
        assert_eq!(conversation(&open).unwrap(), said, "an answer that has no end yet");
    }
    for text in ["", "The movie was good.", "He wrote <|start_header_id|>user<|end_header_id|>"] {
        assert_eq!(conversation(text), None, "{text:?}");
    }
}

#[test]
fn of_several_templates_the_default_is_taken_and_a_broken_one_says_where_it_is() {
    let config = |template: Value| Map::from_iter([("chat_template".to_owned(), template)]);
    let several = serde_json::json!([
        {"name": "tool_use", "template": "no"}, {"name": "default", "template": "{{ messages[0].content }}"}
    ]);
    let template = ChatTemplate::from_config(&config(several), "here").unwrap().unwrap();
    assert_eq!(template.render(&[Message::user("yes")], true).unwrap(), "yes");
    assert!(ChatTemplate::from_config(&Map::new(), "here").unwrap().is_none());
    for wrong in [serde_json::json!("{% for %}"), serde_json::json!(3), serde_json::json!([])] {
        let error = ChatTemplate::from_config(&config(wrong), "here").unwrap_err();
        assert!(error.to_string().contains("here"), "{error}");
    }
}

#[test]
fn a_template_that_does_not_end_is_stopped() {
    let endless = "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}";
    let template = ChatTemplate::jinja(endless.into(), &Map::new(), "here").unwrap();
    assert!(template.render(&[Message::user("a")], true).is_err());
}
