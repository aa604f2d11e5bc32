//! Golden trees: whole traces of tiny searches. `UPDATE_GOLDEN=1 cargo test -p treasure-core` rewrites
//! them; a change here is a change of what seeds mean.

use treasure_core::{
    Key, Sampler, SelectKind, TraceWriter, WeighBy,
    methods::{FkSteering, Search, Treasure},
};
use treasure_testkit::{JointTable, TableReward, golden::assert_golden};

use crate::common::problem;

fn check(name: &str, method: &dyn Search) {
    let table = JointTable::random(3, 3, Key::new(1));
    let reward = TableReward::random(3, 3, Key::new(2));
    let mut trace = TraceWriter::new(Vec::new());
    method.run(&problem(3, &table, &reward), Key::new(3), &mut trace).unwrap();
    let text = String::from_utf8(trace.finish().unwrap()).unwrap();
    let path = format!("{}/tests/suite/golden/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    assert_golden(path, &text);
}

#[test]
fn the_tree_of_treasure_is_as_it_was() {
    check("treasure", &Treasure::new(2, 2));
}

#[test]
fn the_tree_of_nested_selection_with_groups_is_as_it_was() {
    check("nested", &Treasure { select: SelectKind::Nested, groups: 2, ..Treasure::new(2, 3) });
}

#[test]
fn the_particles_of_feynman_kac_steering_are_as_they_were() {
    let method = FkSteering {
        particles: 3,
        sampler: Sampler::FirstHitting,
        x0_samples: 2,
        weigh_by: Some(WeighBy::Parent),
        ..FkSteering::default()
    };
    check("fk", &method);
    check("fk-own", &FkSteering { weigh_by: None, ..method });
}
