//! A model of twelve words that answers in microseconds.

use treasure::{
    FunctionModel, Session,
    core::{Dense, Facts, State},
    models::Tokenizer,
};

pub const WORDS: usize = 12;

/// Words in a circle; each likes its neighbours. One of them is the mask, one ends a text.
pub fn session() -> Session {
    let entries: Vec<String> = (0..WORDS).map(|id| format!("\"w{id}\": {id}")).collect();
    let json = format!(
        r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
            "pre_tokenizer":{{"type":"Whitespace"}},"post_processor":null,"decoder":null,
            "model":{{"type":"WordLevel","vocab":{{{}}},"unk_token":"w0"}}}}"#,
        entries.join(",")
    );
    let tokenizer = Tokenizer::parse(&json, "words").unwrap();
    let never = vec![WORDS as u32 - 1];
    let facts = Facts { vocab_size: WORDS, never, time_agnostic: true, max_len: 64 };
    let model = Dense::new(facts, |states: &[State<'_>]| {
        let rows = |state: &State<'_>| {
            let slots: Vec<_> = state.seq.slots().collect();
            let row = |at: usize| {
                let before = at.checked_sub(1).and_then(|at| slots[at]);
                let likes = |id: usize| before.is_some_and(|near| near as usize + 1 == id);
                (0..WORDS)
                    .map(|id| ((id * 7 + at * 3) % 5) as f64 * 0.3 + f64::from(likes(id)))
                    .collect()
            };
            state.seq.masked().map(row).collect()
        };
        Ok(states.iter().map(rows).collect())
    });
    Session::on(FunctionModel::new(model, tokenizer).with_ends(None, Some(WORDS as u32 - 2)))
}
