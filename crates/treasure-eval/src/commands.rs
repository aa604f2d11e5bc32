//! `treasure eval run`, `merge` and `report`, as functions for the command line to call.

use std::{
    fs,
    path::{Path, PathBuf},
};

use treasure_models::{LoadOptions, Resolver};

use crate::{
    Result,
    config::{Config, Size},
    error::at,
    plan::{Overrides, Plan},
    report,
    run::{self, TextWorld, World, calibrate},
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
    /// Which part; from Slurm's array variables when absent.
    pub shard: Option<Shard>,
    /// What differs from the preset.
    pub overrides: Overrides,
    /// Say nothing.
    pub quiet: bool,
}

/// What a run did.
#[derive(Clone, Debug)]
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
}

/// Runs a preset on real models.
pub fn run(options: &RunOptions, resolver: Resolver, load: &LoadOptions) -> Result<RunSummary> {
    let config = Config::load(&options.preset)?;
    let plan = Plan::new(&config, options.size, &options.overrides)?;
    let world = TextWorld::load(&plan, resolver, load)?;
    run_in(&world, plan, options)
}

/// Runs a plan in a given world.
pub fn run_in(world: &dyn World, mut plan: Plan, options: &RunOptions) -> Result<RunSummary> {
    let directory = options.out.clone().unwrap_or_else(|| Path::new("runs").join(&plan.name));
    let shard = match options.shard {
        Some(shard) => shard,
        None => Shard::from_slurm(|name| std::env::var(name).ok())?,
    };
    let mut say = |message: &str| {
        if !options.quiet {
            eprintln!("{message}");
        }
    };
    let hashes = world.hashes(&plan)?;
    if calibrate::is_needed(&plan) {
        settle_calibration(world, &mut plan, &directory, &hashes, &mut say)?;
    }
    let manifest = Manifest::new(plan, hashes);
    let plan = &manifest.plan;
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
    let mut reused = 0;
    for other in &options.reuse {
        let wanted: Vec<_> = cells.iter().filter(|cell| !store.is_finished(&cell.id)).collect();
        let found = store::reusable(other, &manifest, &wanted)?;
        say(&match &found.obstacle {
            Some(obstacle) => format!("{}: nothing to take over ({obstacle})", other.display()),
            None => format!(
                "{}: took over {} of {} samples",
                other.display(),
                found.rows.len(),
                wanted.len()
            ),
        });
        found.rows.iter().try_for_each(|row| store.append(row))?;
        reused += found.rows.len();
    }
    let ran = run::all(world, plan, shard, &mut store, &directory, options.quiet)?;
    Ok(RunSummary { fingerprint: manifest.fingerprint(), directory, shard, ran, already, reused })
}

/// Takes N of a wall-clock match from the folder's manifest, or measures it; other shards wait.
fn settle_calibration(
    world: &dyn World,
    plan: &mut Plan,
    directory: &Path,
    hashes: &[store::ModelHash],
    say: &mut dyn FnMut(&str),
) -> Result<()> {
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
        calibrate::calibrate(world, plan, say)?;
        Manifest::new(plan.clone(), hashes.to_vec()).create_or_match(directory)?;
    }
    Ok(())
}

/// Merges shard files into `samples.jsonl` and `timings.jsonl`; `out` is the first folder when absent.
pub fn merge(directories: &[PathBuf], out: Option<&Path>) -> Result<Merged> {
    let first = directories.first().cloned().unwrap_or_default();
    store::merge(directories, out.unwrap_or(&first))
}

/// What a report made.
#[derive(Clone, Debug)]
pub struct ReportSummary {
    /// The HTML file.
    pub html: PathBuf,
    /// CSV, Markdown, JSON Lines and SVG files.
    pub files: Vec<PathBuf>,
    /// Samples that were not there, by run.
    pub missing: Vec<(PathBuf, usize)>,
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
    for run in &runs {
        let name = &run.manifest.plan.name;
        for (file, text) in report::documents(run)? {
            write(format!("{name}{file}"), &text)?;
        }
        for figure in report::figures(run)? {
            write(format!("figures/{name}-{}.svg", figure.name), &figure.standalone())?;
        }
    }
    let html = out.join("report.html");
    fs::write(&html, report::html(&runs)?).map_err(at(&html, "writing"))?;
    let missing = runs.iter().map(|run| (run.directory.clone(), run.missing.len()));
    let missing = missing.filter(|(_, count)| *count > 0).collect();
    Ok(ReportSummary { html, files, missing })
}
