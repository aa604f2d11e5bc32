//! Chains that mask again: refinement from a finished text, and renoising by Multiple-Try Metropolis.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use treasure_core::{
    AnswerKind, Bans, Denoiser, Event, Key, Limits, MaskedSeq, Method, NodeEvent, Problem, Result,
    StopReason, TokenId,
    methods::{Accept, BestOfN, Fhs, IterRef, Pick, Refine, Search, Treasure},
};
use treasure_testkit::{JointTable, TableReward, exact};

use crate::common::{EXACT, Watched, placed, problem, run, target_of};

const LAMBDA: f64 = 2.0;

fn parts() -> (JointTable, TableReward) {
    (JointTable::random(3, 3, Key::new(1)), TableReward::random(3, 3, Key::new(2)))
}

/// Every node of a run with its state.
fn nodes(method: &dyn Search, problem: &Problem<'_>, seed: u64) -> Vec<(NodeEvent, MaskedSeq)> {
    let mut states: BTreeMap<u64, MaskedSeq> = BTreeMap::new();
    let mut all = Vec::new();
    let mut observer = |event: &Event| {
        if let Event::Node(node) = event {
            let state = match node.parent {
                Some(parent) => placed(&states[&parent], node),
                None => (**problem.start()).clone(),
            };
            assert_eq!(state.n_masked(), node.masks_left);
            states.insert(node.id, state.clone());
            all.push((node.clone(), state));
        }
        ControlFlow::Continue(())
    };
    method.run(problem, Key::new(71).fold(seed), &mut observer).unwrap();
    all
}

/// Sums of deviations of weighted hits from what they should be, cell by cell.
struct Cells {
    expected: Vec<f64>,
    sums: Vec<(f64, f64)>,
    runs: f64,
}

impl Cells {
    fn new(expected: Vec<f64>) -> Self {
        let sums = vec![(0.0, 0.0); expected.len()];
        Self { expected, sums, runs: 0.0 }
    }

    fn hit(&mut self, cell: usize, weight: f64) {
        self.runs += 1.0;
        for (x, ((sum, squares), expected)) in self.sums.iter_mut().zip(&self.expected).enumerate()
        {
            let off = if x == cell { weight } else { 0.0 } - expected;
            *sum += off;
            *squares += off * off;
        }
    }

    /// The largest deviation in standard errors, over cells that occur often enough.
    fn worst(&self) -> f64 {
        let total: f64 = self.expected.iter().sum();
        let often = |expected: f64| expected / total * self.runs > 30.0;
        (self.sums.iter().zip(&self.expected))
            .filter(|(_, expected)| often(**expected))
            .map(|((sum, squares), _)| sum.abs() / squares.sqrt())
            .fold(0.0, f64::max)
    }
}

/// Whether a chain whose first complete text is a draw of the model, weighed by exp(λ r) of that text,
/// still has the law of the target after its rounds: E[exp(λ r₀)·1(x)] = Z·π(x) for an invariant kernel.
fn invariance(method: &dyn Search, runs: u64) -> f64 {
    let (table, reward) = parts();
    let target = target_of(&table, &reward, LAMBDA);
    let z = target.log_normalizer.exp();
    let mut cells = Cells::new(target.probs.iter().map(|p| z * p).collect());
    let problem = problem(3, &table, &reward);
    for seed in 0..runs {
        let all = nodes(method, &problem, seed);
        let complete: Vec<_> = all.iter().filter(|(node, _)| node.masks_left == 0).collect();
        let (first, last) = (complete[0], complete.iter().rfind(|(node, _)| node.kept).unwrap());
        let weight = (LAMBDA * first.0.value.unwrap()).exp();
        cells.hit(exact::index(3, last.1.complete().unwrap()), weight);
    }
    cells.worst()
}

fn metropolis(rounds: usize, share: f64) -> Refine {
    Refine {
        rounds,
        share_from: share,
        share_to: share,
        accept: Accept::Metropolis,
        lambda: LAMBDA,
        ..Refine::default()
    }
}

fn iterref(tries: usize, final_rounds: usize, share: f64) -> IterRef {
    IterRef { tries, rounds: 1, refine_every: 0, final_rounds, share, lambda: LAMBDA }
}

