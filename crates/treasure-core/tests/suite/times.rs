//! When predictions are made: a time-conditioned model must be asked at the times of the theory, and a
//! prediction made for one time must not serve another.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use treasure_core::{
    Event, Key, MaskedSeq, NodeEvent, Sampler, ValueKind, WeighBy,
    methods::{
        Base, BestOfN, Code, Dfs, Fhs, FkSteering, NaiveTree, Search, Smc, Svdd, Treasure, Treeg,
    },
};
use treasure_testkit::{JointTable, TableReward};

use crate::common::{Watched, placed, problem};

const LEN: usize = 4;

/// A child of a run with its state and its parent's.
struct Seen {
    node: NodeEvent,
    state: MaskedSeq,
    parent: MaskedSeq,
    parent_tau: u64,
}

/// What a method asked of a time-conditioned model, and the children it told.
fn watch(method: &dyn Search, seed: u64) -> (BTreeSet<(MaskedSeq, u64)>, Vec<Seen>) {
    let table = JointTable::random(3, LEN, Key::new(1)).timed();
    let watched = Watched::new(table);
    let reward = TableReward::random(3, LEN, Key::new(2));
    let mut states: BTreeMap<u64, (MaskedSeq, f64)> = BTreeMap::new();
    let mut seen = Vec::new();
    let mut observer = |event: &Event| {
        if let Event::Node(node) = event {
            let (parent, parent_tau) =
                node.parent.map_or((MaskedSeq::empty(LEN), 1.0), |id| states[&id].clone());
            let state = placed(&parent, node);
            states.insert(node.id, (state.clone(), node.tau));
            if node.parent.is_some() {
                let parent_tau = parent_tau.to_bits();
                seen.push(Seen { node: node.clone(), state, parent, parent_tau });
            }
        }
        ControlFlow::Continue(())
    };
    method.run(&problem(LEN, &watched, &reward), Key::new(seed), &mut observer).unwrap();
    assert!(!seen.is_empty());
    (watched.asked().into_iter().collect(), seen)
}

#[test]
fn first_hitting_predicts_at_the_time_of_the_event_it_jumps_to() {
    let sampler = Sampler::FirstHitting;
    let methods: Vec<Box<dyn Search>> = vec![
        Box::new(Treasure::new(3, 2)),
        Box::new(Treasure { value: ValueKind::Posterior, ..Treasure::new(2, 2) }),
        Box::new(Fhs {}),
        Box::new(BestOfN { particles: 3, sampler }),
        Box::new(FkSteering { sampler, particles: 5, ..FkSteering::default() }),
        Box::new(FkSteering {
            sampler,
            particles: 5,
            weigh_by: Some(WeighBy::Parent),
            ..FkSteering::default()
        }),
        Box::new(Svdd { particles: 3, chains: 2, sampler, alpha: 0.0 }),
        // Copies of the best take other slots, and other times with them.
        Box::new(Code { particles: 3, code_block: 1, sampler }),
        Box::new(Smc { particles: 4, ..Smc::default() }),
        Box::new(Treeg { sampler, ..Treeg::default() }),
        // Looked at after every event; where it went back, the state it went on from is not told.
        Box::new(Dfs { look_every: 1, backtracks: 0, ..Dfs::default() }),
    ];
    for method in methods {
        let mut several = 0;
        for seed in 0..5 {
            let (asked, seen) = watch(&*method, seed);
            for child in &seen {
                let at = (child.parent.clone(), child.node.tau.to_bits());
                assert!(asked.contains(&at), "{}: μ(z, τ) at the child's τ", method.name());
                several += usize::from(child.parent_tau != at.1);
            }
        }
        assert!(several > 10, "{}: τ moves on", method.name());
    }
}

#[test]
fn a_tree_asks_for_nothing_but_its_parents_at_the_times_of_their_events() {
    for seed in 0..10 {
        let (asked, seen) = watch(&Treasure::new(3, 2), seed);
        let told: BTreeSet<_> =
            seen.iter().map(|child| (child.parent.clone(), child.node.tau.to_bits())).collect();
        assert_eq!(asked, told);
    }
}

