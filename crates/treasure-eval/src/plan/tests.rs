//! The plans of the presets.

use super::*;
use crate::config::{Config, Size};

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
    let cost = |id: &str| plan.variants.iter().find(|v| v.id == id).unwrap().nominal_cost(123);
    assert_eq!(cost("treasure-b5-m2"), (245, 1225));
    assert_eq!(cost("treasure-b20-m16"), (1953, 39060));
    assert_eq!(cost("fk-n16").1, 3264);
}

#[test]
fn the_matched_control_scores_as_many_candidates_as_the_search_makes_reward_calls() {
    let plan = plan("controls", Size::Pocket);
    let calls = plan.variants.iter().find(|variant| variant.id == "bon-fh-calls").unwrap();
    assert_eq!(calls.particles, Some(5 + 47 * 10));
    assert!(calls.serves_all_rewards());
}

#[test]
fn the_command_names_what_a_user_can_change() {
    assert_eq!(
        plan("main", Size::Pocket).command(),
        "treasure eval run main --size pocket --model pocket --prompts 15 --continuations 2 --seed 0"
    );
}

#[test]
fn any_change_changes_the_hash() {
    let a = plan("main", Size::Quick);
    let mut b = a.clone();
    assert_eq!(a.hash(), b.hash());
    b.variants[0].steps += 1;
    assert_ne!(a.hash(), b.hash());
}