#[test]
fn metropolis_refinement_leaves_the_target_as_it_is() {
    for (rounds, share, runs) in [(1, 0.34, 9_000), (3, 0.67, 6_000), (2, 1.0, 6_000)] {
        let worst = invariance(&metropolis(rounds, share), runs);
        assert!(worst < 4.5, "{rounds} rounds of {share}: {worst} standard errors");
    }
}

#[test]
fn multiple_tries_leave_the_target_as_it_is() {
    for (tries, rounds, share, runs) in
        [(1, 2, 0.67, 8_000), (2, 1, 0.34, 9_000), (3, 2, 0.67, 6_000), (5, 1, 1.0, 6_000)]
    {
        let worst = invariance(&iterref(tries, rounds, share), runs);
        assert!(worst < 4.5, "{tries} tries, {rounds} rounds of {share}: {worst} standard errors");
    }
}

/// The distance of drawn answers from the target, of `draws` runs.
fn distance(method: &dyn Search, draws: u64) -> f64 {
    let (table, reward) = parts();
    let target = target_of(&table, &reward, LAMBDA);
    let problem = problem(3, &table, &reward).with_answer(AnswerKind::Draw);
    let mut share = vec![0.0; 27];
    for seed in 0..draws {
        let found = run(method, &problem, seed);
        assert_eq!(found.reward, Some(reward.of(&found.tokens)));
        share[exact::index(3, &found.tokens)] += 1.0 / draws as f64;
    }
    exact::total_variation(&share, &target.probs)
}

#[test]
fn drawn_answers_of_both_chains_converge_to_the_target() {
    // 3,000 draws over 27 cells scatter by about 0.035.
    let (few, many) = (distance(&metropolis(1, 0.67), 3000), distance(&metropolis(12, 0.67), 3000));
    assert!(many < 0.05 && many < few, "Metropolis: {few} → {many}");
    let (none, many) = (distance(&iterref(3, 0, 0.67), 3000), distance(&iterref(3, 6, 0.67), 3000));
    assert!(many < 0.05 && many < none, "Multiple tries: {none} → {many}");
    let on_the_way = IterRef { refine_every: 1, rounds: 2, ..iterref(3, 6, 0.67) };
    let both = distance(&on_the_way, 3000);
    assert!(both < 0.05, "refined on the way as well: {both}");
}

#[test]
fn a_round_on_the_way_leaves_its_own_target_as_it_is() {
    // p(z)·exp(λ r̂(z)) over states with one mask, r̂ by the likeliest completion.
    let table = JointTable::random(2, 3, Key::new(5));
    let reward = TableReward::random(2, 3, Key::new(6));
    let mut states: BTreeMap<MaskedSeq, usize> = BTreeMap::new();
    let mut expected = Vec::new();
    let fill = |z: &MaskedSeq| -> f64 {
        let row = &table.conditionals(z)[0];
        reward.of(&z.complete_with([TokenId::from(row[1] > row[0])]))
    };
    for hole in 0..3 {
        for pair in exact::sequences(2, 2) {
            let mut given = pair.iter();
            let z = MaskedSeq::from_slots(
                (0..3).map(|at| (at != hole).then(|| *given.next().unwrap())),
            );
            let p: f64 = exact::sequences(2, 3)
                .filter(|x| z.slots().zip(x).all(|(slot, token)| slot.is_none_or(|t| t == *token)))
                .map(|x| table.prob(&x))
                .sum();
            expected.push(p / 3.0 * (LAMBDA * fill(&z)).exp());
            states.insert(z, expected.len() - 1);
        }
    }
    for (tries, share) in [(1, 0.5), (3, 0.5), (2, 1.0)] {
        let method =
            IterRef { tries, rounds: 1, refine_every: 2, final_rounds: 0, share, lambda: LAMBDA };
        let mut cells = Cells::new(expected.clone());
        let problem = problem(3, &table, &reward);
        for seed in 0..8_000 {
            let all = nodes(&method, &problem, seed);
            let one: Vec<_> =
                all.iter().filter(|(node, _)| node.masks_left == 1 && node.kept).collect();
            let (before, after) = (&one[0].1, &one[one.len() - 1].1);
            cells.hit(states[after], (LAMBDA * fill(before)).exp());
            for (node, state) in all.iter().filter(|(node, _)| node.masks_left == 1) {
                if let Some(value) = node.value {
                    assert_eq!(value, fill(state), "valued by its own prediction");
                }
            }
        }
        let worst = cells.worst();
        assert!(worst < 4.5, "{tries} tries, share {share}: {worst} standard errors");
    }
}

