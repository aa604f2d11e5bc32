//! A denoiser as a function from states to logits: here one that likes words in a circle.

use treasure::{
    FunctionModel, Session,
    core::{Dense, Facts, State},
    models::Tokenizer,
};

const WORDS: [&str; 6] = ["cats", "and", "dogs", "run", "home", "<mask>"];

fn main() -> treasure::Result<()> {
    let vocabulary: Vec<String> =
        WORDS.iter().enumerate().map(|(id, word)| format!("\"{word}\": {id}")).collect();
    let json = format!(
        r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
            "pre_tokenizer":{{"type":"Whitespace"}},"post_processor":null,"decoder":null,
            "model":{{"type":"WordLevel","vocab":{{{}}},"unk_token":"cats"}}}}"#,
        vocabulary.join(",")
    );
    let tokenizer = Tokenizer::parse(&json, "words")?;
    let facts = Facts { vocab_size: 6, never: vec![5], time_agnostic: true, max_len: 64 };
    let circle = Dense::new(facts, |states: &[State<'_>]| {
        let row =
            |position: usize| (0..6).map(|id| if id == position % 5 { 2.0 } else { 0.0 }).collect();
        Ok(states.iter().map(|state| state.seq.masked().map(row).collect()).collect())
    });
    let session = Session::on(FunctionModel::new(circle, tokenizer));
    let found = session.prompt("cats").reward("contains:dogs,home").length(8).run()?;
    println!("{}  {}", found.text, found.reward);
    Ok(())
}
