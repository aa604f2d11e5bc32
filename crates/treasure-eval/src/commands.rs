//! `treasure eval run`, `merge` and `report`, as functions for the command line to call.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use serde::Serialize;
use treasure::{Session, models::Dtype};

use crate::{
    Result,
    config::{Config, Size},
    error::at,
    plan::{Overrides, Plan},
    report,
    run::{self, Bench, Said, Talk, calibrate},
    shard::Shard,
    store::{self, Finished, Manifest, Merged, Store},
};

/// What `treasure eval run` was asked for.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// A preset's name or a config's path.
    pub preset: String,
    /// How large.
    pub size: Size,
    /// The folder; `runs/PRESET` when absent.
    pub out: Option<PathBuf>,
    /// Continue a run that was cut short.
    pub resume: bool,
    /// Folders of other runs whose rows are taken over where they are the same.
    pub reuse: Vec<PathBuf>,
    /// Which part.
    pub shard: Shard,
    /// What differs from the preset.
    pub overrides: Overrides,
}

/// What a run did.
#[derive(Clone, Debug, Serialize)]
pub struct RunSummary {
    /// The folder.
    pub directory: PathBuf,
    /// The shard that was run.
    pub shard: Shard,
    /// Samples computed now.
    pub ran: usize,
    /// Samples that were there before.
    pub already: usize,
    /// Samples taken over from other runs.
    pub reused: usize,
    /// The fingerprint of the run.
    pub fingerprint: String,
    /// Whether it was interrupted; what is missing can be made with `resume`.
    pub interrupted: bool,
}

impl fmt::Display for RunSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, plan) = (self.directory.display(), &self.fingerprint);
        write!(f, "{place}: {} samples made, {} were there", self.ran, self.already)?;
        if self.reused > 0 {
            write!(f, ", {} taken over", self.reused)?;
        }
        if self.interrupted {
            f.write_str("; interrupted, resuming goes on")?;
        }
        write!(f, "   plan {plan}")
    }
}

/// Runs a preset or a config on the models of a session.
pub fn run(options: &RunOptions, session: &Session, talk: &mut Talk<'_>) -> Result<RunSummary> {
    let config = Config::load(&options.preset)?;
    let plan = Plan::new(&config, options.size, &options.overrides)?;
    run_plan(plan, options, session, talk)
}

/// Runs a plan on the models of a session.
pub fn run_plan(
    mut plan: Plan,
    options: &RunOptions,
    session: &Session,
    talk: &mut Talk<'_>,
) -> Result<RunSummary> {
    let directory = options.out.clone().unwrap_or_else(|| Path::new("runs").join(&plan.name));
    let (shard, dtype) = (options.shard, options.overrides.dtype);
    let hashes = store::hashes(session, &plan, dtype)?;
    if calibrate::is_needed(&plan)
        && !settle_calibration(session, &mut plan, (&directory, dtype), &hashes, talk)?
    {
        let (fingerprint, interrupted) = (Manifest::new(plan, hashes).fingerprint(), true);
        let (ran, already, reused) = (0, 0, 0);
        return Ok(RunSummary { directory, shard, ran, already, reused, fingerprint, interrupted });
    }
    let manifest = Manifest::new(plan, hashes);
    let plan = &manifest.plan;
    let mut say = |message: &str| (talk.say)(Said::Line(message));
    let mut store = Store::open(&directory, &manifest, shard, options.resume, &mut say)?;
    let cells = shard.cells(plan);
    let already = cells.iter().filter(|cell| store.is_finished(&cell.id)).count();
    say(&format!(
        "{} ({}): {} samples in shard {}/{}, {already} done before; plan {} in {}",
        plan.title,
        plan.size.name(),
        cells.len(),
        shard.index,
        shard.count,
        manifest.fingerprint(),
        directory.display()
    ));
    let bench = Bench::new(session, plan, dtype, talk.cancel);
    let mut reused = 0;
    for other in &options.reuse {
        let wanted: Vec<_> = cells.iter().filter(|cell| !store.is_finished(&cell.id)).collect();
        let mut found = store::reusable(other, &manifest, &wanted)?;
        let (place, count, all) = (other.display(), found.rows.len(), wanted.len());
        let judged = if found.unjudged { ", to be judged again" } else { "" };
        say(&match &found.obstacle {
            Some(obstacle) => format!("{place}: nothing to take over ({obstacle})"),
            None => format!("{place}: took over {count} of {all} samples{judged}"),
        });
        for row in &mut found.rows {
            for sample in row.samples.iter_mut().filter(|_| found.unjudged) {
                bench.judge(sample, &plan.prompts[row.prompt])?;
            }
            store.append(row)?;
        }
        reused += found.rows.len();
    }
    let ran = run::all(&bench, shard, &mut store, &directory, talk.say)?;
    let (fingerprint, interrupted) = (manifest.fingerprint(), ran.interrupted);
    let ran = ran.samples;
    Ok(RunSummary { directory, shard, ran, already, reused, fingerprint, interrupted })
}