#[test]
fn every_set_of_positions_is_masked_again_with_equal_chance() {
    // Uniform tokens and no reward: a masked position changes in three of four cases.
    let table = JointTable::new(4, 4, &[1.0; 256]);
    let flat = TableReward::new(4, vec![0.0; 256]);
    let problem = problem(4, &table, &flat);
    let methods: [&dyn Search; 2] = [&metropolis(1, 0.5), &iterref(1, 1, 0.5)];
    for method in methods {
        let mut pairs: BTreeMap<Vec<usize>, f64> = BTreeMap::new();
        for seed in 0..4000 {
            let all = nodes(method, &problem, seed);
            let last = &all[all.len() - 1].0;
            assert!(last.kept, "what is as good is accepted");
            assert!(last.remasked.len() <= 2, "half of four");
            if last.remasked.len() == 2 {
                *pairs.entry(last.remasked.clone()).or_default() += 1.0;
            }
        }
        // 4,000 · 9/16 over six pairs: 375 each, give or take 19.
        assert_eq!(pairs.len(), 6);
        for (pair, count) in pairs {
            assert!((count - 375.0).abs() < 85.0, "{}: {pair:?} {count} times", method.name());
        }
    }
}

#[test]
fn without_rounds_a_chain_is_the_sampler() {
    let (table, reward) = parts();
    for seed in 0..20 {
        let plain = run(&Fhs {}, &problem(3, &table, &reward), seed);
        let chain = run(&iterref(3, 0, 0.5), &problem(3, &table, &reward), seed);
        assert_eq!((chain.tokens, chain.reward), (plain.tokens.clone(), plain.reward));
        assert_eq!(chain.cost, plain.cost);
        let refined = Refine { rounds: 0, ..metropolis(0, 0.5) };
        let refined = run(&refined, &problem(3, &table, &reward), seed);
        assert_eq!((refined.tokens, refined.cost), (plain.tokens, plain.cost));
    }
}

#[test]
fn a_round_costs_its_tries_and_their_events() {
    let table = JointTable::random(3, 6, Key::new(1)).timed();
    let reward = TableReward::random(3, 6, Key::new(2));
    // Two rounds at the end mask a third again: 2 tries of 2 events each, whose first pass is shared
    // only where their times agree.
    let method = IterRef { tries: 2, final_rounds: 2, share: 0.33, ..iterref(2, 2, 0.33) };
    let found = run(&method, &problem(6, &table, &reward), 3);
    assert_eq!(found.cost.nfe_requests(), 6 + 2 * 2 * 2);
    assert_eq!(found.cost.reward_requests(), 1 + 2 * 2);
    assert_eq!((method.nominal_cost(6).nfe, method.nominal_cost(6).reward_calls), (14, 5));
    // On the way, after three of six events: a pass to value the state, and one for every try.
    let way = IterRef { refine_every: 3, final_rounds: 0, ..method };
    let found = run(&way, &problem(6, &table, &reward), 3);
    assert_eq!(found.cost.reward_requests(), 1 + 2 + 1);
    assert_eq!(way.nominal_cost(6).nfe, 6 + 2 * 2);
    assert_eq!((found.steps, found.finals.len()), (7, 1));
}

/// A problem that begins from a finished text, of which what is not kept are the masks of its start state.
fn refining<'a>(
    tokens: &[TokenId],
    keep: &[bool],
    denoiser: &'a dyn Denoiser,
    reward: &'a TableReward,
    limits: Limits<'a>,
) -> Result<Problem<'a>> {
    let slots = tokens.iter().zip(keep).map(|(&token, &keep)| keep.then_some(token));
    let start = MaskedSeq::template(slots)?;
    Problem::new(start, &EXACT, denoiser, reward, Bans::none(), limits)?.with_given(tokens)
}

