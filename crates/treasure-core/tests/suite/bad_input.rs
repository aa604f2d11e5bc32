//! Bad input gets an error that carries the values, and nothing panics.

use treasure_core::{
    Answer, Bans, Denoiser, Encoding, Error, Facts, Key, Limits, MaskedSeq, NoiseSchedule,
    Potential, Problem, Question, Result, Reward, Sampler, Schedule, Silent, State, ValueKind,
    View, Width,
    methods::{Base, BestOfN, Code, FkSteering, NaiveTree, Search, Svdd, Treasure},
    resample::LogWeights,
};
use treasure_testkit::{FnReward, JointTable, TableReward};

use crate::common::{EXACT, problem, run};

fn parts() -> (JointTable, TableReward) {
    (JointTable::random(3, 4, Key::new(1)), TableReward::random(3, 4, Key::new(2)))
}

fn refused(method: &dyn Search) -> String {
    let (table, reward) = parts();
    let problem = problem(4, &table, &reward);
    let error = method.run(&problem, Key::new(1), &mut Silent).unwrap_err();
    assert_eq!(problem.cost(), treasure_core::Cost::default(), "nothing was spent");
    error.to_string()
}

#[test]
fn widths_and_counts_of_zero_are_refused() {
    assert_eq!(
        refused(&Treasure::new(0, 2)),
        "beam width: expected at least 1 at every step, got 0"
    );
    assert_eq!(
        refused(&Treasure::new(2, 0)),
        "tree width: expected at least 1 at every step, got 0"
    );
    let list = Treasure { tree_width: Width::List(vec![2, 0]), ..Treasure::default() };
    assert_eq!(refused(&list), "tree width: expected at least 1 at every step, got 2,0");
    let none = Treasure { beam_width: Width::List(vec![]), ..Treasure::default() };
    assert_eq!(refused(&none), "beam width: expected at least 1 at every step, got ");
    let falls = Treasure { beam_width: Width::Linear { from: 3, to: 0 }, ..Treasure::default() };
    assert!(refused(&falls).ends_with("got linear:3..0"));
    assert_eq!(
        refused(&Treasure { groups: 0, ..Treasure::default() }),
        "groups: expected at least 1, got 0"
    );
    let sampler = Sampler::FirstHitting;
    assert_eq!(
        refused(&BestOfN { particles: 0, sampler }),
        "particles: expected at least 1, got 0"
    );
    assert_eq!(refused(&Base { steps: 0 }), "steps: expected at least 1, got 0");
    assert_eq!(
        refused(&NaiveTree { steps: 0, ..NaiveTree::default() }),
        "steps: expected at least 1, got 0"
    );
    assert!(
        refused(&Svdd { particles: 0, chains: 1, sampler, alpha: 0.0 }).starts_with("particles")
    );
    assert!(refused(&Svdd { particles: 1, chains: 0, sampler, alpha: 0.0 }).starts_with("chains"));
    assert!(refused(&Code { particles: 1, code_block: 0, sampler }).starts_with("code block"));
}

#[test]
fn feynman_kac_options_outside_their_domain_are_refused() {
    let fk = FkSteering::default;
    assert_eq!(
        refused(&FkSteering { lambda: 0.0, ..fk() }),
        "lambda: expected a finite number above 0, got 0"
    );
    assert!(refused(&FkSteering { lambda: f64::NAN, ..fk() }).ends_with("got NaN"));
    assert!(refused(&FkSteering { x0_samples: 0, ..fk() }).starts_with("x0 samples"));
    assert!(refused(&FkSteering { resample_every: Some(0), ..fk() }).starts_with("resample every"));
    assert_eq!(
        refused(&FkSteering { ess: Some(1.5), ..fk() }),
        "ess: expected a number in (0, 1], got 1.5"
    );
    assert!(
        refused(&Treasure { commit_threshold: Some(0.0), ..Treasure::default() })
            .starts_with("commit threshold")
    );
    assert!(refused(&Treasure { screen: Some(-1.0), ..Treasure::default() }).starts_with("screen"));
    let mixed = Treasure { screen: Some(0.5), value: ValueKind::Posterior, ..Treasure::default() };
    assert_eq!(refused(&mixed), "screen: expected the value resubstitute, got posterior");
    assert!(refused(&Treasure { reuse: Some(0), ..Treasure::default() }).starts_with("reuse"));
    assert!(refused(&Treasure { settle: Some(0), ..Treasure::default() }).starts_with("settle"));
    let mixed = Treasure { settle: Some(2), value: ValueKind::Posterior, ..Treasure::default() };
    assert_eq!(refused(&mixed), "settle: expected the value resubstitute, got posterior");
    let refusal = refused(&Treasure { reuse: Some(4), ..Treasure::default() });
    assert!(refusal.starts_with("reuse: expected a built-in model"), "{refusal}");
}

