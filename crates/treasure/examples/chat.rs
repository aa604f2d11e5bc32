//! An answer in a conversation, written by the checkpoint's own chat template and steered by a reward model of one logit.
//!
//! `cargo run --release -p treasure --example chat -- MODEL REWARD-MODEL "Tell me about rain."`

use treasure::{Result, Sample, Session};

/// What the model answers: sixteen tokens in blocks of eight, two of them a step.
pub fn answer(model: &str, liked: &str, said: &str) -> Result<Sample> {
    let session = Session::pocket()?;
    let ask = session.prompt(said).chat().set("model", model).reward(format!("raw:hf:{liked}"));
    ask.length(16).set("block", 8).set("steps", 8).seed(3).run()
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [model, liked, said] = &words[..] else {
        println!("usage: chat MODEL REWARD-MODEL SAID");
        return Ok(());
    };
    let found = answer(model, liked, said)?;
    println!("{}", found.continuation);
    eprintln!("{:.4}  {}", found.reward, found.cost);
    Ok(())
}