/// The same where the text fits.
fn given<'a>(
    tokens: &[TokenId],
    keep: &[bool],
    denoiser: &'a dyn Denoiser,
    reward: &'a TableReward,
    limits: Limits<'a>,
) -> Problem<'a> {
    refining(tokens, keep, denoiser, reward, limits).unwrap()
}

#[test]
fn a_text_drawn_from_the_target_stays_a_draw_of_it_under_metropolis() {
    let (table, reward) = parts();
    let target = target_of(&table, &reward, LAMBDA);
    let texts: Vec<Vec<TokenId>> = exact::sequences(3, 3).collect();
    for (rounds, share) in [(1, 0.34), (3, 0.67), (2, 1.0)] {
        let (mut counts, mut moved) = (vec![0u64; 27], 0);
        for seed in 0..8_000 {
            let mut left = Key::new(91).fold(seed).uniform();
            let first = target.probs.iter().position(|p| {
                left -= p;
                left < 0.0
            });
            let tokens = &texts[first.unwrap_or(26)];
            let problem = given(tokens, &[false; 3], &table, &reward, Limits::default())
                .with_answer(AnswerKind::Draw);
            let found = run(&metropolis(rounds, share), &problem, seed);
            assert_eq!(found.reward_before, Some(reward.of(tokens)));
            moved += u64::from(found.tokens != *tokens);
            counts[exact::index(3, &found.tokens)] += 1;
        }
        let z = exact::chi_square_z(&counts, &target.probs);
        assert!(z.abs() < 4.0, "{rounds} rounds of {share}: χ² is {z} standard deviations off");
        assert!(moved > 2_000, "{rounds} rounds of {share}: only {moved} moved");
        // What was drawn is not the model's law, so a chain that ignored the reward would be seen.
        assert!(exact::chi_square_z(&counts, table.probs()) > 8.0);
    }
}

#[test]
fn the_reward_of_a_given_text_is_told_even_if_the_search_is_stopped() {
    let (table, reward) = parts();
    let tokens = [0, 1, 2];
    let before = |limits: Limits<'_>| {
        let problem = given(&tokens, &[false; 3], &table, &reward, limits);
        run(&Refine::default(), &problem, 1).reward_before
    };
    let known = Some(reward.of(&tokens));
    assert_eq!(before(Limits::default()), known);
    assert_eq!(before(Limits { max_nfe: Some(0), ..Limits::default() }), known);
    assert_eq!(before(Limits { target_reward: known, ..Limits::default() }), known);
    assert_eq!(before(Limits { max_reward_calls: Some(0), ..Limits::default() }), None);
}

#[test]
fn a_greedy_refinement_never_ends_below_what_it_was_given_and_keeps_what_it_must() {
    let table = JointTable::random(3, 5, Key::new(11));
    let reward = TableReward::random(3, 5, Key::new(12));
    let keep = [true, false, false, true, false];
    let (mut better, mut same) = (0, 0);
    for seed in 0..60 {
        let key = Key::new(seed).fold(5);
        let tokens: Vec<TokenId> = (0..5).map(|at| key.fold(at).below(3) as TokenId).collect();
        for pick in [Pick::Uniform, Pick::Worst] {
            let method = Refine { rounds: 3, pick, ..Refine::default() };
            let problem = given(&tokens, &keep, &table, &reward, Limits::default());
            let found = run(&method, &problem, seed);
            assert!(found.reward.unwrap() >= reward.of(&tokens));
            assert_eq!(found.reward, Some(reward.of(&found.tokens)));
            assert_eq!((found.tokens[0], found.tokens[3]), (tokens[0], tokens[3]));
            match found.reward.unwrap() > reward.of(&tokens) {
                true => better += 1,
                false => {
                    assert_eq!(found.tokens, tokens, "nothing better: the given tokens come back");
                    same += 1;
                }
            }
            // The trace: the start, the given text below it, and a node a round.
            let all = nodes(&method, &problem, seed);
            assert_eq!(all.len(), 2 + 3);
            assert_eq!(all[1].1.complete(), Some(tokens.as_slice()));
            for (node, _) in &all[2..] {
                assert!(node.remasked.iter().all(|at| !keep[*at]));
            }
        }
    }
    assert!(better > 60 && same > 0, "{better} better, {same} as they were");
}