#[test]
fn a_beam_wider_than_the_allowed_tokens_is_capped_and_said_so() {
    let (table, reward) = parts();
    let bans = Bans::none().everywhere(2);
    let problem =
        Problem::new(MaskedSeq::empty(4), &EXACT, &table, &reward, bans, Limits::default())
            .unwrap();
    let mut said = Vec::new();
    let mut observer = |event: &treasure_core::Event| {
        if let treasure_core::Event::Note(note) = event {
            said.push(note.clone());
        }
        std::ops::ControlFlow::Continue(())
    };
    let outcome = Treasure::new(9, 1).run(&problem, Key::new(1), &mut observer).unwrap();
    assert_eq!(outcome.notes, said);
    assert_eq!(said.len(), 1, "noted once");
    assert_eq!(said[0].what, "beam width");
    assert!(
        said[0].message.starts_with("capped at 2 by the allowed tokens at position"),
        "{said:?}"
    );
    assert!(said[0].message.ends_with("9 asked for"));
    assert_eq!(outcome.cost.reward_requests(), 2 + 3 * 2);
    assert!(outcome.tokens.iter().all(|&token| token < 2));
}

#[test]
fn a_prompt_longer_than_the_sequence_is_refused() {
    let error = MaskedSeq::with_prompt(&[1, 2, 3], 2).unwrap_err();
    assert_eq!(
        error.to_string(),
        "prompt: expected at most the 2 tokens of the sequence, got 3 tokens"
    );
    let error = MaskedSeq::template([None, Some(u32::MAX)]).unwrap_err();
    assert!(error.to_string().contains("4294967295 at position 1"));
}

#[test]
fn starts_that_cannot_be_searched_are_refused() {
    let (table, reward) = parts();
    let refuse = |start: MaskedSeq| {
        Problem::new(start, &EXACT, &table, &reward, Bans::none(), Limits::default())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refuse(MaskedSeq::with_prompt(&[0, 1], 2).unwrap()),
        "start state: expected at least one mask to fill, got 0 masks in 2 positions"
    );
    assert_eq!(
        refuse(MaskedSeq::empty(0)),
        "start state: expected at least one mask to fill, got 0 masks in 0 positions"
    );
    assert_eq!(
        refuse(MaskedSeq::empty(5)),
        "sequence length: expected at most 4 (the denoiser's), got 5"
    );
    assert_eq!(
        refuse(MaskedSeq::with_prompt(&[17], 4).unwrap()),
        "start state: expected token ids below 4, got 17"
    );
    let limits = Limits { target_reward: Some(f64::NAN), ..Limits::default() };
    let error = Problem::new(MaskedSeq::empty(4), &EXACT, &table, &reward, Bans::none(), limits);
    assert_eq!(error.unwrap_err().to_string(), "target reward: expected a number, got NaN");
}

struct Rising;

impl Schedule for Rising {
    fn alpha(&self, t: f64) -> f64 {
        t
    }

    fn alpha_inv(&self, alpha: f64) -> f64 {
        alpha
    }
}

#[test]
fn schedules_outside_their_domain_are_refused() {
    let (table, reward) = parts();
    let refuse = |schedule: &dyn Schedule| {
        Problem::new(
            MaskedSeq::empty(4),
            schedule,
            &table,
            &reward,
            Bans::none(),
            Limits::default(),
        )
        .unwrap_err()
        .to_string()
    };
    assert!(refuse(&Rising).contains("strictly falling"));
    assert!(
        refuse(&NoiseSchedule::LogLinear { eps: 1.5 })
            .starts_with("schedule: expected α in [0, 1]")
    );
    for text in [
        "loglinear:1",
        "loglinear:-0.1",
        "linear:3..2",
        "linear:-1..2",
        "geometric:0..1",
        "geometric:1..1",
        "cosine:NaN",
        "linear:0..inf",
        "linear:5",
        "cosine:x",
        "quadratic",
        "",
    ] {
        let error = text.parse::<NoiseSchedule>().unwrap_err().to_string();
        assert!(error.starts_with("schedule: expected"), "{text}: {error}");
    }
}

#[test]
fn a_reward_that_panics_is_an_error_that_names_it() {
    let (table, _) = parts();
    let reward =
        FnReward::new("fragile", |x| if x[0] == 1 { panic!("token {}", x[0]) } else { 0.0 });
    let error = Treasure::new(3, 2)
        .run(&problem(4, &table, &reward), Key::new(1), &mut Silent)
        .unwrap_err();
    assert_eq!(error.to_string(), "reward fragile: panicked: token 1");
}

