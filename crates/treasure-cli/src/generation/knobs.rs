//! The knobs of a search after defaults, and the search they describe.
//!
//! A method has the knobs it turns; the others are `null` in the plan and an error when given.

use std::num::NonZeroUsize;

use serde::Serialize;
use treasure_core::{
    Potential, Resampling, Sampler, SelectKind, ValueKind, Width,
    methods::{Base, BestOfN, Code, FkReference, FkSteering, Greedy, NaiveTree, Svdd, Treasure},
};

use crate::{
    failure::{Failure, Outcome},
    options::search::{Method, SamplerKind, SearchOptions},
};

/// Ancestral steps of a run that does not say: those of the reference.
const STEPS: usize = 1000;
/// The share that a screen lets through unless told otherwise.
const SCREEN_SHARE: f64 = 0.5;

/// The knobs of a method, `null` where it has none.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Knobs {
    /// Children of a node.
    pub beam_width: Option<Width>,
    /// Nodes kept.
    pub tree_width: Option<Width>,
    /// Positions a node branches at.
    pub groups: Option<usize>,
    /// How children are valued.
    pub value: Option<ValueKind>,
    /// Which children live on.
    pub select: Option<SelectKind>,
    /// Confident commits.
    pub commit_threshold: Option<f64>,
    /// The cheap reward that ranks children first.
    pub screen: Option<String>,
    /// The share of the children that is scored exactly.
    pub screen_share: Option<f64>,
    /// What bon and fk run on.
    pub sampler: Option<SamplerKind>,
    /// The N of bon, fk, svdd and code.
    pub particles: Option<usize>,
    /// Ancestral steps.
    pub steps: Option<usize>,
    /// How hard fk steers.
    pub lambda: Option<f64>,
    /// The potential of fk.
    pub potential: Option<Potential>,
    /// Steps between resamplings.
    pub resample_every: Option<usize>,
    /// How fk resamples.
    pub resample: Option<Resampling>,
    /// The effective sample size that triggers resampling.
    pub ess: Option<f64>,
    /// Sampled completions behind one value.
    pub x0_samples: Option<usize>,
    /// Steps in a block.
    pub block: Option<usize>,
}

impl Knobs {
    /// The knobs of a method after defaults, for a sequence with `masks` masks.
    pub fn new(method: Method, given: &SearchOptions, masks: usize) -> Outcome<Self> {
        given.check_used(method)?;
        let number = |given: Option<NonZeroUsize>, default: usize| {
            Some(given.map_or(default, NonZeroUsize::get))
        };
        let mut knobs = Self::default();
        match method {
            Method::Treasure => {
                let default = Treasure::default();
                knobs.beam_width = Some(given.beam_width.clone().unwrap_or(default.beam_width));
                knobs.tree_width = Some(given.tree_width.clone().unwrap_or(default.tree_width));
                knobs.groups = number(given.groups, default.groups);
                knobs.value = Some(given.value.unwrap_or_default());
                knobs.select = Some(given.select.unwrap_or_default());
                knobs.commit_threshold = given.commit_threshold;
                knobs.screen.clone_from(&given.screen);
                knobs.screen_share =
                    given.screen.as_ref().map(|_| given.screen_share.unwrap_or(SCREEN_SHARE));
                if knobs.value == Some(ValueKind::Previous) {
                    knobs.x0_samples = number(given.x0_samples, default.x0_samples);
                } else if given.x0_samples.is_some() {
                    return Err(Failure::new(
                        "--x0-samples: this value needs no sampled completions",
                    )
                    .hint("leave it out, or choose --value previous"));
                }
            }
            Method::NaiveTree => {
                let default = NaiveTree::default();
                knobs.beam_width = Some(given.beam_width.clone().unwrap_or(default.beam_width));
                knobs.tree_width = Some(given.tree_width.clone().unwrap_or(default.tree_width));
                knobs.steps = number(given.steps, default.steps);
            }
            Method::Base => knobs.steps = number(given.steps, STEPS),
            Method::Fhs | Method::Greedy => {}
            Method::Bon | Method::Fk | Method::Svdd | Method::Code => {
                knobs.sampler = Some(given.sampler.unwrap_or(SamplerKind::Ancestral));
                if knobs.sampler == Some(SamplerKind::Ancestral) {
                    knobs.steps = number(given.steps, STEPS);
                } else if given.steps.is_some() {
                    return Err(Failure::new(
                        "--steps: first hitting takes one step a generated token",
                    )
                    .hint("leave it out, or choose --sampler ancestral"));
                }
                let fk = FkSteering { sampler: knobs.core_sampler(), ..FkSteering::default() };
                let particles = match method {
                    Method::Svdd => Svdd::default().particles,
                    Method::Code => Code::default().particles,
                    _ => fk.particles,
                };
                knobs.particles = number(given.particles, particles);
                if method == Method::Code {
                    knobs.block = number(given.block, Code::default().block);
                }
                if method == Method::Fk {
                    knobs.lambda = Some(given.lambda.unwrap_or(fk.lambda));
                    knobs.potential = Some(given.potential.unwrap_or_default());
                    knobs.resample_every = number(given.resample_every, fk.every(masks));
                    knobs.resample = Some(given.resample.unwrap_or_default());
                    knobs.ess = given.ess;
                    knobs.x0_samples = number(given.x0_samples, fk.x0_samples);
                }
            }
        }
        Ok(knobs)
    }