#[test]
fn the_method_inside_is_told_by_name_or_with_some_of_its_options() {
    let read = |inner: serde_json::Value| {
        let options = serde_json::Map::from_iter([("inner".to_owned(), inner)]);
        Method::from_options("refine", &serde_json::Map::new(), &options)
    };
    let inside = |inner| match read(inner).unwrap() {
        Method::Refine(refine) => refine.inner.unwrap(),
        other => panic!("{other:?}"),
    };
    let two = Method::from(BestOfN { particles: 2, ..BestOfN::default() });
    assert_eq!(inside(serde_json::json!({"method": "bon", "particles": 2})), two.clone().into());
    assert_eq!(inside(serde_json::to_value(&two).unwrap()), two.into(), "a plan reads back");
    assert_eq!(inside(serde_json::json!("fhs")), Method::from(Fhs {}).into());
    for (wrong, message) in [
        (serde_json::json!({"method": "bon", "beam_width": 2}), "bon has no use for it"),
        (serde_json::json!({"method": "bon", "particles": 0}), "at least 1"),
        (serde_json::json!({"particles": 2}), "expected one of treasure"),
        (serde_json::json!("magic"), "expected one of treasure"),
        (serde_json::json!(3), "expected one of treasure"),
    ] {
        let error = read(wrong.clone()).unwrap_err().to_string();
        assert!(error.contains(message), "{wrong}: {error}");
    }
}

#[test]
fn a_taste_inside_never_makes_a_refinement_end_below_what_it_was_given() {
    let table = JointTable::random(3, 5, Key::new(11));
    let reward = TableReward::random(3, 5, Key::new(12));
    let inner = Method::from(Treasure { prior: 2.0, variety: 2.0, ..Treasure::new(3, 2) });
    let method = Refine { inner: Some(inner.into()), ..Refine::default() };
    let mut otherwise = 0;
    for seed in 0..60 {
        let key = Key::new(seed).fold(5);
        let tokens: Vec<TokenId> = (0..5).map(|at| key.fold(at).below(3) as TokenId).collect();
        let problem = given(&tokens, &[false; 5], &table, &reward, Limits::default());
        let found = run(&method, &problem.with_answer(AnswerKind::BestSeen), seed);
        assert!(found.reward.unwrap() >= reward.of(&tokens));
        assert_eq!(found.reward, Some(reward.of(&found.tokens)));
        otherwise += u64::from(found.best_seen.is_some_and(|best| best.tokens != found.tokens));
    }
    assert!(otherwise > 0, "a taste that sees another best text");
}

#[test]
fn a_text_that_cannot_be_improved_comes_back_whatever_its_ties() {
    let table = JointTable::random(3, 4, Key::new(1));
    let flat = TableReward::new(3, vec![0.5; 81]);
    let tokens = [2, 0, 1, 1];
    let mut others = 0;
    for pick in [Pick::Uniform, Pick::Worst] {
        let method = Refine { pick, ..Refine::default() };
        let problem = given(&tokens, &[false; 4], &table, &flat, Limits::default());
        let found = run(&method, &problem, 3);
        assert_eq!(found.tokens, tokens);
        assert_eq!(found.finals[0].tokens, tokens, "nor did it go on with another");
        for (node, state) in &nodes(&method, &problem, 3)[2..] {
            assert!(!node.kept, "what is as good is not better");
            others += usize::from(state.complete() != Some(tokens.as_slice()));
        }
    }
    assert!(others > 0, "another text was offered");
}

