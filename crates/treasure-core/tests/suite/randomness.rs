//! Randomness by key: coupling of trees, independence of particles, the same bytes every time.

use std::{collections::BTreeMap, ops::ControlFlow};

use treasure_core::{
    Answer, Denoiser, Encoding, Event, Facts, Key, MaskedSeq, Question, Result, Sampler, State,
    ValueKind,
    methods::{BestOfN, Code, FkSteering, NaiveTree, Search, Svdd, Treasure},
};
use treasure_testkit::{JointTable, TableReward};

use crate::common::{problem, run};

/// What a tree drew at a state: the position of its children and their time.
fn draws(method: &Treasure, seed: u64) -> BTreeMap<MaskedSeq, (usize, u64)> {
    let table = JointTable::random(4, 5, Key::new(1));
    let reward = TableReward::random(4, 5, Key::new(2));
    let mut states: BTreeMap<u64, MaskedSeq> = BTreeMap::new();
    let mut draws = BTreeMap::new();
    let mut observer = |event: &Event| {
        if let Event::Node(node) = event {
            let Some(parent) = node.parent else {
                states.insert(node.id, MaskedSeq::empty(5));
                return ControlFlow::Continue(());
            };
            let parent = states[&parent].clone();
            let position = node.position.unwrap();
            states.insert(node.id, parent.reveal(position, node.token.unwrap()));
            draws.insert(parent, (position, node.tau.to_bits()));
        }
        ControlFlow::Continue(())
    };
    method.run(&problem(5, &table, &reward), Key::new(seed), &mut observer).unwrap();
    draws
}

#[test]
fn trees_of_different_width_draw_the_same_at_the_same_state() {
    let mut shared = 0;
    for seed in 0..20 {
        let narrow = draws(&Treasure::new(2, 1), seed);
        let wide = draws(&Treasure::new(4, 6), seed);
        for (state, (position, _)) in &narrow {
            if let Some((other, _)) = wide.get(state) {
                assert_eq!(position, other, "seed {seed}: {state:?}");
                shared += 1;
            }
        }
    }
    assert!(shared > 40, "{shared} states in common");
}

#[test]
fn the_first_group_is_the_position_of_a_search_without_groups() {
    let one = draws(&Treasure::new(2, 1), 3);
    let root = MaskedSeq::empty(5);
    let table = JointTable::random(4, 5, Key::new(1));
    let reward = TableReward::random(4, 5, Key::new(2));
    let mut positions = Vec::new();
    let mut times = Vec::new();
    let mut observer = |event: &Event| {
        if let Event::Node(node) = event
            && node.step == Some(0)
        {
            positions.push(node.position.unwrap());
            times.push(node.tau.to_bits());
        }
        ControlFlow::Continue(())
    };
    let method = Treasure { groups: 3, ..Treasure::new(2, 1) };
    method.run(&problem(5, &table, &reward), Key::new(3), &mut observer).unwrap();
    assert_eq!(positions.len(), 6, "three positions of two tokens");
    assert_eq!(positions[0], one[&root].0);
    assert_eq!(times[0], one[&root].1, "one τ per parent");
    times.dedup();
    assert_eq!(times.len(), 1);
    positions.dedup();
    positions.sort_unstable();
    positions.dedup();
    assert_eq!(positions.len(), 3, "without replacement");
}

#[test]
fn groups_are_capped_by_the_masks_left() {
    let table = JointTable::random(3, 2, Key::new(1));
    let reward = TableReward::random(3, 2, Key::new(2));
    let outcome =
        run(&Treasure { groups: 9, ..Treasure::new(3, 1) }, &problem(2, &table, &reward), 1);
    assert_eq!(outcome.cost.reward_requests(), 2 * 3 + 3);
}

