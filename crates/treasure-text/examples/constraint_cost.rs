//! What constraints cost: tables, legal sets and likeliest completions, per pattern and vocabulary.
//!
//! ```text
//! cargo run --release -p treasure-text --example constraint_cost [TOKENIZER.json | RANKS.tiktoken] [ENTRIES]
//! ```
//! Without a file: the pocket tokenizer, then a synthetic vocabulary of 126,464 entries. The column `a step` is
//! computing time, the mean of half a second; the others are the fastest of `RUNS` (5) by the clock.

use std::{path::Path, sync::Arc, time::Instant};

use serde_json::{Value, json};
use tokenizers::Tokenizer;
use treasure_core::{Key, MaskedSeq, TokenId};
use treasure_text::automata::{
    Best, Limits, Pattern, Patterns, SchemaOptions, Scores, Span, Tables, TokenBytes, TokenSet,
    Vocabulary,
};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    match arguments.next() {
        Some(path) => {
            let entries = arguments.next().map(|n| n.parse()).transpose()?;
            measure(&path, read(Path::new(&path), entries.unwrap_or(usize::MAX))?, 64)
        }
        None => {
            let pocket =
                concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/pocket/denoiser/tokenizer.json");
            measure("pocket", read(Path::new(pocket), usize::MAX)?, 48)?;
            measure("synthetic", synthetic(126_464), 64)
        }
    }
}

/// The bytes of at most `entries` tokens.
fn read(path: &Path, entries: usize) -> Outcome<Vec<Option<Vec<u8>>>> {
    let mut tokens = match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => {
            TokenBytes::read(&Tokenizer::from_file(path).map_err(|e| e.to_string())?)?.tokens
        }
        _ => {
            let text = std::fs::read_to_string(path)?;
            let word = |line: &str| line.split(' ').next().map(from_base64);
            text.lines().map(word).collect()
        }
    };
    tokens.truncate(entries);
    Ok(tokens)
}

fn from_base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bits, mut held, mut bytes) = (0u32, 0, Vec::new());
    for digit in text.bytes().filter_map(digit) {
        bits = bits << 6 | u32::from(digit);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}

/// Single bytes, then distinct words of letters, digits and punctuation with lengths as in real vocabularies.
fn synthetic(entries: usize) -> Vec<Option<Vec<u8>>> {
    let syllables = [
        "a", "e", "i", "o", "er", "in", "th", "st", "re", "an", "on", "l", "m", "ing", "tion", "é",
        "š",
    ];
    let marks = [
        "\"", "\":", "\",", "{", "}", "[", "]", ", ", ": ", "\\", "0", "1", "27", "365", ".", "-",
        "\n", "\t",
    ];
    let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    let mut known: std::collections::HashSet<Vec<u8>> = tokens.iter().cloned().collect();
    let mut drawn = 0;
    while tokens.len() < entries {
        let key = Key::new(1).fold(drawn);
        drawn += 1;
        let mut word = String::new();
        if key.fold(0).uniform() < 0.5 {
            word.push(' ');
        }
        for part in 0..1 + key.fold(1).below(4) as u64 {
            let list: &[&str] =
                if key.fold(2).fold(part).uniform() < 0.04 { &marks } else { &syllables };
            word.push_str(list[key.fold(3).fold(part).below(list.len())]);
        }
        if known.insert(word.clone().into_bytes()) {
            tokens.push(word.into_bytes());
        }
    }
    tokens.into_iter().map(Some).collect()
}

