//! The exact savings change no bit: whole searches with the pocket models against a path that has none of them.
//!
//! The plain path runs every state and every text alone through every layer for every token, reads one row of
//! logits at a time, and remembers nothing. The fast path is the product's: batches, several samples in
//! flight, shared prefixes, the last layer for the rows that are read, memory of states and texts.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use treasure_core::{
    Answer, Bans, Batcher, Candidate, Cost, Denoiser, Encoding, Event, Facts, Key, Limits,
    MaskedSeq, NoiseSchedule, Problem, Question, Result, Reward, Scoring, Search as _, State,
    TokenId, View, methods::Treasure,
};
use treasure_models::{
    Classifier, LoadOptions, MaskedLm, Resolver, Scorer,
    exec::{Cpu, RowQuestion, Runner, Sequence},
    mean_nll,
};
use treasure_rewards::{Pipeline, RewardOptions, Rewards};
use treasure_text::Layout;

const PROMPT: &str = "Once upon a time";

fn pocket(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/pocket").join(name)
}

fn spec(name: &str) -> String {
    pocket(name).display().to_string()
}

/// The executor that shares nothing between rows.
fn plain_cpu() -> Cpu {
    Cpu::new().every_row()
}

/// All hidden rows of one sequence.
fn hidden(runner: &Runner, tokens: &[u32]) -> Vec<f32> {
    runner.hidden(&[Sequence::all(tokens)]).expect("a forward pass").values().to_vec()
}

/// The denoiser without savings.
struct PlainDenoiser<'a>(&'a MaskedLm);

impl Denoiser for PlainDenoiser<'_> {
    fn facts(&self) -> &Facts {
        self.0.facts()
    }

    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        let mask = self.0.describe().mask_id.expect("a mask");
        let run = |state: &State<'_>| {
            let tokens: Vec<u32> = state.seq.slots().map(|slot| slot.unwrap_or(mask)).collect();
            Encoding::new(hidden(self.0.runner(), &tokens), 0)
        };
        Ok(batch.iter().map(run).collect())
    }

    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        Ok(batch.iter().map(|question| self.answer(question)).collect())
    }
}

impl PlainDenoiser<'_> {
    fn answer(&self, question: &Question<'_>) -> Answer {
        let (runner, width) = (self.0.runner(), self.0.runner().outline().width);
        let rows: &Vec<f32> = question.encoding.downcast().expect("rows of this denoiser");
        let ranked = |position: usize| {
            let row = runner.logits(&rows[position * width..][..width]).expect("logits");
            let mut ranked: Vec<(TokenId, f32)> = (0..).zip(row).collect();
            let banned = question.bans.at(position);
            ranked.retain(|(id, _)| !banned.contains(id) && !self.0.facts().never.contains(id));
            ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            ranked
        };
        let top = question.want.top.iter().map(|at| {
            let ranked = ranked(at.position).into_iter().take(at.k);
            // The search looks at the order alone.
            ranked
                .map(|(token, logit)| Candidate { token, logprob: -(1.0 - f64::from(logit)).abs() })
                .collect()
        });
        Answer {
            argmax: match question.want.argmax {
                true => question.seq.masked().map(|position| ranked(position)[0].0).collect(),
                false => Vec::new(),
            },
            top: top.collect(),
            ..Answer::default()
        }
    }
}

enum Judge {
    Classifier(Box<Classifier>, usize),
    Scorer(Box<Scorer>),
}

/// A reward without savings; views are the product's.
impl Reward for Judge {
    fn name(&self) -> &str {
        "plain"
    }

    fn score(&self, batch: &[&View]) -> Result<Vec<f64>> {
        let score = |view: &&View| match view {
            View::Text(text) => self.of(text),
            View::Tokens(_) => panic!("expected text"),
        };
        Ok(batch.iter().map(score).collect())
    }
}

impl Judge {
    fn of(&self, text: &str) -> f64 {
        match self {
            Self::Classifier(model, label) => {
                let mut row = hidden(model.runner(), &model.ids(text).expect("ids"));
                row.truncate(model.runner().outline().width);
                let logits = model.runner().logits(&row).expect("logits");
                let wide = logits.iter().map(|&x| f64::from(x));
                let largest = wide.clone().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = wide.map(|x| (x - largest).exp()).sum();
                f64::from(logits[*label]) - largest - sum.ln()
            }
            Self::Scorer(model) => {
                let (runner, ids) = (model.runner(), model.ids(text).expect("ids"));
                let rows = hidden(runner, &ids[..ids.len() - 1]);
                let nll = |(row, next): (&[f32], &u32)| {
                    let tokens = [*next];
                    let question =
                        RowQuestion { normaliser: true, tokens: &tokens, ..Default::default() };
                    let answer = &runner.ask(row, &[question]).expect("an answer")[0];
                    answer.normaliser.expect("a normaliser") - f64::from(answer.logits[0])
                };
                let nll: Vec<f64> =
                    rows.chunks_exact(runner.outline().width).zip(&ids[1..]).map(nll).collect();
                -mean_nll(&nll).expect("a token")
            }
        }
    }
}