#[test]
fn samples_with_different_keys_differ_and_the_same_key_repeats() {
    let table = JointTable::random(4, 5, Key::new(1));
    let reward = TableReward::random(4, 5, Key::new(2));
    let sampler = Sampler::Ancestral { steps: 12 };
    let methods: [&dyn Search; 6] = [
        &Treasure::new(2, 2),
        &BestOfN { particles: 3, sampler },
        &FkSteering { sampler, ..FkSteering::default() },
        &Svdd { particles: 2, chains: 1, sampler, alpha: 0.0 },
        &Code { particles: 3, code_block: 4, sampler },
        &NaiveTree { steps: 12, ..NaiveTree::default() },
    ];
    for method in methods {
        let outcomes: Vec<_> =
            (0..12).map(|seed| run(method, &problem(5, &table, &reward), seed).tokens).collect();
        let again: Vec<_> =
            (0..12).map(|seed| run(method, &problem(5, &table, &reward), seed).tokens).collect();
        assert_eq!(outcomes, again);
        let distinct: std::collections::BTreeSet<_> = outcomes.iter().collect();
        assert!(distinct.len() > 1, "{} draws nothing from its key", method.name());
    }
}

/// A denoiser that answers every batch one by one, in reverse.
struct OneByOne<'a>(&'a JointTable);

impl Denoiser for OneByOne<'_> {
    fn facts(&self) -> &Facts {
        self.0.facts()
    }

    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        let mut out = Vec::new();
        for state in batch.iter().rev() {
            out.extend(self.0.encode(&[*state])?);
        }
        out.reverse();
        Ok(out)
    }

    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        let mut out = Vec::new();
        for question in batch.iter().rev() {
            out.extend(self.0.read(&[*question])?);
        }
        out.reverse();
        Ok(out)
    }
}

#[test]
fn the_batch_size_of_the_denoiser_changes_nothing() {
    let table = JointTable::random(4, 5, Key::new(1));
    let reward = TableReward::random(4, 5, Key::new(2));
    let single = OneByOne(&table);
    for value in ValueKind::ALL {
        let method = Treasure { value: *value, ..Treasure::new(3, 3) };
        let together = run(&method, &problem(5, &table, &reward), 4);
        let apart = run(&method, &problem(5, &single, &reward), 4);
        assert_eq!(together, apart);
    }
}

#[test]
fn samples_run_on_other_threads_give_the_same_bytes() {
    let table = JointTable::random(4, 4, Key::new(1));
    let reward = TableReward::random(4, 4, Key::new(2));
    let json = |sample: u64| {
        let outcome = run(&Treasure::new(3, 2), &problem(4, &table, &reward), sample);
        serde_json::to_string(&outcome).unwrap()
    };
    let here: Vec<String> = (0..6).map(json).collect();
    let there: Vec<String> = std::thread::scope(|scope| {
        let handles: Vec<_> =
            (0..6).rev().map(|sample| scope.spawn(move || json(sample))).collect();
        let mut out: Vec<String> =
            handles.into_iter().map(|handle| handle.join().unwrap()).collect();
        out.reverse();
        out
    });
    assert_eq!(here, there);
}

#[test]
fn candidates_of_one_parent_draw_apart() {
    let table = JointTable::new(4, 5, &vec![1.0; 1024]);
    let reward = TableReward::random(4, 5, Key::new(2));
    // Two steps reveal about half of the masks each: eight equal candidates would be a fault.
    let methods: [&dyn Search; 3] = [
        &NaiveTree { steps: 2, beam_width: 8.into(), tree_width: 1.into(), variety: 0.0 },
        &Svdd { particles: 8, chains: 1, sampler: Sampler::Ancestral { steps: 2 }, alpha: 0.0 },
        &Svdd { particles: 8, chains: 1, sampler: Sampler::FirstHitting, alpha: 0.0 },
    ];
    for method in methods {
        let mut distinct = Vec::new();
        let mut observer = |event: &Event| {
            if let Event::Step(step) = event {
                distinct.push(step.distinct);
            }
            ControlFlow::Continue(())
        };
        method.run(&problem(5, &table, &reward), Key::new(1), &mut observer).unwrap();
        assert!(distinct[0] >= 6, "{}: {distinct:?}", method.name());
    }
}
