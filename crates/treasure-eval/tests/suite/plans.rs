//! The plans of the presets.

use treasure_eval::{
    config::{Budget, Config, Kind, Size},
    plan::{Overrides, Plan, Variant},
    presets,
    store::Manifest,
};

fn plan(name: &str, size: Size) -> Plan {
    Plan::new(&Config::load(name).unwrap(), size, &Overrides::default()).unwrap()
}

#[test]
fn the_main_table_has_the_papers_methods_and_widths_on_four_rewards() {
    let plan = plan("main", Size::Pocket);
    let ids: Vec<_> = plan.variants.iter().map(|variant| variant.id.as_str()).collect();
    for id in [
        "base",
        "bon-n2",
        "bon-n4",
        "bon-n6",
        "bon-n8",
        "bon-n16",
        "fk-n2",
        "fk-n4",
        "fk-n6",
        "fk-n8",
        "fk-n16",
        "treasure-b5-m2",
        "treasure-b6-m4",
        "treasure-b8-m6",
        "treasure-b12-m8",
        "treasure-b20-m16",
    ] {
        assert!(ids.contains(&id), "{id} is not among {ids:?}");
    }
    assert_eq!(plan.rewards.len(), 4);
    assert_eq!((plan.length, plan.continuations, plan.prompts.len()), (48, 2, 15));
    let wide = plan.variants.iter().find(|variant| variant.id == "treasure-b20-m16").unwrap();
    assert_eq!(wide.prompts, 5);
}

#[test]
fn the_papers_size_is_twenty_continuations_of_128_tokens_on_fifteen_prompts() {
    let plan = plan("main", Size::Paper);
    assert_eq!((plan.length, plan.continuations, plan.prompts.len()), (128, 20, 15));
}

#[test]
fn a_precision_is_part_of_the_plan_and_f32_leaves_it_as_it_was() {
    let with = |precision: Option<&str>| {
        let mut config = Config::load("main").unwrap();
        config.size.get_mut(&Size::Quick).unwrap().precision = precision.map(str::to_owned);
        Plan::new(&config, Size::Quick, &Overrides::default())
    };
    let plain = with(None).unwrap();
    assert_eq!(with(Some("f32")).unwrap(), plain);
    assert!(!serde_json::to_string(&plain).unwrap().contains("precision"));
    let bf16 = with(Some("bf16")).unwrap();
    assert_ne!(bf16.hash(), plain.hash());
    let asked = bf16.asked(&bf16.variants[0], None).unwrap();
    assert_eq!(asked.load.precision.to_string(), "bf16");
    // What `auto` is on this machine stands in the plan.
    assert_ne!(with(Some("auto")).unwrap().precision.as_deref(), Some("auto"));
    let refused = with(Some("f31")).unwrap_err().to_string();
    assert!(refused.contains("auto, f32, bf16 or int8"), "{refused}");
}

#[test]
fn cell_ids_are_unique_and_keys_depend_on_prompt_and_continuation_alone() {
    let plan = plan("main", Size::Quick);
    let cells = plan.cells();
    let mut ids: Vec<_> = cells.iter().map(|cell| cell.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), cells.len());
    for a in &cells {
        for b in &cells {
            let same = (a.prompt, a.continuation) == (b.prompt, b.continuation);
            assert_eq!(plan.key(a) == plan.key(b), same, "{} and {}", a.id, b.id);
        }
    }
}

#[test]
fn nominal_costs_are_the_protocols() {
    let plan = plan("main", Size::Paper);
    let plan = Plan { length: 123, min_length: 0, ..plan };
    let cost = |id: &str| {
        let nominal = plan.nominal_cost(plan.variants.iter().find(|v| v.id == id).unwrap());
        (nominal.nfe, nominal.reward_calls)
    };
    assert_eq!(cost("treasure-b5-m2"), (245, 1225));
    assert_eq!(cost("treasure-b20-m16"), (1953, 39060));
    // 50 weighings of 16 particles by 4 completions each.
    assert_eq!(cost("fk-n16").1, 3200);
}

