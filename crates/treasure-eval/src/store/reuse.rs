//! Rows of another run that need not be computed again.
//!
//! Guarantee: a row is taken only where computing it would give the same row: same version and models,
//! same search on the same prompt with the same key. Only the seconds are the other run's. Where a plan
//! has other judges, texts are taken without scores, to be judged again.

use std::{collections::BTreeMap, path::Path};

use super::{Finished, Manifest};
use crate::{
    Result,
    config::Kind,
    plan::{Cell, Plan, PlannedReward},
    row::{Row, Timing},
};

/// What another run has for this one.
#[derive(Clone, Debug)]
pub struct Reusable {
    /// The rows, as this run would have written them.
    pub rows: Vec<Row>,
    /// Why none of the other run's rows can be taken, if that is so for all of them.
    pub obstacle: Option<String>,
    /// Whether the rows lack their scores, because the judges are not the other run's.
    pub unjudged: bool,
}

/// The rows of the run in `directory` that answer `wanted` cells of `manifest`'s plan.
pub fn reusable(directory: &Path, manifest: &Manifest, wanted: &[&Cell]) -> Result<Reusable> {
    let other = Finished::read(directory)?;
    let obstacle = obstacle(manifest, &other.manifest);
    if obstacle.is_some() {
        return Ok(Reusable { rows: Vec::new(), obstacle, unjudged: false });
    }
    let unjudged = !same_judges(manifest, &other.manifest);
    let (own, theirs) = (&manifest.plan, &other.manifest.plan);
    let cells = theirs.cells();
    let by_id: BTreeMap<&str, &Row> = other.rows.iter().map(|row| (row.id.as_str(), row)).collect();
    let fingerprint = manifest.fingerprint();
    let rows = wanted.iter().filter(|cell| !own.traced(cell)).filter_map(|cell| {
        let same = cells.iter().find(|their| same_work((own, cell), (theirs, their)))?;
        let mut row = adopt(own, cell, &fingerprint, by_id.get(same.id.as_str())?)?;
        if unjudged {
            row.samples.iter_mut().for_each(|sample| sample.scores.clear());
        }
        Some(row)
    });
    Ok(Reusable { rows: rows.collect(), obstacle: None, unjudged })
}

/// Whether each text carries the numbers of every judge of a plan.
fn same_judges(own: &Manifest, other: &Manifest) -> bool {
    let (a, b) = (&own.plan, &other.plan);
    a.ppl == b.ppl
        && a.ppl_of == b.ppl_of
        && a.rewards.iter().all(|reward| b.rewards.contains(reward))
}

/// The first thing about two runs that makes all their rows differ.
fn obstacle(own: &Manifest, other: &Manifest) -> Option<String> {
    let (a, b) = (&own.plan, &other.plan);
    if a.kind != Kind::Search || b.kind != Kind::Search {
        return Some("only searches can be shared".into());
    }
    let precision = |plan: &Plan| plan.precision.clone().unwrap_or_else(|| "f32".into());
    let settings = [
        ("version", own.version.clone(), other.version.clone()),
        ("protocol", format!("{:?}", a.protocol), format!("{:?}", b.protocol)),
        ("seed", a.seed.to_string(), b.seed.to_string()),
        ("model", a.model.clone(), b.model.clone()),
        ("precision", precision(a), precision(b)),
        ("length", a.length.to_string(), b.length.to_string()),
        ("min_length", a.min_length.to_string(), b.min_length.to_string()),
    ];
    if let Some((what, own, other)) = settings.into_iter().find(|(_, own, other)| own != other) {
        return Some(format!("{what}: {other} there, {own} here"));
    }
    // What a search needs is among the other run's models too; a judge may be new.
    let changed =
        own.hashes.iter().filter(|hash| hash.name != "prompts").find(|hash| {
            other.hashes.iter().any(|theirs| theirs.name == hash.name && theirs != *hash)
        });
    changed.map(|hash| format!("{}: other contents", hash.name))
}

/// Whether two cells are the same search.
fn same_work((own, cell): (&Plan, &Cell), (other, their): (&Plan, &Cell)) -> bool {
    let aim = |reward: &PlannedReward| (reward.name.clone(), reward.spec.clone());
    let aims = |plan: &Plan| -> Vec<_> { plan.rewards.iter().map(aim).collect() };
    let reward = |plan: &Plan, cell: &Cell| cell.reward.map(|reward| aim(&plan.rewards[reward]));
    let shared = own.variants[cell.variant].shared;
    let theirs = aims(other);
    cell.continuation == their.continuation
        && own.prompts[cell.prompt] == other.prompts[their.prompt]
        && reward(own, cell) == reward(other, their)
        && (!shared || aims(own).iter().all(|aim| theirs.contains(aim)))
        && own.variants[cell.variant].same_work(&other.variants[their.variant])
}

/// Another run's row as this run's, with the texts and judges of this run's rewards.
fn adopt(plan: &Plan, cell: &Cell, fingerprint: &str, row: &Row) -> Option<Row> {
    let ours = |score: &str| {
        let name = score.split('/').next();
        score == "ppl" || plan.rewards.iter().any(|reward| Some(reward.name.as_str()) == name)
    };
    let mut samples = Vec::new();
    let mut search = Vec::new();
    let mut take = |index: usize| {
        let mut sample = row.samples[index].clone();
        sample.scores.retain(|score, _| ours(score));
        samples.push(sample);
        search.push(row.seconds(index));
    };
    let place = |name: &str| row.samples.iter().position(|s| s.reward.as_deref() == Some(name));
    match plan.variants[cell.variant].shared {
        true => {
            for reward in &plan.rewards {
                take(place(&reward.name)?);
            }
        }
        false => (0..row.samples.len()).for_each(&mut take),
    }
    let timing = row.timing.as_ref().map(|timing| Timing { search, judging: timing.judging });
    Some(Row {
        id: cell.id.clone(),
        plan: fingerprint.into(),
        variant: plan.variants[cell.variant].id.clone(),
        prompt: cell.prompt,
        continuation: cell.continuation,
        samples,
        branching: Vec::new(),
        variation: Vec::new(),
        timing,
    })
}
