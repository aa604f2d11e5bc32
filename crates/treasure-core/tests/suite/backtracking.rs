//! Depth-first search with backtracking: the law of its path, what it refuses, what it costs.

use std::{collections::BTreeMap, ops::ControlFlow};

use treasure_core::{
    Bans, Event, Key, Limits, MaskedSeq, Method, NodeEvent, Problem, Sampler, Schedule, TokenId,
    methods::{BestOfN, Dfs, Refine, Search},
};
use treasure_testkit::{JointTable, TableReward, exact};

use crate::common::{EXACT, placed, problem, run};

/// A search with looks every so many events.
fn dfs(particles: usize, quantile: f64, look_every: usize, share: f64, backtracks: usize) -> Dfs {
    Dfs { particles, quantile, look_every, share, backtracks }
}

/// Every node of a run but the start states, in order.
fn told(method: &Dfs, problem: &Problem<'_>, seed: u64) -> Vec<NodeEvent> {
    let mut all = Vec::new();
    let mut observer = |event: &Event| {
        if let Event::Node(node) = event {
            all.push(node.clone());
        }
        ControlFlow::Continue(())
    };
    method.run(problem, Key::new(seed), &mut observer).unwrap();
    all.retain(|node| node.parent.is_some());
    all
}

/// A joint table with a reward, where everything about a search can be enumerated.
struct World {
    vocab: usize,
    len: usize,
    table: JointTable,
    reward: TableReward,
}

type States = BTreeMap<MaskedSeq, f64>;

impl World {
    fn new(vocab: usize, len: usize) -> Self {
        let table = JointTable::random(vocab, len, Key::new(31));
        Self { vocab, len, table, reward: TableReward::random(vocab, len, Key::new(32)) }
    }

    /// What a state is worth: its reward, or that of the likeliest completion of its own prediction.
    fn worth(&self, z: &MaskedSeq) -> f64 {
        let rows = if z.n_masked() > 0 { self.table.conditionals(z) } else { Vec::new() };
        let likeliest = |row: &Vec<f64>| {
            let better = |best: usize, token| if row[token] > row[best] { token } else { best };
            (0..self.vocab).reduce(better).unwrap() as TokenId
        };
        self.reward.of(&z.complete_with(rows.iter().map(likeliest)))
    }

    /// The states one event later, with their chances.
    fn event(&self, z: &MaskedSeq) -> Vec<(MaskedSeq, f64)> {
        let rows = self.table.conditionals(z);
        let at = z.masked().zip(&rows);
        at.flat_map(|(at, row)| {
            (0..self.vocab).map(move |token| {
                (z.reveal(at, token as TokenId), row[token] / z.n_masked() as f64)
            })
        })
        .collect()
    }

    /// The states after going back, with their chances.
    fn back(&self, z: &MaskedSeq, share: f64) -> Vec<(MaskedSeq, f64)> {
        let generated: Vec<usize> = (0..self.len).filter(|&at| z.get(at).is_some()).collect();
        let count = generated.len();
        (1..1usize << count)
            .map(|set| {
                let again = generated.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
                let masked = set.count_ones() as i32;
                let mut chance = share.powi(masked) * (1.0 - share).powi(count as i32 - masked);
                if masked == 1 {
                    chance += (1.0 - share).powi(count as i32) / count as f64;
                }
                (z.remask(again.map(|(_, &at)| at)), chance)
            })
            .collect()
    }

    /// What an unguided path is worth at every number of masks, with the chance of the path.
    fn paths(&self) -> Vec<(Vec<f64>, f64)> {
        let mut all = Vec::new();
        let mut open = vec![(MaskedSeq::empty(self.len), vec![0.0; self.len], 1.0)];
        while let Some((z, worths, p)) = open.pop() {
            if z.n_masked() == 0 {
                all.push((worths, p));
                continue;
            }
            for (child, chance) in self.event(&z) {
                let mut worths = worths.clone();
                worths[child.n_masked()] = self.worth(&child);
                open.push((child, worths, p * chance));
            }
        }
        all
    }