#[test]
fn plans_on_record_keep_their_hashes() {
    // A plan's bytes are part of every row: reading and writing must not change what was published.
    let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../papers/treasure/results");
    let mut read = 0;
    for entry in std::fs::read_dir(results).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with("-manifest.json") {
            let folder = tempfile::tempdir().unwrap();
            std::fs::copy(&path, folder.path().join("manifest.json")).unwrap();
            // Reading compares the stored hash with that of the plan as it is written today.
            Manifest::read(folder.path()).unwrap_or_else(|e| panic!("{name}: {e}"));
            read += 1;
        }
    }
    assert!(read >= 8, "{read} manifests");
    // As it was made when our defaults came to stand beside the paper's.
    let quick = Overrides { prompts: Some(1), continuations: Some(1), ..Overrides::default() };
    let plan = Plan::new(&Config::load("main").unwrap(), Size::Quick, &quick).unwrap();
    assert_eq!(plan.hash(), "96ca1078f049b44b1092aaf265503602ae8710e2e5d9bf3d63ec7a94a076507f");
}

#[test]
fn every_preset_makes_a_plan_at_every_size() {
    for name in presets::NAMES {
        for size in [Size::Paper, Size::Pocket, Size::Quick] {
            let plan = plan(name, size);
            assert!(!plan.cells().is_empty());
            assert_eq!(plan.edition.0, if plan.kind == Kind::Branching { 2 } else { 1 });
        }
    }
}

#[test]
fn the_baseline_of_gains_has_at_least_eight_continuations() {
    for name in ["main", "controls", "readable"] {
        let plan = plan(name, Size::Pocket);
        let base = plan.variants.iter().find(|variant| plan.is_unguided(variant)).unwrap();
        assert!(base.continuations.is_some_and(|count| count >= 8), "{name}");
    }
}

#[test]
fn our_defaults_stand_beside_the_papers_and_the_plan_spells_them_out() {
    let plan = plan("readable", Size::Pocket);
    let [ours, paper] = ["treasure-b5-m2-plain", "treasure-b5-m2"]
        .map(|id| plan.variants.iter().find(|variant| variant.id == id).unwrap());
    let negative = plan.rewards.iter().position(|reward| reward.name == "negative");
    let asked = |variant: &Variant| plan.asked(variant, negative).unwrap();
    assert_eq!(asked(paper).method, treasure::methods::Treasure::new(5, 2).into());
    assert_eq!(asked(paper).answer.name(), "final");
    assert_ne!(asked(ours).method, asked(paper).method);
    assert_eq!(ours.meant.len(), 5);
    assert_eq!(ours.meant["negative"]["prior"], asked(ours).method.options()["prior"]);
    assert!(paper.meant.is_empty());
}

#[test]
fn greedy_and_samples_serve_every_reward_and_searches_do_not() {
    let plan = plan("controls", Size::Pocket);
    for variant in &plan.variants {
        let alone = ["fhs", "greedy"].contains(&variant.method.as_str());
        assert_eq!(plan.serves_all_rewards(variant), alone || variant.shared, "{}", variant.id);
        assert_eq!(plan.is_unguided(variant), variant.method == "fhs", "{}", variant.id);
    }
}

#[test]
fn the_matched_control_scores_as_many_candidates_as_the_search_makes_reward_calls() {
    let plan = plan("controls", Size::Pocket);
    let calls = plan.variants.iter().find(|variant| variant.id == "bon-fh-calls").unwrap();
    assert_eq!(calls.particles, Some(5 + 47 * 10));
    assert!(plan.serves_all_rewards(calls));
    // 95 model calls of the tree; 48 of a candidate of SVDD, or of a copy of CoDe.
    for id in ["svdd-fh-nfe", "code-fh-nfe-code_block=20"] {
        let found = plan.variants.iter().find(|variant| variant.id == id).unwrap();
        assert_eq!(found.particles, Some(2), "{id}");
    }
}