/// Every node of a search with its value to the bit, then the answer.
fn story(method: &Treasure, problem: &Problem<'_>, key: Key) -> Vec<String> {
    let mut lines = Vec::new();
    let mut watch = |event: &Event| {
        if let Event::Node(node) = event {
            let mut node = node.clone();
            // Costs differ: that is what the savings are for.
            node.cost = Cost::default();
            lines.push(format!("{:?} {node:?}", node.value.map(f64::to_bits)));
        }
        ControlFlow::Continue(())
    };
    let found = method.run(problem, key, &mut watch).expect("a search");
    lines.push(format!("{:?} {:?}", found.tokens, found.reward.map(f64::to_bits)));
    lines
}

fn both_ways(reward: &str, judge: &Judge, method: &Treasure, length: usize) {
    let resolver = Resolver::new().offline();
    let options = LoadOptions::default();
    let model = Arc::new(MaskedLm::load(&resolver, &spec("denoiser"), &options).expect("a model"));
    let tokenizer = model.tokenizer().expect("a tokenizer");
    let given = tokenizer.encode(PROMPT, true).expect("ids");
    let slots = given.iter().copied().map(Some).chain(std::iter::repeat_n(None, length));
    let state = MaskedSeq::from_slots(slots);
    let ends: Vec<TokenId> = model.eos_id().into_iter().collect();
    let bans = ends.iter().fold(Bans::none(), |bans, &end| bans.before(end, given.len() + 4));
    let bans = bans.everywhere(0);
    let layout = Layout::prompt(PROMPT, given.len(), length);
    let store = Arc::new(treasure_models::ModelStore::new(resolver));
    let rewards = Rewards::new(store, RewardOptions::default());
    let reward = rewards.build(&reward.parse().expect("a specification")).expect("a reward");
    let shared: Arc<dyn Reward> = reward.clone();
    let pipeline = Pipeline::new(reward, model.clone(), layout, ends);
    let schedule = NoiseSchedule::default();
    let keys = [Key::new(7).fold(0), Key::new(7).fold(1)];

    // Both searches at one table, so that every saving is at work.
    let batcher = Batcher::new();
    let run = |key: Key| {
        let seat = batcher.join();
        let denoiser = seat.denoiser(model.clone());
        let reward = seat.reward(shared.clone());
        let scoring = Scoring { reader: &pipeline, reward: &reward };
        let start = (state.clone(), bans.clone());
        let problem =
            Problem::new(start.0, &schedule, &denoiser, scoring, start.1, Limits::default());
        story(method, &problem.expect("a problem"), key)
    };
    let run = &run;
    let fast: Vec<Vec<String>> = std::thread::scope(|scope| {
        let searches: Vec<_> = keys.iter().map(|&key| scope.spawn(move || run(key))).collect();
        searches.into_iter().map(|search| search.join().expect("a search")).collect()
    });

    let plain = MaskedLm::load_on(&plain_cpu(), &Resolver::new(), &spec("denoiser"), &options);
    let plain = plain.expect("a model");
    let denoiser = PlainDenoiser(&plain);
    let scoring = Scoring { reader: &pipeline, reward: judge };
    for (key, fast) in keys.iter().zip(fast) {
        let start = (state.clone(), bans.clone());
        let problem =
            Problem::new(start.0, &schedule, &denoiser, scoring, start.1, Limits::default());
        let problem = problem.expect("a problem").with_memory(0, 0);
        let plain = story(method, &problem, *key);
        assert!(plain.len() > length, "a search has nodes");
        for (fast, plain) in fast.iter().zip(&plain) {
            assert_eq!(fast, plain);
        }
        assert_eq!(fast.len(), plain.len());
    }
}

#[test]
fn savings_change_no_bit_of_a_search_with_a_classifier() {
    let name = spec("judge-sentiment");
    let model = Classifier::load_on(&plain_cpu(), &Resolver::new(), &name, &LoadOptions::default());
    let model = model.expect("a judge");
    let label = model.label("negative").expect("a label");
    let judge = Judge::Classifier(Box::new(model), label);
    both_ways(&format!("hf:{name}#negative"), &judge, &Treasure::new(5, 2), 10);
    both_ways(&format!("hf:{name}#negative"), &judge, &Treasure::new(20, 16), 3);
}

#[test]
fn savings_change_no_bit_of_a_search_with_perplexity() {
    let name = spec("scorer");
    let model = Scorer::load_on(&plain_cpu(), &Resolver::new(), &name, &LoadOptions::default());
    let judge = Judge::Scorer(Box::new(model.expect("a scorer")));
    both_ways(&format!("ppl:{name}"), &judge, &Treasure::new(5, 2), 10);
    both_ways(&format!("ppl:{name}"), &judge, &Treasure::new(20, 16), 3);
}