    /// The law of the text that the path ends in and of the number of its backtracks, given what the
    /// unguided paths were worth at every number of masks.
    fn given(
        &self,
        method: &Dfs,
        unguided: &[&Vec<f64>],
        p: f64,
        texts: &mut [f64],
        backs: &mut [f64],
    ) {
        let all = (method.quantile * unguided.len() as f64).ceil() as usize;
        let looks =
            |masks: usize| masks == 0 || (self.len - masks).is_multiple_of(method.look_every);
        let least = |masks: usize, rank: usize| {
            let mut there: Vec<f64> = unguided.iter().map(|worths| worths[masks]).collect();
            there.sort_by(f64::total_cmp);
            rank.checked_sub(1).map(|rank| there[rank])
        };
        let mut from = States::from([(MaskedSeq::empty(self.len), p)]);
        for (back, ended) in backs.iter_mut().enumerate() {
            let rank = all - back / method.backtracks.max(1);
            let mut next = States::new();
            for masks in (1..=self.len).rev() {
                let here: Vec<_> =
                    from.clone().into_iter().filter(|z| z.0.n_masked() == masks).collect();
                for (z, p) in here {
                    for (child, chance) in self.event(&z) {
                        let p = p * chance;
                        let refused = looks(masks - 1)
                            && least(masks - 1, rank)
                                .is_some_and(|least| self.worth(&child) < least);
                        if refused {
                            for (z, chance) in self.back(&child, method.share) {
                                *next.entry(z).or_default() += p * chance;
                            }
                        } else if let Some(tokens) = child.complete() {
                            texts[exact::index(self.vocab, tokens)] += p;
                            *ended += p;
                        } else {
                            *from.entry(child).or_default() += p;
                        }
                    }
                }
            }
            from = next;
        }
    }

    /// The law over all unguided paths.
    fn law(&self, method: &Dfs) -> (Vec<f64>, Vec<f64>) {
        let most = (method.quantile * method.particles as f64).ceil() as usize * method.backtracks;
        let mut texts = vec![0.0; self.vocab.pow(self.len as u32)];
        let mut backs = vec![0.0; most + 1];
        // Paths that are worth the same everywhere are one.
        let mut paths: Vec<(Vec<f64>, f64)> = Vec::new();
        for (worths, p) in self.paths() {
            match paths.iter_mut().find(|(known, _)| *known == worths) {
                Some((_, sum)) => *sum += p,
                None => paths.push((worths, p)),
            }
        }
        for (first, p) in &paths {
            if method.particles == 1 {
                self.given(method, &[first], *p, &mut texts, &mut backs);
                continue;
            }
            for (second, q) in &paths {
                self.given(method, &[first, second], p * q, &mut texts, &mut backs);
            }
        }
        (texts, backs)
    }
}

#[test]
fn the_path_of_a_backtracking_search_has_the_law_that_can_be_enumerated() {
    for (vocab, len, method) in [
        (3, 3, dfs(1, 1.0, 1, 0.5, 2)),
        (3, 3, dfs(1, 0.2, 3, 0.7, 3)),
        (2, 3, dfs(2, 1.0, 3, 0.3, 1)),
        (2, 3, dfs(2, 1.0, 2, 0.9, 1)),
        (2, 3, dfs(2, 0.5, 1, 0.4, 2)),
    ] {
        let world = World::new(vocab, len);
        let (texts, backs) = world.law(&method);
        assert!((texts.iter().sum::<f64>() - 1.0).abs() < 1e-9 && backs[1] > 0.1);
        let problem = problem(len, &world.table, &world.reward);
        let (mut ended, mut went) = (vec![0u64; texts.len()], vec![0u64; backs.len()]);
        for seed in 0..6_000 {
            let found = run(&method, &problem, seed);
            ended[exact::index(vocab, &found.finals.last().unwrap().tokens)] += 1;
            // The unguided paths and the first descent are no backtracks.
            went[found.steps - 2] += 1;
        }
        let (text, back) =
            (exact::chi_square_z(&ended, &texts), exact::chi_square_z(&went, &backs));
        assert!(text.abs() < 4.0, "{method:?}: the text is {text} standard deviations off");
        assert!(back.abs() < 4.0, "{method:?}: backtracks are {back} standard deviations off");
        // A search that refused nothing would be seen.
        assert!(exact::chi_square_z(&ended, world.table.probs()) > 8.0, "{method:?}");
    }
}