#[test]
fn the_command_names_what_a_user_can_change() {
    assert_eq!(
        plan("main", Size::Pocket).command(),
        "treasure eval run main --size pocket --model pocket --prompts 15 --continuations 2 --seed 0"
    );
    let smol = Overrides { ppl: Some("ppl:smol.gguf".into()), ..Overrides::default() };
    let plan = Plan::new(&Config::load("readable").unwrap(), Size::Pocket, &smol).unwrap();
    assert!(plan.command().ends_with(" --continuations 4 --seed 0 --ppl ppl:smol.gguf"));
    // The number that a plan has anyway changes nothing, another is meant for all methods.
    let with = |continuations| {
        let given = Overrides { continuations: Some(continuations), ..smol.clone() };
        Plan::new(&Config::load("readable").unwrap(), Size::Pocket, &given).unwrap()
    };
    assert_eq!(with(4), plan);
    assert!(with(3).variants.iter().all(|variant| variant.continuations.is_none()));
}

#[test]
fn any_change_changes_the_hash() {
    let a = plan("main", Size::Quick);
    let mut b = a.clone();
    assert_eq!(a.hash(), b.hash());
    b.variants[0].steps += 1;
    assert_ne!(a.hash(), b.hash());
}

#[test]
fn there_are_fifteen_prompts_and_each_begins_with_two_newlines() {
    let prompts = presets::prompts();
    assert_eq!(prompts.len(), 15);
    assert!(prompts.iter().all(|prompt| prompt.starts_with("\n\n")));
    assert_eq!(prompts[12], "\n\nThe president of the country");
}

#[test]
fn every_preset_parses_under_its_own_name_and_has_all_three_sizes() {
    for name in presets::NAMES {
        let config = Config::load(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.name, name);
        for size in [Size::Paper, Size::Pocket, Size::Quick] {
            assert!(config.size.contains_key(&size), "{name} lacks {}", size.name());
        }
    }
}

#[test]
fn every_setting_of_every_preset_has_a_reason_beside_it() {
    for name in presets::NAMES {
        for (number, line) in presets::text(name).expect("listed").lines().enumerate() {
            let setting = line.contains('=') && !line.trim_start().starts_with('#');
            assert!(!setting || line.contains("# "), "{name}.toml:{}: {line}", number + 1);
        }
    }
}

#[test]
fn the_config_of_the_guide_is_one_that_can_be_run() {
    let guide = include_str!("../../../../docs/experiments.md");
    let config = guide.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, config).unwrap();
    std::fs::write(folder.path().join("mine.jsonl"), "{\"prompt\": \"The old dog\"}\n").unwrap();
    let config = Config::load(path.to_str().unwrap()).unwrap();
    let plan = Plan::new(&config, Size::Quick, &Overrides::default()).unwrap();
    let ids: Vec<_> = plan.variants.iter().map(|variant| variant.id.as_str()).collect();
    assert_eq!(ids, ["treasure-b5-m2-plain", "treasure-b8-m6-plain", "bon-n4", "bon-n16", "fhs"]);
    assert_eq!(plan.prompts, ["The old dog"]);
}

#[test]
fn a_reward_that_cannot_be_read_is_named() {
    let text = presets::text("main").unwrap().replace("spec = \"toxicity\"", "spec = \"toxcity\"");
    let error = Config::parse("main", &text).unwrap_err().to_string();
    assert!(error.contains("reward \"toxicity\"") && error.contains("toxcity"), "{error}");
}

#[test]
fn every_method_is_a_control_at_the_trees_model_calls_and_seconds() {
    for size in [Size::Paper, Size::Pocket] {
        let plan = plan("controls", size);
        let tree = plan.nominal_cost(&plan.variants[0]).nfe as f64;
        for method in
            ["svdd", "code", "smc", "pg", "dts", "dts-star", "treeg", "dsearch", "iterref"]
        {
            let matched = |budget| {
                let own = plan.variants.iter().filter(|variant| variant.method == method);
                own.filter(|v| v.matched.is_some_and(|matched| matched.0 == budget)).count()
            };
            assert_eq!((matched(Budget::Nfe), matched(Budget::Seconds)), (1, 1), "{method}");
        }
        for variant in &plan.variants {
            if matches!(variant.matched, Some((Budget::Nfe, ..))) {
                let share = plan.nominal_cost(variant).nfe as f64 / tree;
                assert!((0.75..1.25).contains(&share), "{}: {share}", variant.id);
                assert!(variant.name.ends_with(", same NFE"), "{}", variant.name);
            }
        }
    }
}