#[test]
fn a_refinement_that_is_stopped_hands_back_the_best_it_has() {
    let table = JointTable::random(3, 5, Key::new(11));
    let reward = TableReward::random(3, 5, Key::new(12));
    let tokens = [0, 1, 2, 1, 0];
    let inner = Method::from(Treasure { prior: 0.5, variety: 0.5, ..Treasure::new(3, 2) });
    for inner in [None, Some(inner.into())] {
        let method = Refine { inner, ..Refine::default() };
        for limit in 0..40 {
            for (max_nfe, max_reward_calls) in [(Some(limit), None), (None, Some(limit))] {
                let limits = Limits { max_nfe, max_reward_calls, ..Limits::default() };
                let problem = given(&tokens, &[false; 5], &table, &reward, limits);
                let found = run(&method, &problem, 2);
                assert!(found.cost.nfe <= max_nfe.unwrap_or(u64::MAX));
                assert!(found.cost.reward_calls <= max_reward_calls.unwrap_or(u64::MAX));
                match found.reward {
                    Some(value) => {
                        assert_eq!(value, reward.of(&found.tokens));
                        assert!(value >= reward.of(&tokens));
                    }
                    None => {
                        assert_eq!((limit, max_nfe), (0, None), "nothing could be scored");
                        assert_eq!(found.tokens, tokens);
                    }
                }
            }
        }
        let limits = Limits { target_reward: Some(reward.of(&tokens)), ..Limits::default() };
        let found = run(&method, &given(&tokens, &[false; 5], &table, &reward, limits), 2);
        assert_eq!((found.stopped, found.cost.nfe), (Some(StopReason::Target), 0));
        assert_eq!(found.tokens, tokens);
    }
}

#[test]
fn without_a_text_a_refinement_writes_one_first() {
    let table = JointTable::random(3, 5, Key::new(11));
    let reward = TableReward::random(3, 5, Key::new(12));
    for seed in 0..20 {
        let bon = BestOfN { particles: 2, sampler: treasure_core::Sampler::FirstHitting };
        let method = Refine {
            rounds: 2,
            inner: Some(Method::from(bon.clone()).into()),
            ..Refine::default()
        };
        let first = run(&bon, &problem(5, &table, &reward), seed);
        let found = run(&method, &problem(5, &table, &reward), seed);
        assert!(found.reward >= first.reward);
        assert_eq!(found.steps, 3);
        let all = nodes(&method, &problem(5, &table, &reward), seed);
        assert_eq!(all[1].0.parent, Some(0));
    }
}

#[test]
fn a_greedy_refinement_takes_the_best_text_that_its_search_has_seen() {
    let table = JointTable::random(3, 5, Key::new(11));
    let reward = TableReward::random(3, 5, Key::new(12));
    let mut thrown_away = 0;
    for seed in 0..40 {
        let inner = Method::from(Treasure::new(2, 1));
        let alone = run(inner.search(), &problem(5, &table, &reward), seed);
        let method = Refine { rounds: 0, inner: Some(inner.into()), ..Refine::default() };
        let found = run(&method, &problem(5, &table, &reward), seed);
        let best = alone.best_seen.unwrap();
        assert_eq!(found.reward, Some(best.reward));
        assert_eq!(found.tokens, best.tokens);
        thrown_away += usize::from(alone.reward < Some(best.reward));
    }
    assert!(thrown_away > 5, "the search alone ended below it {thrown_away} times");
}

