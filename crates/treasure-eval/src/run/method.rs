//! A variant of the plan → the method of the search that it names.

use treasure_core::{
    Potential, Sampler, Search, Width,
    methods::{
        Base, BestOfN, Code, Fhs, FkReference, FkSteering, Greedy, NaiveTree, Svdd, Treasure,
    },
};

use crate::{Error, Result, config::Protocol, plan::Variant};

/// The method of a variant; `particles` overrides N where it depends on the reward.
pub fn method(
    variant: &Variant,
    protocol: Protocol,
    particles: Option<usize>,
) -> Result<Box<dyn Search>> {
    let invalid = |what: &str, expected: &str, got: &str| Error::Invalid {
        what: format!("{}: {what}", variant.id),
        expected: expected.into(),
        got: got.into(),
    };
    let ancestral = Sampler::Ancestral { steps: variant.steps };
    let sampler = match variant.sampler.as_deref() {
        None | Some("ancestral") => ancestral,
        Some("first-hitting") => Sampler::FirstHitting,
        Some(other) => return Err(invalid("sampler", "ancestral or first-hitting", other)),
    };
    let beam_width = Width::Constant(variant.beam_width.unwrap_or(1));
    let tree_width = Width::Constant(variant.tree_width.unwrap_or(1));
    let particles = particles.or(variant.particles).unwrap_or(1);
    let potential: Potential = match &variant.potential {
        Some(name) => name.parse()?,
        None => Potential::default(),
    };
    Ok(match variant.method.as_str() {
        "base" => Box::new(Base { steps: variant.steps }),
        "fhs" => Box::new(Fhs {}),
        "greedy" => Box::new(Greedy::default()),
        "bon" => Box::new(BestOfN { particles, sampler }),
        "fk" if protocol == Protocol::Fk => {
            let default = FkReference::default();
            Box::new(FkReference {
                particles,
                lambda: variant.lambda.unwrap_or(default.lambda),
                potential,
                resample_every: variant.resample_every.unwrap_or(default.resample_every),
                x0_samples: variant.x0_samples.unwrap_or(default.x0_samples),
            })
        }
        "fk" => {
            let default = FkSteering::default();
            Box::new(FkSteering {
                particles,
                sampler,
                lambda: variant.lambda.unwrap_or(default.lambda),
                potential,
                resample_every: variant.resample_every,
                x0_samples: variant.x0_samples.unwrap_or(default.x0_samples),
                ..default
            })
        }
        "svdd" => Box::new(Svdd { particles, sampler, ..Svdd::default() }),
        "code" => Box::new(Code { particles, sampler, ..Code::default() }),
        "naive-tree" => Box::new(NaiveTree {
            steps: variant.steps,
            beam_width,
            tree_width,
            ..NaiveTree::default()
        }),
        "treasure" => {
            let default = Treasure::default();
            let parsed = |name: &Option<String>| name.clone().unwrap_or_default();
            Box::new(Treasure {
                beam_width,
                tree_width,
                groups: variant.groups,
                value: match &variant.value {
                    Some(_) => parsed(&variant.value).parse()?,
                    None => default.value,
                },
                select: match &variant.select {
                    Some(_) => parsed(&variant.select).parse()?,
                    None => default.select,
                },
                x0_samples: variant.x0_samples.unwrap_or(default.x0_samples),
                ..default
            })
        }
        other => return Err(invalid("method", "a known method", other)),
    })
}