#[test]
fn without_backtracks_the_search_is_the_best_of_its_unguided_paths_and_one_more() {
    let world = World::new(3, 4);
    let sampler = Sampler::FirstHitting;
    let mut rewards = Vec::new();
    for seed in 0..400 {
        let problem = || problem(4, &world.table, &world.reward);
        let bon = run(&BestOfN { particles: 3, sampler }, &problem(), seed);
        let found = run(&dfs(3, 1.0, 2, 0.5, 0), &problem(), seed);
        let texts = |finals: &[treasure_core::Particle]| -> Vec<Vec<TokenId>> {
            finals.iter().map(|particle| particle.tokens.clone()).collect()
        };
        assert_eq!(texts(&found.finals[..3]), texts(&bon.finals));
        assert_eq!((found.finals.len(), found.steps), (4, 2));
        let best = found.finals.iter().map(|end| end.reward).fold(f64::MIN, f64::max);
        assert_eq!(found.reward, Some(best));
        assert_eq!(found.reward, Some(world.reward.of(&found.tokens)));
        rewards.push(best);
    }
    let expected = exact::expected_max(world.table.probs(), world.reward.values(), 4);
    let mean = rewards.iter().sum::<f64>() / 400.0;
    let square = rewards.iter().map(|reward| (reward - mean).powi(2)).sum::<f64>();
    assert!((mean - expected).abs() < 4.5 * square.sqrt() / 400.0, "{mean} against {expected}");
}

#[test]
fn a_backtracking_search_costs_its_events_its_looks_and_one_pass_for_each_look_in_vain() {
    let (n, k) = (5, 2);
    let world = World::new(3, n);
    let mut backtracks = 0;
    for look_every in [1, 2, 3, 9] {
        // Everything is masked again, so that the events of a descent are known from where it ends.
        let method = dfs(k, 1.0, look_every, 1.0, 2);
        let levels = n.div_ceil(look_every);
        for seed in 0..60 {
            let problem = problem(n, &world.table, &world.reward);
            let nodes = told(&method, &problem, seed);
            let found = run(&method, &problem, seed);
            let path = &nodes[k * levels..];
            let steps: BTreeMap<usize, usize> =
                path.iter().map(|node| (node.step.unwrap(), node.masks_left)).collect();
            assert_eq!(found.steps, steps.len() + 1);
            let events: usize = k * n + steps.values().map(|masks| n - masks).sum::<usize>();
            let in_vain = steps.values().filter(|masks| **masks > 0).count();
            assert_eq!(found.cost.nfe_requests(), (events + in_vain) as u64);
            assert_eq!(found.cost.reward_requests(), nodes.len() as u64);
            let most = method.nominal_cost(n);
            assert!(found.cost.nfe_requests() <= most.nfe);
            assert!(found.cost.reward_requests() <= most.reward_calls);
            assert!(steps.len() - 1 <= 4, "twice for each of the two thresholds");
            backtracks += steps.len() - 1;
        }
        let unguided = dfs(k, 1.0, look_every, 1.0, 0).nominal_cost(n);
        assert_eq!(unguided.nfe, 3 * n as u64);
        assert_eq!(unguided.reward_calls, 3 * levels as u64);
    }
    assert!(backtracks > 100, "{backtracks}");
}

