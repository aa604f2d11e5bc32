//! A denoiser of two dozen words, whose predictions depend on the words around a mask. Some words make
//! it slow, or make it fail.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde_json::json;
use treasure::{
    FunctionModel, Session,
    core::{
        Answer, Denoiser, Encoding, Error, Facts, Key, MaskedSeq, Question, Result, State, TokenId,
        answer_from_rows,
    },
    models::Tokenizer,
};
use treasure_server::{App, ServeOptions, Served};

const WORDS: [&str; 24] = [
    "<bos>", "<eos>", "<mask>", "<unk>", "the", "dog", "cat", "a", "red", "ball", "ran", "home",
    "and", "saw", "it", "was", "sad", "happy", "very", "old", ".", "slow", "stuck", "boom",
];
const MASK: TokenId = 2;
const SLOW: TokenId = 21;
const STUCK: TokenId = 22;
const BOOM: TokenId = 23;

fn tokenizer() -> Tokenizer {
    let vocabulary: serde_json::Map<_, _> =
        WORDS.iter().zip(0..).map(|(word, id)| ((*word).to_owned(), json!(id))).collect();
    let special = |id: usize| {
        json!({"id": id, "content": WORDS[id], "single_word": false, "lstrip": false,
               "rstrip": false, "normalized": false, "special": true})
    };
    let whole = json!({
        "version": "1.0",
        "added_tokens": (0..4).map(special).collect::<Vec<_>>(),
        "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": null,
        "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    });
    Tokenizer::parse(&whole.to_string(), "toy").unwrap()
}

struct Toy {
    facts: Facts,
}

fn row(seq: &MaskedSeq, position: usize) -> Vec<f64> {
    let near = |at: Option<usize>| {
        let slot = at.filter(|&at| at < seq.len()).and_then(|at| seq.get(at));
        slot.map_or(99, u64::from)
    };
    let key = Key::new(7)
        .fold(near(position.checked_sub(1)))
        .fold(near(Some(position + 1)))
        .fold(position as u64 % 5);
    let mut row: Vec<f64> =
        (0..WORDS.len() as u64).map(|id| 3.0 * key.fold(id).uniform()).collect();
    for never in [MASK, SLOW, STUCK, BOOM] {
        row[never as usize] = f64::NEG_INFINITY;
    }
    row
}

impl Denoiser for Toy {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        let has =
            |token| batch.iter().any(|state| state.seq.slots().any(|slot| slot == Some(token)));
        if has(BOOM) {
            return Err(Error::Denoiser { message: "boom".into(), source: None });
        }
        let milliseconds = if has(STUCK) { 200 } else { u64::from(has(SLOW)) * 10 };
        std::thread::sleep(Duration::from_millis(milliseconds));
        let rows = |state: &State<'_>| -> Vec<Vec<f64>> {
            state.seq.masked().map(|position| row(state.seq, position)).collect()
        };
        Ok(batch.iter().map(|state| Encoding::new(rows(state), 4_096)).collect())
    }

    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        let answer = |question: &Question<'_>| {
            let rows: &Vec<Vec<f64>> = question.encoding.downcast().unwrap();
            answer_from_rows(question, rows)
        };
        Ok(batch.iter().map(answer).collect())
    }
}

/// A session on the toy, under the name `own`. Weights of shipped rewards are loaded once.
pub fn session() -> Session {
    static SESSION: OnceLock<Session> = OnceLock::new();
    let made = || {
        let never = vec![MASK, SLOW, STUCK, BOOM];
        let facts = Facts { vocab_size: WORDS.len(), never, time_agnostic: true, max_len: 80 };
        let model = FunctionModel::new(Toy { facts }, tokenizer());
        Session::on(model.with_ends(Some(0), Some(1)))
    };
    SESSION.get_or_init(made).clone()
}

/// Options that serve the toy.
pub fn options() -> ServeOptions {
    ServeOptions {
        port: 0,
        models: vec![Served::new("own")],
        quiet: true,
        ..ServeOptions::default()
    }
}

/// A loaded server on the toy.
pub fn app(options: ServeOptions) -> Arc<App> {
    let app = App::new(options, &session()).unwrap();
    app.load().unwrap();
    app
}
