//! Searches within a constraint, against an enumerated list of allowed sequences.

use std::{collections::BTreeMap, sync::Arc};

use treasure_core::{
    AnswerKind, Bans, Constraint, Fills, Key, Legal, Limits, MaskedSeq, Method, Outcome, Problem,
    Result, Sampler, Silent, TokenId, TokenSet,
    methods::{Fhs, FkSteering, Search, Smc, Treasure},
    propose::Order,
};
use treasure_testkit::{JointTable, Listed, TableReward, exact};

use crate::common::{EXACT, run};

const VOCAB: usize = 3;
const LEN: usize = 4;

/// Sequences whose tokens do not fall: every token rules out tokens elsewhere.
fn rising() -> Listed {
    let rises = |text: &Vec<TokenId>| text.windows(2).all(|pair| pair[0] <= pair[1]);
    Listed::new(exact::sequences(VOCAB, LEN).filter(rises).collect())
}

fn parts() -> (JointTable, TableReward) {
    (JointTable::random(VOCAB, LEN, Key::new(1)), TableReward::random(VOCAB, LEN, Key::new(2)))
}

fn within<'a>(
    table: &'a JointTable,
    reward: &'a TableReward,
    constraint: impl Constraint + 'a,
) -> Problem<'a> {
    let limits = Limits::default();
    Problem::new(MaskedSeq::empty(LEN), &EXACT, table, reward, constraint, limits).unwrap()
}

/// Every method at small options, and the ways a tree may grow.
fn methods() -> Vec<Method> {
    let mut all: Vec<Method> = Vec::new();
    for name in Method::NAMES {
        let mut method = Method::named(name).unwrap();
        for (option, value) in [("steps", 6), ("particles", 4), ("n", 4), ("iterations", 4)] {
            let mut options = method.options();
            if options.contains_key(option) {
                options.insert(option.into(), value.into());
                method = Method::from_options(name, &options, &serde_json::Map::new()).unwrap();
            }
        }
        all.push(method);
    }
    let tree = Treasure { beam_width: 2.into(), tree_width: 2.into(), ..Treasure::default() };
    all.extend([
        Method::Treasure(Treasure { order: Order::Confidence, prior: 0.3, ..tree.clone() }),
        Method::Treasure(Treasure { order: Order::LeftToRight, ..tree.clone() }),
        Method::Treasure(Treasure { commit_threshold: Some(0.3), ..tree.clone() }),
        Method::Treasure(Treasure { groups: 2, ..tree }),
        Method::Fk(FkSteering {
            sampler: Sampler::Ancestral { steps: 3 },
            ..FkSteering::default()
        }),
    ]);
    all
}

fn needs_a_text(method: &Method) -> bool {
    matches!(method.name(), "refine")
}

fn outcome(method: &Method, problem: Problem<'_>, seed: u64) -> Outcome {
    let problem = match needs_a_text(method) {
        true => problem.with_given(&[0, 1, 1, 2]).unwrap(),
        false => problem,
    };
    run(method.search(), &problem, seed)
}

#[test]
fn every_method_writes_allowed_sequences_only_and_never_meets_a_dead_end() {
    let (table, reward) = parts();
    for (allowed, method) in [rising(), rising().looking_ahead()]
        .into_iter()
        .flat_map(|allowed| methods().into_iter().map(move |method| (allowed.clone(), method)))
    {
        for seed in 0..12 {
            let found = outcome(&method, within(&table, &reward, allowed.clone()), seed);
            assert!(
                allowed.texts().contains(&found.tokens),
                "{}: {:?} is not allowed",
                method.name(),
                found.tokens
            );
            for particle in &found.finals {
                assert!(allowed.texts().contains(&particle.tokens), "{}", method.name());
            }
        }
    }
}

/// A constraint that allows what its bans allow, position by position, by way of legal sets.
struct Positionwise(Bans);

impl Constraint for Positionwise {
    fn bans(&self) -> &Bans {
        &self.0
    }

    fn open(&self, state: &MaskedSeq) -> Result<Option<Box<dyn Legal>>> {
        Ok(Some(Box::new(Free { bans: self.0.clone(), state: state.clone() })))
    }
}

/// Masks that do not see each other.
struct Free {
    bans: Bans,
    state: MaskedSeq,
}

impl Legal for Free {
    fn allowed(&self, position: usize, size: usize, out: &mut TokenSet) {
        out.assign(std::iter::repeat_n(true, size));
        self.bans.at(position).into_iter().for_each(|token| out.remove(token));
    }

    fn place(&mut self, position: usize, token: TokenId) -> Result<()> {
        self.state.reveal_in_place(position, token);
        Ok(())
    }

    fn fills(&self, rows: &[&[f32]]) -> Result<Arc<dyn Fills>> {
        let best = |row: &&[f32]| {
            let better = |best: (TokenId, f32), (token, &score): (usize, &f32)| {
                if score > best.1 { (token as TokenId, score) } else { best }
            };
            row.iter().enumerate().fold((0, f32::NEG_INFINITY), better).0
        };
        let whole = self.state.complete_with(rows.iter().map(best));
        Ok(Arc::new(Independent { whole }))
    }

    fn again(&self) -> Box<dyn Legal> {
        Box::new(Self { bans: self.bans.clone(), state: self.state.clone() })
    }
}