    /// The knobs of FK steering under the reference protocol, which fixes some of them.
    pub fn follow_reference(&mut self, given: &SearchOptions) -> Outcome<()> {
        let fixed = [
            (given.sampler.is_some(), "--sampler"),
            (given.steps.is_some(), "--steps"),
            (given.resample.is_some(), "--resample"),
            (given.ess.is_some(), "--ess"),
        ];
        if let Some((_, option)) = fixed.iter().find(|(given, _)| *given) {
            return Err(Failure::new(format!("{option}: the preset fk fixes it"))
                .hint("leave it out, or drop --preset fk"));
        }
        let every = FkReference::default().resample_every;
        self.steps = Some(1001);
        self.resample_every = Some(given.resample_every.map_or(every, NonZeroUsize::get));
        Ok(())
    }

    /// What a population runs on.
    fn core_sampler(&self) -> Sampler {
        match (self.sampler, self.steps) {
            (Some(SamplerKind::FirstHitting), _) => Sampler::FirstHitting,
            (_, steps) => Sampler::Ancestral { steps: steps.unwrap_or(STEPS) },
        }
    }

    /// The search these knobs describe.
    pub fn search(&self, method: Method) -> Box<dyn treasure_core::Method> {
        let widths = (self.beam_width.clone(), self.tree_width.clone());
        let particles = self.particles.unwrap_or(1);
        let sampler = self.core_sampler();
        match method {
            Method::Treasure => {
                let default = Treasure::default();
                Box::new(Treasure {
                    beam_width: widths.0.unwrap_or(default.beam_width),
                    tree_width: widths.1.unwrap_or(default.tree_width),
                    groups: self.groups.unwrap_or(default.groups),
                    value: self.value.unwrap_or_default(),
                    select: self.select.unwrap_or_default(),
                    x0_samples: self.x0_samples.unwrap_or(default.x0_samples),
                    commit_threshold: self.commit_threshold,
                    screen: self.screen_share,
                })
            }
            Method::NaiveTree => {
                let default = NaiveTree::default();
                Box::new(NaiveTree {
                    steps: self.steps.unwrap_or(default.steps),
                    beam_width: widths.0.unwrap_or(default.beam_width),
                    tree_width: widths.1.unwrap_or(default.tree_width),
                })
            }
            Method::Base => Box::new(Base { sampler }),
            Method::Fhs => Box::new(Base { sampler: Sampler::FirstHitting }),
            Method::Greedy => Box::new(Greedy {}),
            Method::Bon => Box::new(BestOfN { particles, sampler }),
            Method::Fk => Box::new(FkSteering {
                particles,
                sampler,
                lambda: self.lambda.unwrap_or(FkSteering::default().lambda),
                potential: self.potential.unwrap_or_default(),
                resample_every: self.resample_every,
                resample: self.resample.unwrap_or_default(),
                ess: self.ess,
                x0_samples: self.x0_samples.unwrap_or(FkSteering::default().x0_samples),
            }),
            Method::Svdd => Box::new(Svdd { particles, chains: 1, sampler }),
            Method::Code => {
                let block = self.block.unwrap_or(Code::default().block);
                Box::new(Code { particles, block, sampler })
            }
        }
    }
}