/// Takes N of a wall-clock match from the folder's manifest, or measures it; other shards wait. Whether
/// it came to its end.
fn settle_calibration(
    session: &Session,
    plan: &mut Plan,
    (directory, dtype): (&Path, Dtype),
    hashes: &[store::ModelHash],
    talk: &mut Talk<'_>,
) -> Result<bool> {
    fs::create_dir_all(directory).map_err(at(directory, "creating"))?;
    let path = directory.join("calibration.lock");
    let lock = fs::File::create(&path).map_err(at(&path, "creating"))?;
    lock.lock().map_err(at(&path, "locking"))?;
    if directory.join("manifest.json").exists() {
        let found = Manifest::read(directory)?;
        for variant in &mut plan.variants {
            if let Some(known) = found.plan.variants.iter().find(|known| known.id == variant.id) {
                variant.particles_by_reward.clone_from(&known.particles_by_reward);
            }
        }
    }
    if calibrate::is_needed(plan) {
        if !calibrate::calibrate(session, plan, dtype, talk)? {
            return Ok(false);
        }
        Manifest::new(plan.clone(), hashes.to_vec()).create_or_match(directory)?;
    }
    Ok(true)
}

/// Merges shard files into `samples.jsonl` and `timings.jsonl`; `out` is the first folder when absent.
pub fn merge(directories: &[PathBuf], out: Option<&Path>) -> Result<Merged> {
    let first = directories.first().cloned().unwrap_or_default();
    store::merge(directories, out.unwrap_or(&first))
}

/// What a report made.
#[derive(Clone, Debug, Serialize)]
pub struct ReportSummary {
    /// The HTML file.
    pub html: PathBuf,
    /// CSV, Markdown, JSON Lines and SVG files.
    pub files: Vec<PathBuf>,
    /// Samples that were not there, by run.
    pub missing: Vec<Missing>,
}

/// Samples that a run does not have yet.
#[derive(Clone, Debug, Serialize)]
pub struct Missing {
    /// The run's folder.
    pub directory: PathBuf,
    /// How many.
    pub samples: usize,
}

/// Writes the report of one or several runs: `report.html` in `out` (the first folder when absent),
/// with the tables of each run as CSV and Markdown and the figures as SVG.
pub fn report(directories: &[PathBuf], out: Option<&Path>) -> Result<ReportSummary> {
    let runs: Vec<Finished> =
        directories.iter().map(|directory| Finished::read(directory)).collect::<Result<_>>()?;
    let first = directories.first().ok_or_else(|| crate::Error::Invalid {
        what: "eval report".into(),
        expected: "at least one folder".into(),
        got: "none".into(),
    })?;
    let out = out.unwrap_or(first);
    fs::create_dir_all(out).map_err(at(out, "creating"))?;
    let mut files = Vec::new();
    let mut write = |name: String, text: &str| -> Result<()> {
        let path = out.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(at(folder, "creating"))?;
        }
        fs::write(&path, text).map_err(at(&path, "writing"))?;
        files.push(path);
        Ok(())
    };
    let mut analysed = Vec::new();
    for run in &runs {
        let analysis = report::Analysis::of(run);
        let (name, figures) = (&run.manifest.plan.name, analysis.figures()?);
        for (file, text) in analysis.documents()? {
            write(format!("{name}{file}"), &text)?;
        }
        for figure in &figures {
            write(format!("figures/{name}-{}.svg", figure.name), &figure.standalone())?;
        }
        analysed.push((analysis, figures));
    }
    let html = out.join("report.html");
    fs::write(&html, report::html(&analysed)?).map_err(at(&html, "writing"))?;
    let missing = runs
        .iter()
        .map(|run| Missing { directory: run.directory.clone(), samples: run.missing.len() });
    let missing = missing.filter(|missing| missing.samples > 0).collect();
    Ok(ReportSummary { html, files, missing })
}
