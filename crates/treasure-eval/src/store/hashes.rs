//! Content hashes of every model, judge and prompt that a plan names.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};
use treasure::{
    Session,
    models::{Dtype, LoadOptions, Source},
    rewards::{Spec, spec::Leaf},
};

use super::{ModelHash, hash_directory, manifest::CARD};
use crate::{
    Result,
    error::at,
    plan::{Plan, hex},
};

/// What a run's rows depend on beside its plan; `dtype` is how the denoiser is held.
///
/// What comes from the hub is fetched first, so that a run and its continuation hash the same contents.
pub fn hashes(session: &Session, plan: &Plan, dtype: Dtype) -> Result<Vec<ModelHash>> {
    session.model(&plan.model, &LoadOptions { dtype, ..LoadOptions::default() })?;
    let resolver = session.store().resolver();
    let mut names = BTreeSet::from([plan.model.clone()]);
    let mut others = BTreeSet::new();
    let rewards = plan.rewards.iter().flat_map(|reward| {
        let judges = [&reward.accuracy, &reward.heldout, &reward.heldout_accuracy];
        judges.into_iter().flatten().chain([&reward.spec]).map(String::as_str)
    });
    let screens =
        plan.variants.iter().filter_map(|variant| variant.options.get("screen")?.as_str());
    let ppl = (!plan.rewards.is_empty()).then_some(plan.ppl.as_str());
    for spec in rewards.chain(screens).chain(ppl) {
        let parsed: Spec = spec.parse().map_err(treasure::Error::from)?;
        for (written, leaf) in parsed.leaves() {
            match leaf {
                Leaf::Judge(judge, _) => _ = names.insert(format!("pocket/{}", judge.model())),
                Leaf::Perplexity => _ = names.insert("pocket/scorer".into()),
                Leaf::Classifier { model, .. } | Leaf::Scorer { model } | Leaf::Nelbo { model } => {
                    if let Ok(Source::Hub(repo)) = resolver.resolve(model, None)
                        && repo.snapshot().is_none()
                    {
                        session.score(spec, &[])?;
                    }
                    names.insert(model.clone());
                }
                _ => _ = others.insert(written.to_owned()),
            }
        }
    }
    // A denoiser that was handed in is known by its name alone.
    if plan.model == "own" {
        names.remove(&plan.model);
        others.insert(plan.model.clone());
    }
    let mut hashes = Vec::new();
    for name in names {
        let found = resolver.resolve(&name, None);
        let source = found.map_err(|error| {
            treasure::Error::from(error).context(format!("model {name}: cannot be found"))
        })?;
        let mut sha256 = hash_source(&source)?;
        // Weights held in another type than usual give other numbers: that is another model.
        if name == plan.model && dtype != Dtype::default() {
            sha256 += &format!(" as {dtype}");
        }
        hashes.push(ModelHash { name, sha256 });
    }
    // A rule is its own text; a server or a program cannot be hashed, and the manifest says so.
    hashes.extend(others.into_iter().map(|name| ModelHash { name, sha256: "not a model".into() }));
    let prompts = hex(&Sha256::digest(plan.prompts.join("\n---\n").as_bytes()));
    hashes.push(ModelHash { name: "prompts".into(), sha256: prompts });
    Ok(hashes)
}

fn hash_source(source: &Source) -> Result<String> {
    Ok(match source {
        Source::Directory(path) => hash_directory(path)?,
        Source::File(path) => {
            let bytes = std::fs::read(path).map_err(at(path, "reading"))?;
            hex(&Sha256::digest(&bytes))
        }
        Source::Embedded { files, .. } => {
            let mut files: Vec<_> = files.iter().filter(|(name, _)| *name != CARD).collect();
            files.sort_by_key(|(name, _)| *name);
            let mut digest = Sha256::new();
            for (name, bytes) in files {
                digest.update(format!("{name} {}\n", bytes.len()));
                digest.update(bytes);
            }
            hex(&digest.finalize())
        }
        Source::Hub(repo) => match repo.snapshot() {
            Some(path) => hash_directory(&path)?,
            None => format!("{}@{}", repo.id, repo.revision),
        },
    })
}
