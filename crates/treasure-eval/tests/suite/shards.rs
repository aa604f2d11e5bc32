//! Shards cover a plan once, whatever numbers them.

use treasure_eval::{
    config::{Config, Size},
    plan::{Cell, Overrides, Plan},
    shard::Shard,
};

#[test]
fn shards_cover_every_cell_exactly_once_and_evenly() {
    let plan =
        Plan::new(&Config::load("main").unwrap(), Size::Pocket, &Overrides::default()).unwrap();
    for count in [1, 2, 3, 7] {
        let mut seen = vec![0; plan.cells().len()];
        let mut loads = Vec::new();
        for index in 0..count {
            let cells = Shard { index, count }.cells(&plan);
            loads.push(cells.iter().map(|cell| plan.weight(cell)).sum::<f64>());
            cells.iter().for_each(|cell| seen[cell.index] += 1);
        }
        assert!(seen.iter().all(|&times| times == 1));
        let (low, high) = loads.iter().fold((f64::MAX, 0f64), |(l, h), &x| (l.min(x), h.max(x)));
        assert!(high / low < 1.05, "{loads:?}");
    }
}

#[test]
fn every_reward_is_spread_over_the_shards() {
    let plan =
        Plan::new(&Config::load("main").unwrap(), Size::Pocket, &Overrides::default()).unwrap();
    let work = |cells: &[Cell], reward| {
        let own = cells.iter().filter(|cell| cell.reward == Some(reward));
        own.map(|cell| plan.weight(cell)).sum::<f64>()
    };
    for reward in 0..plan.rewards.len() {
        let share =
            work(&Shard { index: 0, count: 2 }.cells(&plan), reward) / work(&plan.cells(), reward);
        assert!((0.35..0.65).contains(&share), "reward {reward}: {share}");
    }
}

#[test]
fn counting_from_zero_and_from_one_both_cover_everything() {
    let parse = |text: &str| text.parse::<Shard>().unwrap();
    assert_eq!(parse("0/3"), parse("3/3"));
    assert_eq!(parse("1/3"), Shard { index: 1, count: 3 });
    for bad in ["", "1", "4/3", "0/0", "-1/2", "a/b", "1/2/3"] {
        assert!(bad.parse::<Shard>().is_err(), "{bad}");
    }
}

#[test]
fn slurm_arrays_number_the_shards_whatever_their_first_task_and_step() {
    let slurm = |id: &str, count: &str, min: &str, step: &str| {
        let variables = [
            ("SLURM_ARRAY_TASK_ID", id),
            ("SLURM_ARRAY_TASK_COUNT", count),
            ("SLURM_ARRAY_TASK_MIN", min),
            ("SLURM_ARRAY_TASK_STEP", step),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        Shard::from_slurm(move |name| {
            variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
        })
    };
    assert_eq!(slurm("1", "3", "1", "1").unwrap(), Shard { index: 0, count: 3 });
    assert_eq!(slurm("2", "3", "0", "1").unwrap(), Shard { index: 2, count: 3 });
    assert_eq!(slurm("8", "3", "0", "4").unwrap(), Shard { index: 2, count: 3 });
    assert!(slurm("7", "3", "1", "1").is_err(), "an array with gaps");
    assert_eq!(Shard::from_slurm(|_| None).unwrap(), Shard::default());
}