/// Twenty fields of the kinds that people ask for.
fn twenty_fields(bounded: bool) -> Value {
    let text = match bounded {
        true => json!({"type": "string", "maxLength": 40}),
        false => json!({"type": "string"}),
    };
    let names = [
        "name", "title", "summary", "author", "city", "country", "email", "phone", "price",
        "quantity", "rating", "year", "active", "verified", "category", "tags", "address", "notes",
        "created", "score",
    ];
    let properties: serde_json::Map<String, Value> = (names.iter().enumerate())
        .map(|(i, name)| {
            let schema = match *name {
                "price" | "score" => json!({"type": "number", "minimum": 0}),
                "quantity" => json!({"type": "integer", "minimum": 0, "maximum": 1000}),
                "rating" => json!({"type": "integer", "minimum": 1, "maximum": 5}),
                "year" => json!({"type": "integer", "minimum": 1900, "maximum": 2100}),
                "active" | "verified" => json!({"type": "boolean"}),
                "category" => json!({"enum": ["book", "film", "game", "music", "other"]}),
                "tags" => json!({"type": "array", "items": text, "maxItems": 4}),
                "address" => json!({"type": "object", "properties": {"street": text, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}}, "required": ["street", "zip"]}),
                "created" => json!({"type": "string", "format": "date"}),
                _ if i % 3 == 0 => json!({"anyOf": [text, {"type": "null"}]}),
                _ => text.clone(),
            };
            ((*name).to_owned(), schema)
        })
        .collect();
    let required: Vec<&str> = names.iter().copied().step_by(2).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

fn measure(name: &str, mut tokens: Vec<Option<Vec<u8>>>, len: usize) -> Outcome {
    let start = Instant::now();
    tokens.push(None);
    let end = tokens.len() as TokenId - 1;
    let vocabulary = Arc::new(Vocabulary::new(tokens, &[end])?);
    println!(
        "{name}: {} tokens, trie in {:.0?}, {len} positions",
        vocabulary.size(),
        start.elapsed()
    );
    println!(
        "{:<22}{:>9}{:>9}{:>8}{:>8}{:>8}{:>9}{:>10}{:>9}{:>9}{:>9}{:>9}{:>9}{:>10}{:>10}{:>5}",
        "pattern",
        "dfa ms",
        "table ms",
        "states",
        "classes",
        "groups",
        "edges",
        "KiB",
        "lattice",
        "legal",
        "reveal",
        "a row",
        "viterbi",
        "marginals",
        "a step",
        "len"
    );
    let schema = |schema: Value| Pattern::json_schema(&schema, SchemaOptions::default());
    // Two thousand names, of two words each.
    let words = (0..vocabulary.size() as TokenId).map(|token| vocabulary.bytes(token));
    let words = words.filter_map(|word| std::str::from_utf8(word).ok());
    let words: Vec<&str> = words
        .filter(|word| word.len() > 3 && word.bytes().skip(1).all(|b| b.is_ascii_lowercase()))
        .collect();
    let name = |i: usize| format!("{}{}", words[i * 7 % words.len()], words[i * 13 % words.len()]);
    let patterns = [
        ("2,000 choices", Pattern::choices((0..2000).map(name))),
        ("sentence", Pattern::regex(r" [A-Z][a-z ,']{10,}[.!?]")),
        ("words {1,100}", Pattern::regex(r"(?: [a-z]+){1,100}\.")),
        ("Unicode words", Pattern::regex(r"[\w ]+\.")),
        ("choices", Pattern::choices([" red", " green", " blue"])),
        (
            "record of 3",
            schema(
                json!({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}, "ok": {"type": "boolean"}}, "required": ["name", "age", "ok"]}),
            ),
        ),
        ("20 fields", schema(twenty_fields(false))),
        ("20 fields, maxLength", schema(twenty_fields(true))),
    ];
    for (what, pattern) in patterns {
        one(what, &pattern, &vocabulary, len)?;
    }
    Ok(())
}

/// The fastest of several runs, in microseconds, and what it gave. Other processes make a run longer, never
/// shorter, so on a busy machine more runs are needed.
fn fastest<T>(mut run: impl FnMut() -> Outcome<T>) -> Outcome<(f64, T)> {
    let runs = std::env::var("RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(5);
    let mut best = (f64::INFINITY, None);
    for _ in 0..runs {
        let start = Instant::now();
        let value = run()?;
        let time = start.elapsed().as_secs_f64() * 1e6;
        if time < best.0 {
            best = (time, Some(value));
        }
    }
    Ok((best.0, best.1.ok_or("nothing was run")?))
}

/// The seconds that this process has computed so far; `None` where the system does not say.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
}