#[test]
fn a_reward_that_is_not_finite_is_an_error_that_names_the_view() {
    let (table, _) = parts();
    for (bad, shown) in [(f64::NAN, "NaN"), (f64::INFINITY, "inf"), (f64::NEG_INFINITY, "-inf")] {
        let reward = FnReward::new("odd", move |x| if x[1] == 2 { bad } else { 0.0 });
        let error = Treasure::new(3, 2)
            .run(&problem(4, &table, &reward), Key::new(1), &mut Silent)
            .unwrap_err()
            .to_string();
        let expected = format!("reward odd: expected a finite number, got {shown} for tokens [");
        assert!(error.starts_with(&expected), "{error}");
    }
}

struct Short;

impl Reward for Short {
    fn name(&self) -> &str {
        "short"
    }

    fn score(&self, batch: &[&View]) -> Result<Vec<f64>> {
        Ok(vec![0.0; batch.len() - 1])
    }
}

#[test]
fn a_reward_that_returns_too_few_numbers_is_an_error() {
    let (table, _) = parts();
    let error =
        Treasure::new(3, 2).run(&problem(4, &table, &Short), Key::new(1), &mut Silent).unwrap_err();
    assert_eq!(error.to_string(), "reward short: expected 3 scores, got 2");
}

/// A denoiser that breaks its promises in a chosen way.
struct Broken(&'static str);

impl Denoiser for Broken {
    fn facts(&self) -> &Facts {
        static FACTS: Facts =
            Facts { vocab_size: 3, never: Vec::new(), time_agnostic: true, max_len: usize::MAX };
        &FACTS
    }

    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        match self.0 {
            "panic" => panic!("out of memory"),
            "no encodings" => Ok(Vec::new()),
            _ => Ok(batch.iter().map(|_| Encoding::new((), 0)).collect()),
        }
    }

    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        let top = |token, logprob| treasure_core::Candidate { token, logprob };
        Ok(batch
            .iter()
            .take(if self.0 == "no answers" { 0 } else { batch.len() })
            .map(|question| Answer {
                argmax: match self.0 {
                    "few argmax" => vec![0],
                    "big token" => vec![3; question.seq.n_masked()],
                    _ => vec![0; question.seq.n_masked()],
                },
                top: match self.0 {
                    "empty top" => vec![vec![]],
                    "nan" => vec![vec![top(0, f64::NAN)]],
                    _ => vec![vec![top(0, -0.1)]],
                },
                ..Answer::default()
            })
            .collect())
    }
}

#[test]
fn a_denoiser_that_breaks_its_promises_is_an_error_that_says_how() {
    let reward = FnReward::new("zero", |_| 0.0);
    for (way, expected) in [
        ("panic", "denoiser: panicked: out of memory"),
        ("no encodings", "denoiser: expected 1 encodings, got 0"),
        ("no answers", "denoiser: expected 1 answers, got 0"),
        ("few argmax", "denoiser: expected 4 argmax tokens, got 1"),
        ("big token", "denoiser: expected token ids below 3, got 3"),
        ("empty top", "denoiser: expected 1 to 2 tokens at position"),
        ("nan", "denoiser: expected a log-probability for token 0 at position"),
    ] {
        let broken = Broken(way);
        let error = Treasure::new(2, 2)
            .run(&problem(4, &broken, &reward), Key::new(1), &mut Silent)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{way}: {error}");
    }
    let sound = Broken("sound");
    assert_eq!(run(&Treasure::new(2, 2), &problem(4, &sound, &reward), 1).tokens, [0; 4]);
}

#[test]
fn weights_from_which_nothing_can_be_drawn_are_an_error() {
    let none = f64::NEG_INFINITY;
    for logs in [vec![none, none], vec![0.0, f64::NAN], vec![f64::INFINITY, 0.0], vec![]] {
        let error = LogWeights::new("potentials of table", &logs).unwrap_err();
        assert!(matches!(error, Error::Weights { .. }));
        assert!(error.to_string().starts_with(
            "potentials of table: expected weights with a positive finite sum, got log-weights ["
        ));
    }
    // λ so large that the potentials leave the numbers.
    let (table, _) = parts();
    let reward = FnReward::new("big", |x| 1e300 * f64::from(x[0]));
    let method = FkSteering {
        sampler: Sampler::FirstHitting,
        lambda: 1e300,
        potential: Potential::Rt,
        ..FkSteering::default()
    };
    let error = method.run(&problem(4, &table, &reward), Key::new(1), &mut Silent).unwrap_err();
    assert!(error.to_string().starts_with("Feynman–Kac potentials: expected weights"), "{error}");
}
