//! How many candidates a best of N may look at in the time a tree search takes.
//!
//! Measured once, before the first sample; the numbers go into the plan, so that reruns and other
//! shards are exact.

use treasure_core::{Key, methods::BestOfN};

use super::{method::method, search::timed, world::World};
use crate::{
    Result,
    config::Budget,
    plan::{Plan, Variant},
};

/// Candidates drawn to measure the time of one.
const PROBE: usize = 8;

/// Whether a plan still lacks numbers.
pub fn is_needed(plan: &Plan) -> bool {
    plan.variants.iter().any(|variant| lacks(plan, variant))
}

fn lacks(plan: &Plan, variant: &Variant) -> bool {
    let known = |name: &String| variant.particles_by_reward.contains_key(name);
    matches!(variant.matched, Some((Budget::Seconds, ..)))
        && !plan.rewards.iter().all(|reward| known(&reward.name))
}

/// Measures, and fills the numbers in. Tells what it found through `say`.
pub fn calibrate(world: &dyn World, plan: &mut Plan, say: &mut dyn FnMut(&str)) -> Result<()> {
    for index in 0..plan.variants.len() {
        if !lacks(plan, &plan.variants[index]) {
            continue;
        }
        let variant = plan.variants[index].clone();
        let Some((_, beam_width, tree_width)) = variant.matched else { continue };
        let rival = Variant {
            id: "calibration".into(),
            method: "treasure".into(),
            beam_width: Some(beam_width),
            tree_width: Some(tree_width),
            groups: 1,
            ..Variant::default()
        };
        let tree = method(&rival, plan.protocol, None)?;
        let sampler = match variant.sampler.as_deref() {
            Some("first-hitting") => treasure_core::Sampler::FirstHitting,
            _ => treasure_core::Sampler::Ancestral { steps: variant.steps },
        };
        let best = BestOfN { particles: PROBE, sampler };
        let start = world.start(plan, &plan.prompts[0])?;
        for reward in plan.rewards.clone() {
            let scorer = world.reward(&reward.spec, &start)?;
            let key = Key::new(plan.seed).fold(0xca1b);
            // The first run pays for lazy loading; the second is measured.
            timed(world, &start, &*scorer, &best, key.fold(0))?;
            let (_, seconds) = timed(world, &start, &*scorer, &*tree, key.fold(1))?;
            let (_, probe) = timed(world, &start, &*scorer, &best, key.fold(2))?;
            let count = (seconds / (probe / PROBE as f64)).round().max(1.0) as usize;
            say(&format!(
                "calibrated {}: N = {count} for {} ({seconds:.2} s of ({beam_width},{tree_width}), {:.3} s a candidate)",
                variant.id,
                reward.name,
                probe / PROBE as f64
            ));
            plan.variants[index].particles_by_reward.insert(reward.name, count);
        }
    }
    Ok(())
}