#[test]
fn the_share_that_is_masked_again_falls_and_the_worst_are_those_that_would_gain_most() {
    let table = JointTable::random(3, 8, Key::new(21));
    let reward = TableReward::random(3, 8, Key::new(22));
    // The states a run asks for, of which every round begins with all it has masked again. A model that
    // looks at the time is asked for each of them.
    let asked = |pick: Pick, tokens: &[TokenId], seed: u64| -> Vec<MaskedSeq> {
        let inner = Some(Method::from(Fhs {}).into());
        let method = Refine { rounds: 3, pick, inner, ..Refine::default() };
        let watched = Watched::new(JointTable::random(3, 8, Key::new(21)).timed());
        run(&method, &given(tokens, &[false; 8], &watched, &reward, Limits::default()), seed);
        watched.asked().into_iter().map(|(state, _)| state).collect()
    };
    let mut anywhere = BTreeSet::new();
    for seed in 0..20 {
        let states = asked(Pick::Uniform, &[0, 1, 2, 1, 0, 2, 2, 1], seed);
        // 4, 2.4 → 2 and 0.8 → 1 of eight positions.
        let masks: Vec<usize> = states.iter().map(MaskedSeq::n_masked).collect();
        assert_eq!(masks, [4, 3, 2, 1, 2, 1, 1]);
        anywhere.extend(states[0].masked());
    }
    assert_eq!(anywhere.len(), 8);
    // Leave one out by hand, on a text of which no tie decides.
    let gains = |text: &[TokenId]| -> Vec<(usize, f64)> {
        let whole = MaskedSeq::from_slots(text.iter().copied().map(Some));
        let gain = |at: usize| {
            let hole = whole.remask([at]);
            let row = &table.conditionals(&hole)[0];
            let best = (0..3).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a))).unwrap();
            (at, reward.of(&hole.complete_with([best as TokenId])))
        };
        let mut gains: Vec<_> = (0..8).map(gain).collect();
        gains.sort_by(|a, b| b.1.total_cmp(&a.1));
        gains
    };
    let apart = |text: &Vec<TokenId>| gains(text)[3].1 > gains(text)[4].1;
    let tokens = exact::sequences(3, 8).find(apart).unwrap();
    let worst: BTreeSet<usize> = gains(&tokens)[..4].iter().map(|gain| gain.0).collect();
    let states = asked(Pick::Worst, &tokens, 4);
    assert!(states[..8].iter().all(|state| state.n_masked() == 1), "one left out at a time");
    assert_eq!(states[8].masked().collect::<BTreeSet<_>>(), worst);
    let method = Refine { pick: Pick::Worst, rounds: 1, ..Refine::default() };
    assert!(
        method.nominal_cost(8).nfe > Refine { rounds: 1, ..Refine::default() }.nominal_cost(8).nfe
    );
}

#[test]
fn metropolis_refuses_what_would_break_its_law() {
    let refused = |method: Refine| method.check().unwrap_err().to_string();
    assert_eq!(
        refused(Refine { pick: Pick::Worst, ..metropolis(1, 0.5) }),
        "pick: expected uniform with metropolis, got worst"
    );
    let inner = Some(Method::from(Treasure::default()).into());
    assert_eq!(
        refused(Refine { inner, ..metropolis(1, 0.5) }),
        "inner: expected fhs with metropolis, got treasure"
    );
    let inner = Some(Method::from(Refine::default()).into());
    assert_eq!(
        refused(Refine { inner, ..Refine::default() }),
        "inner: expected a method that starts from masks, got refine"
    );
    assert!(refused(Refine { share_to: 0.0, ..Refine::default() }).starts_with("share to: "));
    assert!(!Refine::default().is_sampler() && metropolis(1, 0.5).is_sampler());
}

#[test]
fn a_given_text_must_fit_its_problem() {
    let (table, reward) = parts();
    let say = |tokens: &[TokenId], keep: &[bool]| {
        refining(tokens, keep, &table, &reward, Limits::default()).unwrap_err().to_string()
    };
    assert!(say(&[0, 1, 2], &[true; 3]).contains("at least one mask"));
    assert!(say(&[0, 1, 9], &[false; 3]).contains("token ids below 4, got 9"));
    let start = MaskedSeq::from_slots([Some(1), None, None]);
    let problem = Problem::new(start, &EXACT, &table, &reward, Bans::none(), Limits::default());
    let error = problem.unwrap().with_given(&[0, 0, 0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "given text: expected the token of the start state at position 0, got 0"
    );
}

#[test]
fn the_inner_method_is_a_name_or_a_whole_method() {
    let named: Refine = serde_json::from_value(serde_json::json!({"inner": "smc"})).unwrap();
    assert_eq!(serde_json::to_value(&named).unwrap()["inner"], "smc");
    let json = serde_json::json!({"inner": {"method": "treasure", "tree_width": 3}});
    let whole: Refine = serde_json::from_value(json).unwrap();
    let json = serde_json::to_value(&whole).unwrap();
    assert_eq!(json["inner"]["tree_width"], 3);
    assert_eq!(serde_json::from_value::<Refine>(json).unwrap(), whole);
    let wrong = serde_json::from_value::<Refine>(serde_json::json!({"inner": "nonsense"}));
    assert!(wrong.unwrap_err().to_string().contains("expected one of treasure"));
}
