//! How many particles a method may have in the time a tree search takes.
//!
//! Measured once, before the first sample; the numbers go into the plan, so that reruns and other
//! shards are exact.

use treasure::{Session, Watch, models::Dtype};

use super::{Bench, Said, Talk};
use crate::{
    Result,
    config::Budget,
    plan::{Plan, Variant},
};

/// The width at which the time of one more is measured.
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

/// Measures, and fills the numbers in; whether it came to its end.
pub fn calibrate(
    session: &Session,
    plan: &mut Plan,
    dtype: Dtype,
    talk: &mut Talk<'_>,
) -> Result<bool> {
    for index in 0..plan.variants.len() {
        let variant = plan.variants[index].clone();
        let Some((_, b, m)) = variant.matched.filter(|_| lacks(plan, &variant)) else { continue };
        let at = |width| Variant { particles: Some(width), ..variant.clone() };
        let (one, probe) = (at(1), at(PROBE));
        let tree = Variant {
            id: "calibration".into(),
            method: "treasure".into(),
            beam_width: Some(b),
            tree_width: Some(m),
            groups: 1,
            ..Variant::default()
        };
        for reward in 0..plan.rewards.len() {
            let bench = Bench::new(session, plan, dtype, talk.cancel);
            let seconds = |variant: &Variant, sample: usize| -> Result<Option<f64>> {
                let asked = bench.asked(variant, Some(reward))?;
                let made = bench.sample(&asked, (0, sample), Watch::default())?;
                Ok(made.map(|sample| sample.cost.seconds))
            };
            // The first run pays for lazy loading; the others are measured.
            let warm = seconds(&probe, 0)?;
            let (Some(_), Some(whole), Some(first), Some(probed)) =
                (warm, seconds(&tree, 1)?, seconds(&one, 2)?, seconds(&probe, 2)?)
            else {
                return Ok(false);
            };
            // Some of the time may not depend on the width, and time is noisy.
            let each = ((probed - first) / (PROBE - 1) as f64).max(probed / (20 * PROBE) as f64);
            let count = (1.0 + (whole - first) / each).round().max(1.0) as usize;
            let name = plan.rewards[reward].name.clone();
            (talk.say)(Said::Line(&format!(
                "calibrated {}: N = {count} for {name} ({whole:.2} s of ({b},{m}), {each:.3} s a particle)",
                variant.id
            )));
            plan.variants[index].particles_by_reward.insert(name, count);
        }
    }
    Ok(true)
}