/// The mean computing time of a run over at least half a second of it, in microseconds: what others do on the
/// machine does not count. Elsewhere the fastest.
fn computing(mut run: impl FnMut() -> Outcome) -> Outcome<f64> {
    let Some(start) = cpu_seconds() else { return Ok(fastest(run)?.0) };
    for runs in 1.. {
        run()?;
        let spent = cpu_seconds().unwrap_or(start) - start;
        if spent >= 0.5 {
            return Ok(spent * 1e6 / f64::from(runs));
        }
    }
    Err("a clock that stands".into())
}

/// All that a constraint adds to the step of a search for one state, when every position is masked: what is
/// legal, the look ahead at every mask, the likeliest completion and those of ten children.
fn step(span: &Span, rows: &[Vec<f32>]) -> Outcome {
    let len = span.len();
    let patterns = Patterns::new(span.tables().vocabulary().clone(), len).with(0, span.clone())?;
    let filled = patterns.fill(&MaskedSeq::empty(len))?;
    let mut ahead = filled.outlook(&|position| rows[position].as_slice())?.ok_or("no mass")?;
    let mut within = vec![Vec::new(); len];
    for (position, within) in within.iter_mut().enumerate() {
        ahead.row(position, &rows[position], within)?;
    }
    let best = filled.likeliest(&|position| within[position].as_slice())?;
    let mut legal = TokenSet::default();
    filled.legal(len / 2, &mut legal);
    for token in legal.iter().take(10) {
        best.child(len / 2, token).ok_or("a legal token has a completion")?;
    }
    Ok(())
}

fn one(what: &str, pattern: &Pattern, vocabulary: &Arc<Vocabulary>, len: usize) -> Outcome {
    let limits = Limits::default();
    let (dfa_time, dfa) = fastest(|| Ok(pattern.dfa(&limits)?))?;
    let (table_time, tables) = fastest(|| Ok(Arc::new(Tables::build(&dfa, vocabulary, &limits)?)))?;
    let len = len.max(tables.lengths().shortest + 16);
    let span = Span::new(tables.clone(), len);
    let empty = vec![None; len];
    let (lattice_time, lattice) = fastest(|| Ok(span.lattice(&empty)?))?;
    let mut legal = TokenSet::default();
    let (legal_time, ()) = fastest(|| {
        lattice.legal(len / 2, &mut legal);
        Ok(())
    })?;
    let token = legal.iter().next().ok_or("no legal token")?;
    let (reveal_time, _) = fastest(|| {
        let mut lattice = lattice.clone();
        lattice.reveal(len / 2, token)?;
        Ok(lattice)
    })?;
    let rows: Vec<Vec<f32>> = (0..len as u64)
        .map(|p| {
            (0..vocabulary.size() as u64)
                .map(|v| Key::new(2).fold(p).fold(v).uniform().ln() as f32)
                .collect()
        })
        .collect();
    // Per row: short runs are the ones that a busy machine leaves alone.
    let mut scores = Scores::new(tables.clone(), len);
    let mut score_time = f64::INFINITY;
    for (position, row) in rows.iter().enumerate() {
        score_time = score_time.min(fastest(|| Ok(scores.set(position, row)?))?.0);
    }
    let scores = Arc::new(scores);
    let (viterbi_time, best) = fastest(|| Ok(Best::new(&lattice, &scores)?))?;
    let step_time = computing(|| step(&span, &rows))?;
    let mut marginals = Vec::new();
    let (marginal_time, ()) =
        fastest(|| Ok(best.max_marginals(len / 2, &rows[len / 2], &mut marginals)?))?;
    println!(
        "{what:<22}{:>9.2}{:>9.2}{:>8}{:>8}{:>8}{:>9}{:>10}{:>7.0}µs{:>7.0}µs{:>7.0}µs{:>7.0}µs{:>7.0}µs{:>8.0}µs{:>8.2}ms{len:>5}",
        dfa_time / 1e3,
        table_time / 1e3,
        tables.states(),
        tables.classes(),
        tables.groups(),
        tables.edges(),
        tables.bytes() >> 10,
        lattice_time,
        legal_time,
        reveal_time,
        score_time,
        viterbi_time,
        marginal_time,
        step_time / 1e3,
    );
    Ok(())
}