#[test]
fn a_parallel_step_predicts_where_it_begins() {
    let (steps, sampler) = (6, Sampler::Ancestral { steps: 6 });
    let remdm = Sampler::Remdm { steps, remask: treasure_core::Remask::Cap, eta: Some(0.2) };
    let methods: Vec<Box<dyn Search>> = vec![
        Box::new(Base { steps }),
        Box::new(BestOfN { particles: 3, sampler }),
        Box::new(BestOfN { particles: 3, sampler: remdm }),
        Box::new(FkSteering { sampler, ..FkSteering::default() }),
        Box::new(NaiveTree { steps, ..NaiveTree::default() }),
        Box::new(Treeg { sampler, ..Treeg::default() }),
    ];
    for method in methods {
        for seed in 0..5 {
            let (asked, seen) = watch(&*method, seed);
            let told: BTreeSet<_> = (seen.iter())
                .filter(|child| child.parent.n_masked() > 0)
                .map(|child| (child.parent.clone(), child.parent_tau))
                .collect();
            assert_eq!(asked, told, "{}", method.name());
            assert!(asked.contains(&(MaskedSeq::empty(LEN), 1f64.to_bits())));
            for (_, t) in &asked {
                let at = (1.0 - f64::from_bits(*t)) * steps as f64;
                assert!((at - at.round()).abs() < 1e-9, "{}: {at}", method.name());
            }
        }
    }
}

#[test]
fn a_childs_own_prediction_on_parallel_steps_is_made_where_it_stands() {
    let sampler = Sampler::Ancestral { steps: 6 };
    let remdm = Sampler::Remdm { steps: 6, remask: treasure_core::Remask::Rescale, eta: Some(0.5) };
    let methods: Vec<Box<dyn Search>> = vec![
        Box::new(Svdd { particles: 3, chains: 2, sampler, alpha: 0.0 }),
        Box::new(Svdd { particles: 3, chains: 2, sampler: remdm, alpha: 0.0 }),
        Box::new(FkSteering {
            sampler,
            weigh_by: Some(WeighBy::Own),
            resample_every: Some(1),
            ..FkSteering::default()
        }),
    ];
    for method in methods {
        for seed in 0..5 {
            let (asked, seen) = watch(&*method, seed);
            let mut told: BTreeSet<_> = (seen.iter())
                .filter(|child| child.state.n_masked() > 0)
                .map(|child| (child.state.clone(), child.node.tau.to_bits()))
                .collect();
            told.insert((MaskedSeq::empty(LEN), 1f64.to_bits()));
            assert_eq!(asked, told, "{}", method.name());
        }
    }
}

#[test]
fn a_prediction_made_to_value_a_child_is_made_at_the_time_of_its_expansion() {
    // Else the child would be run again: the counts of a model without time must hold with time.
    for timed in [false, true] {
        let table = JointTable::random(3, LEN, Key::new(1));
        let table = if timed { table.timed() } else { table };
        let reward = TableReward::random(3, LEN, Key::new(2));
        let sampler = Sampler::FirstHitting;
        let svdd = Svdd { particles: 5, chains: 1, sampler, alpha: 0.0 };
        let found = crate::common::run(&svdd, &problem(LEN, &table, &reward), 1);
        assert_eq!(found.cost.nfe_requests(), 1 + 3 * 5, "timed: {timed}");
        assert_eq!(found.cost.nfe, table.encoded());
        // One particle is never copied to another slot.
        let fk = FkSteering { sampler, particles: 1, ..FkSteering::default() };
        let found = crate::common::run(&fk, &problem(LEN, &table, &reward), 1);
        assert_eq!((found.cost.nfe, found.cost.nfe_hits), (4, 0), "timed: {timed}");
    }
}