#[test]
fn going_back_leads_to_the_time_at_which_so_much_would_be_masked() {
    let world = World::new(3, 4);
    for share in [0.3, 0.6, 1.0] {
        let method = dfs(2, 1.0, 1, share, 2);
        let mut levels = Vec::new();
        for seed in 0..400 {
            let nodes = told(&method, &problem(4, &world.table, &world.reward), seed);
            let by_id: BTreeMap<u64, &NodeEvent> =
                nodes.iter().map(|node| (node.id, node)).collect();
            for node in &nodes {
                let Some(from) = node.parent.and_then(|id| by_id.get(&id)) else { continue };
                if from.step == node.step {
                    assert!(node.tau < from.tau, "time falls along a descent");
                    continue;
                }
                // The first event after going back, from so many masks at t′: Eq. (4) solved for u.
                let masks = node.masks_left + 1;
                let before = 1.0 - (1.0 - share) * EXACT.alpha(from.tau);
                levels.push(((1.0 - EXACT.alpha(node.tau)) / before).powi(masks as i32));
            }
        }
        let n = levels.len() as f64;
        assert!(n > 200.0 && levels.iter().all(|u| (0.0..=1.0 + 1e-9).contains(u)));
        let mean = levels.iter().sum::<f64>() / n;
        assert!((mean - 0.5).abs() < 4.5 * (1.0 / 12.0 / n).sqrt(), "share {share}: {mean}");
    }
}

#[test]
fn going_back_never_touches_what_was_there() {
    let world = World::new(3, 5);
    let start = MaskedSeq::from_slots([Some(2), None, None, Some(1), None]);
    let limits = Limits::default();
    let problem =
        Problem::new(start.clone(), &EXACT, &world.table, &world.reward, Bans::none(), limits)
            .unwrap();
    let mut remasked = 0;
    for seed in 0..60 {
        let mut states = BTreeMap::from([(0, start.clone()), (1, start.clone())]);
        for node in told(&dfs(2, 1.0, 1, 0.8, 3), &problem, seed) {
            let state = placed(&states[&node.parent.unwrap()], &node);
            assert_eq!(state.n_masked(), node.masks_left);
            assert_eq!((state.get(0), state.get(3)), (Some(2), Some(1)));
            remasked += node.remasked.len();
            states.insert(node.id, state);
        }
    }
    assert!(remasked > 50, "{remasked}");
}

#[test]
fn a_refinement_may_go_depth_first() {
    let world = World::new(3, 5);
    let inner = Some(Method::from(dfs(1, 1.0, 1, 0.5, 2)).into());
    let method = Refine { rounds: 3, inner, ..Refine::default() };
    let keep = [true, false, false, true, false];
    let mut better = 0;
    for seed in 0..40 {
        let key = Key::new(seed).fold(5);
        let tokens: Vec<TokenId> = (0..5).map(|at| key.fold(at).below(3) as TokenId).collect();
        let limits = Limits::default();
        let (table, reward) = (&world.table, &world.reward);
        let slots = tokens.iter().zip(keep).map(|(&token, keep)| keep.then_some(token));
        let start = MaskedSeq::template(slots).unwrap();
        let problem = Problem::new(start, &EXACT, table, reward, Bans::none(), limits)
            .and_then(|problem| problem.with_given(&tokens))
            .unwrap();
        let found = run(&method, &problem, seed);
        assert!(found.reward.unwrap() >= reward.of(&tokens));
        assert_eq!((found.tokens[0], found.tokens[3]), (tokens[0], tokens[3]));
        better += u64::from(found.reward.unwrap() > reward.of(&tokens));
    }
    assert!(better > 20, "{better} of 40");
}

#[test]
fn a_backtracking_search_refuses_what_makes_no_sense() {
    let refused = |method: Dfs| method.check().unwrap_err().to_string();
    let plain = Dfs::default;
    assert_eq!(refused(Dfs { particles: 0, ..plain() }), "particles: expected at least 1, got 0");
    assert_eq!(refused(Dfs { look_every: 0, ..plain() }), "look every: expected at least 1, got 0");
    assert!(refused(Dfs { quantile: 0.0, ..plain() }).starts_with("quantile: "));
    assert!(refused(Dfs { share: 1.5, ..plain() }).starts_with("share: "));
    assert!(plain().check().is_ok() && !plain().is_sampler());
}