/// The likeliest token at every mask, whatever stands elsewhere.
struct Independent {
    whole: Vec<TokenId>,
}

impl Fills for Independent {
    fn with(&self, placed: &[(usize, TokenId)]) -> Option<Vec<TokenId>> {
        let mut whole = self.whole.clone();
        placed.iter().for_each(|&(position, token)| whole[position] = token);
        Some(whole)
    }
}

#[test]
fn bans_by_way_of_legal_sets_give_what_the_short_way_gives() {
    let (table, reward) = parts();
    let bans = Bans::none().everywhere(1).before(2, 2);
    for method in methods().iter().filter(|method| !needs_a_text(method)) {
        for seed in 0..10 {
            let short = run(method.search(), &within(&table, &reward, bans.clone()), seed);
            let long = within(&table, &reward, Positionwise(bans.clone()));
            let long = run(method.search(), &long, seed);
            assert_eq!((&short.tokens, short.reward), (&long.tokens, long.reward), "{method:?}");
            assert_eq!(short.cost, long.cost, "{method:?}");
        }
    }
}

#[test]
fn a_state_without_a_completion_is_an_error_before_any_work() {
    let (table, reward) = parts();
    let start = MaskedSeq::from_slots([Some(2), None, None, Some(0)]);
    let error = Problem::new(start, &EXACT, &table, &reward, rising(), Limits::default());
    assert!(error.unwrap_err().to_string().starts_with("constraint: expected"));
    assert_eq!(table.encoded(), 0);
    let given = within(&table, &reward, rising()).with_given(&[2, 0, 0, 0]);
    assert!(given.unwrap_err().to_string().starts_with("constraint: expected"));
}

/// The law of restricted draws in random order, by recursion over orders and tokens.
fn restricted_law(table: &JointTable, allowed: &Listed) -> Vec<f64> {
    fn go(table: &JointTable, allowed: &Listed, seq: &MaskedSeq, p: f64, law: &mut [f64]) {
        if let Some(tokens) = seq.complete() {
            law[exact::index(VOCAB, tokens)] += p;
            return;
        }
        let legal = allowed.open(seq).unwrap().unwrap();
        let rows = table.conditionals(seq);
        let share = p / seq.n_masked() as f64;
        for (row, position) in rows.iter().zip(seq.masked()) {
            let mut set = TokenSet::default();
            legal.allowed(position, VOCAB, &mut set);
            let mass: f64 = set.iter().map(|token| row[token as usize]).sum();
            for token in set.iter() {
                let next = share * row[token as usize] / mass;
                go(table, allowed, &seq.reveal(position, token), next, law);
            }
        }
    }
    let mut law = vec![0.0; table.probs().len()];
    go(table, allowed, &MaskedSeq::empty(LEN), 1.0, &mut law);
    law
}

/// p restricted to the allowed sequences, with weights exp(λ r).
fn conditional(
    table: &JointTable,
    reward: &TableReward,
    allowed: &Listed,
    lambda: f64,
) -> Vec<f64> {
    let weight = |tokens: &Vec<TokenId>| match allowed.texts().contains(tokens) {
        true => table.prob(tokens) * (lambda * reward.of(tokens)).exp(),
        false => 0.0,
    };
    let weights: Vec<f64> = exact::sequences(VOCAB, LEN).map(|tokens| weight(&tokens)).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}

fn drawn(method: &dyn Search, allowed: &Listed, draws: u64) -> Vec<f64> {
    let (table, reward) = parts();
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    for seed in 0..draws {
        let problem = within(&table, &reward, allowed.clone()).with_answer(AnswerKind::Draw);
        let found = method.run(&problem, Key::new(11).fold(seed), &mut Silent).unwrap();
        *counts.entry(exact::index(VOCAB, &found.tokens)).or_default() += 1;
    }
    let share = |cell| counts.get(&cell).map_or(0.0, |&count| count as f64 / draws as f64);
    (0..VOCAB.pow(LEN as u32)).map(share).collect()
}

#[test]
fn first_hitting_draws_from_the_locally_restricted_law() {
    let (table, reward) = parts();
    let allowed = rising();
    let law = restricted_law(&table, &allowed);
    let truth = conditional(&table, &reward, &allowed, 0.0);
    let share = drawn(&Fhs {}, &allowed, 6000);
    // 6,000 draws over 15 cells scatter by about 0.02; the conditional is farther away than that.
    let (near, far) = (exact::total_variation(&share, &law), exact::total_variation(&law, &truth));
    assert!(near < 0.03 && far > 0.06, "{near}, {far}");
}

#[test]
fn fully_adapted_particles_draw_from_the_exact_conditional() {
    let (table, reward) = parts();
    for (allowed, lambda) in [
        (rising(), 1e-9),
        (rising(), 2.0),
        (rising().looking_ahead(), 1e-9),
        (rising().looking_ahead(), 2.0),
    ] {
        let truth = conditional(&table, &reward, &allowed, lambda);
        let smc = Smc { particles: 40, beam_width: 2.into(), lambda, ..Smc::default() };
        let distance = exact::total_variation(&drawn(&smc, &allowed, 3000), &truth);
        // 3,000 draws over 15 cells scatter by about 0.03.
        assert!(distance < 0.045, "λ = {lambda}: {distance}");
    }
}
