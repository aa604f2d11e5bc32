//! Forward passes and nothing else, for instruction counts: the difference between two counts of rounds is
//! what one round costs.
//!
//! `valgrind --tool=callgrind target/release/examples/forward POCKET-FOLDER denoiser|judge|scorer ROUNDS`

use treasure_core::{Bans, Denoiser as _, MaskedSeq, Question, State, Want};
use treasure_models::{Classifier, LoadOptions, MaskedLm, Resolver, Scorer};

type Anyhow<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Anyhow<()> {
    let usage = "usage: forward POCKET-FOLDER denoiser|judge|scorer ROUNDS";
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, what, rounds] = &words[..] else { return Err(usage.into()) };
    let rounds: usize = rounds.parse()?;
    let (resolver, options) = (Resolver::new().offline(), LoadOptions::default());
    let place = |name: &str| format!("{folder}/{name}");
    let token = |row: usize, i: usize| ((row * 7919 + i * 104_729 + 13) % 2000 + 5) as u32;
    let rows: Vec<Vec<u32>> = (0..2).map(|r| (0..24).map(|i| token(r, i)).collect()).collect();
    let views: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
    match what.as_str() {
        "denoiser" => {
            let model = MaskedLm::load(&resolver, &place("denoiser"), &options)?;
            let half = |ids: &[u32]| {
                MaskedSeq::from_slots(
                    ids.iter().enumerate().map(|(i, &id)| (i % 2 > 0).then_some(id)),
                )
            };
            let states: Vec<MaskedSeq> = rows.iter().map(|ids| half(ids)).collect();
            for _ in 0..rounds {
                let batch: Vec<State<'_>> =
                    states.iter().map(|seq| State { seq, t: 0.5 }).collect();
                let encodings = model.encode(&batch)?;
                let bans = Bans::none();
                let ask = |(seq, encoding)| {
                    let want = Want { argmax: true, confidence: true, ..Want::default() };
                    Question { seq, encoding, bans: &bans, want }
                };
                let questions: Vec<Question<'_>> = states.iter().zip(&encodings).map(ask).collect();
                println!("{:?}", model.read(&questions)?[0].argmax.first());
            }
        }
        "judge" => {
            let model = Classifier::load(&resolver, &place("judge-sentiment"), &options)?;
            for _ in 0..rounds {
                println!("{:?}", model.log_probs_ids(&views)?[0]);
            }
        }
        "scorer" => {
            let model = Scorer::load(&resolver, &place("scorer"), &options)?;
            for _ in 0..rounds {
                println!("{:?}", model.nll(&views)?[0].first());
            }
        }
        _ => return Err(usage.into()),
    }
    Ok(())
}
