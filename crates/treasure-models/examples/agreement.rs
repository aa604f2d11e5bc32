//! How far bf16 and int8 are from f32 on real texts, for a model of any kind.
//!
//! `agreement MODEL TEXTS.tsv`: a line is a text, or a label's number, a tab and a text. A classifier is asked for
//! its label, a scorer for its mean NLL, a denoiser for the likeliest token at every fourth position, masked.

use std::{fs, time::Instant};

use treasure_core::{Bans, Denoiser, MaskedSeq, Question, State, Want};
use treasure_models::{
    Classifier, LoadOptions, MaskedLm, Resolver, Role, Scorer, exec::Precision, inspect, mean_nll,
};

type Anyhow<T> = Result<T, Box<dyn std::error::Error>>;

/// What a model said about every text: numbers to compare, and decisions to agree on.
struct Said {
    numbers: Vec<f64>,
    decisions: Vec<usize>,
    seconds: f64,
}

fn ask(role: Role, name: &str, texts: &[&str], precision: Precision) -> Anyhow<Said> {
    let (resolver, options) =
        (Resolver::new(), LoadOptions { precision, ..LoadOptions::default() });
    let mut said = Said { numbers: Vec::new(), decisions: Vec::new(), seconds: 0.0 };
    match role {
        Role::Classifier => {
            let model = Classifier::load(&resolver, name, &options)?;
            let start = Instant::now();
            for part in texts.chunks(64) {
                let ids = model.ids_within(part, model.max_len())?;
                let views: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
                for logits in model.logits_ids(&views)? {
                    let sum: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
                    said.numbers.extend(logits.iter().map(|&x| f64::from(x) - sum.ln()));
                    let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
                    said.decisions.push(best.unwrap_or(0));
                }
            }
            said.seconds = start.elapsed().as_secs_f64();
        }
        Role::Scorer => {
            let model = Scorer::load(&resolver, name, &options)?;
            let start = Instant::now();
            for text in texts {
                let ids = model.tokenizer()?.encode(text, true)?;
                let nll = model.nll(&[&ids[..ids.len().min(256)]])?;
                said.numbers.push(mean_nll(&nll[0]).unwrap_or(0.0));
            }
            said.seconds = start.elapsed().as_secs_f64();
        }
        Role::Denoiser => {
            let model = MaskedLm::load(&resolver, name, &options)?;
            let start = Instant::now();
            for text in texts {
                let ids = model.tokenizer()?.encode(text, true)?;
                let slots = ids.iter().take(128).enumerate();
                let seq = MaskedSeq::from_slots(slots.map(|(i, &id)| (i % 4 != 2).then_some(id)));
                let encoding = model.encode(&[State { seq: &seq, t: 0.25 }])?.remove(0);
                let bans = Bans::none();
                let want = Want { argmax: true, confidence: true, ..Want::default() };
                let question = Question { seq: &seq, encoding: &encoding, bans: &bans, want };
                let answer = model.read(&[question])?.remove(0);
                said.decisions.extend(answer.argmax.iter().map(|&token| token as usize));
                said.numbers.extend(answer.confidence);
            }
            said.seconds = start.elapsed().as_secs_f64();
        }
    }
    Ok(said)
}

fn main() -> Anyhow<()> {
    let mut args = std::env::args().skip(1);
    let (Some(name), Some(file)) = (args.next(), args.next()) else {
        return Err("usage: agreement MODEL TEXTS.tsv".into());
    };
    let read = fs::read_to_string(file)?;
    let (labels, texts): (Vec<Option<usize>>, Vec<&str>) = read
        .lines()
        .map(|line| match line.split_once('\t') {
            Some((label, text)) => (label.parse().ok(), text),
            None => (None, line),
        })
        .unzip();
    let role = inspect(&Resolver::new(), &name, &LoadOptions::default())?.architecture.role();
    let exact = ask(role, &name, &texts, Precision::F32)?;
    println!("| precision | same decision | mean, largest difference | correct | seconds |");
    println!("|---|---|---|---|---|");
    for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
        let said = ask(role, &name, &texts, precision)?;
        let off: Vec<f64> =
            said.numbers.iter().zip(&exact.numbers).map(|(a, b)| (a - b).abs()).collect();
        let (mean, largest) = (
            off.iter().sum::<f64>() / off.len().max(1) as f64,
            off.iter().copied().fold(0.0, f64::max),
        );
        let share = |count: usize, of: usize| 100.0 * count as f64 / of.max(1) as f64;
        let pairs = said.decisions.iter().zip(&exact.decisions);
        let same = share(pairs.filter(|(a, b)| a == b).count(), said.decisions.len());
        let judged: Vec<bool> = said
            .decisions
            .iter()
            .zip(&labels)
            .filter_map(|(said, label)| label.map(|label| label == *said))
            .collect();
        let correct = share(judged.iter().filter(|right| **right).count(), judged.len());
        println!(
            "| {precision} | {same:.2} % of {} | {mean:.4}, {largest:.3} | {correct:.2} % of {} | {:.2} |",
            said.decisions.len(),
            judged.len(),
            said.seconds
        );
    }
    Ok(())
}
