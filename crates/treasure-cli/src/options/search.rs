//! How to search: the method and its knobs.
//!
//! A knob that the chosen method does not turn is an error when given, never ignored: see
//! [`SearchOptions::check_used`].

use std::num::NonZeroUsize;

use clap::{
    Args, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use serde::Serialize;
use treasure_core::{Potential, Resampling, SelectKind, ValueKind, Width};

use crate::failure::{Failure, Outcome};

/// The search methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Tree search with resubstitution (the paper's method)
    Treasure,
    /// The model alone, ancestral sampling
    Base,
    /// The model alone, first-hitting sampling
    Fhs,
    /// First hitting, always the likeliest token
    Greedy,
    /// Best of N samples
    Bon,
    /// FK steering: resampled particles
    Fk,
    /// Best of N candidates at every step
    Svdd,
    /// Best of N candidates at every block of steps
    Code,
    /// Tree search that branches by parallel sampling
    NaiveTree,
}

impl Method {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Treasure => "treasure",
            Self::Base => "base",
            Self::Fhs => "fhs",
            Self::Greedy => "greedy",
            Self::Bon => "bon",
            Self::Fk => "fk",
            Self::Svdd => "svdd",
            Self::Code => "code",
            Self::NaiveTree => "naive-tree",
        }
    }
}

/// What best-of-N and FK run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SamplerKind {
    /// T steps, each reveals several tokens
    Ancestral,
    /// One token a step
    FirstHitting,
}

/// Reads a choice that the search knows by name.
macro_rules! by_name {
    ($kind:ty) => {
        PossibleValuesParser::new(<$kind>::ALL.iter().map(|choice| choice.name()))
            .try_map(|name| name.parse::<$kind>())
    };
}

/// The method and its knobs; absent knobs get the method's default.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Search")]
pub struct SearchOptions {
    /// Children of a node, the paper's b: `5`, `linear:8..2`, `cosine:8..2` or `8,8,4` [default: 5]
    #[arg(long, value_name = "WIDTH")]
    pub beam_width: Option<Width>,
    /// Nodes kept at a step, the paper's m [default: 2]
    #[arg(long, value_name = "WIDTH")]
    pub tree_width: Option<Width>,
    /// Positions a node branches at, the paper's k [default: 1]
    #[arg(long, value_name = "K", value_parser = crate::options::positive)]
    pub groups: Option<NonZeroUsize>,
    /// How children are valued [default: resubstitute]
    #[arg(long, value_name = "VALUE", value_parser = by_name!(ValueKind))]
    pub value: Option<ValueKind>,
    /// Which children live on [default: top]
    #[arg(long, value_name = "RULE", value_parser = by_name!(SelectKind))]
    pub select: Option<SelectKind>,
    /// After branching, also commit masks at least this probable (fewer steps, not exact)
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub commit_threshold: Option<f64>,
    /// A cheap reward that ranks the children first; only the best share is scored (not exact)
    #[arg(long, value_name = "SPEC")]
    pub screen: Option<String>,
    /// The share of the children that --screen lets through [default: 0.5]
    #[arg(long, value_name = "SHARE", requires = "screen", allow_negative_numbers = true)]
    pub screen_share: Option<f64>,
    /// What bon and fk run on [default: ancestral]
    #[arg(long, value_name = "SAMPLER")]
    pub sampler: Option<SamplerKind>,
    /// The N of bon, fk, svdd and code [default: 4, svdd 10]
    #[arg(long, value_name = "N", value_parser = crate::options::positive)]
    pub particles: Option<NonZeroUsize>,
    /// Ancestral steps T [default: 1000]
    #[arg(long, value_name = "T", value_parser = crate::options::positive)]
    pub steps: Option<NonZeroUsize>,
    /// How hard fk steers; multiplies the reward [default: 10]
    #[arg(long, value_name = "λ", allow_negative_numbers = true)]
    pub lambda: Option<f64>,
    /// The potential of fk [default: diff]
    #[arg(long, value_name = "POTENTIAL", value_parser = by_name!(Potential))]
    pub potential: Option<Potential>,
    /// Steps between two resamplings of fk [default: a fiftieth of the steps]
    #[arg(long, value_name = "N", value_parser = crate::options::positive)]
    pub resample_every: Option<NonZeroUsize>,
    /// How fk resamples [default: multinomial]
    #[arg(long, value_name = "SCHEME", value_parser = by_name!(Resampling))]
    pub resample: Option<Resampling>,
    /// Resample only when the effective sample size falls below this share of the particles
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub ess: Option<f64>,
    /// Sampled completions behind one value of fk or --value previous [default: 4]
    #[arg(long, value_name = "N", value_parser = crate::options::positive)]
    pub x0_samples: Option<NonZeroUsize>,
    /// Steps in a block of code [default: 20]
    #[arg(long, value_name = "N", value_parser = crate::options::positive)]
    pub block: Option<NonZeroUsize>,
}

impl SearchOptions {
    /// Refuses knobs that were given although the method does not turn them.
    pub fn check_used(&self, method: Method) -> Outcome<()> {
        match self.unused(method).first() {
            None => Ok(()),
            Some((option, methods)) => {
                let methods: Vec<_> = methods.iter().map(|method| method.name()).collect();
                Err(Failure::new(format!("{option}: method {} has no use for it", method.name()))
                    .hint(format!(
                        "leave it out, or choose a method that uses it: --method {}",
                        methods.join(" | ")
                    )))
            }
        }
    }

    /// Refuses knobs that were given although none of several methods turns them.
    pub fn check_used_by_one(&self, methods: &[Method]) -> Outcome<()> {
        let [first, rest @ ..] = methods else { return Ok(()) };
        for (option, users) in self.unused(*first) {
            if rest.iter().all(|method| !users.contains(method)) {
                let users: Vec<_> = users.iter().map(|method| method.name()).collect();
                return Err(Failure::new(format!(
                    "{option}: no method of --methods has a use for it"
                ))
                .hint(format!("leave it out, or compare with {}", users.join(" or "))));
            }
        }
        Ok(())
    }

    /// The same knobs without those that a method does not turn.
    #[must_use]
    pub fn only_for(&self, method: Method) -> Self {
        let mut kept = self.clone();
        for (option, _) in self.unused(method) {
            match option {
                "--beam-width" => kept.beam_width = None,
                "--tree-width" => kept.tree_width = None,
                "--groups" => kept.groups = None,
                "--value" => kept.value = None,
                "--select" => kept.select = None,
                "--commit-threshold" => kept.commit_threshold = None,
                "--sampler" => kept.sampler = None,
                "--particles" => kept.particles = None,
                "--steps" => kept.steps = None,
                "--lambda" => kept.lambda = None,
                "--potential" => kept.potential = None,
                "--resample-every" => kept.resample_every = None,
                "--resample" => kept.resample = None,
                "--ess" => kept.ess = None,
                "--x0-samples" => kept.x0_samples = None,
                "--block" => kept.block = None,
                "--screen" => kept.screen = None,
                _ => kept.screen_share = None,
            }
        }
        kept
    }

    /// Knobs that were given although the method does not turn them, with the methods that do.
    fn unused(&self, method: Method) -> Vec<(&'static str, &'static [Method])> {
        use Method::{Base, Bon, Code, Fk, NaiveTree, Svdd, Treasure};
        let given: [(bool, &'static str, &'static [Method]); 18] = [
            (self.beam_width.is_some(), "--beam-width", &[Treasure, NaiveTree]),
            (self.tree_width.is_some(), "--tree-width", &[Treasure, NaiveTree]),
            (self.groups.is_some(), "--groups", &[Treasure]),
            (self.value.is_some(), "--value", &[Treasure]),
            (self.select.is_some(), "--select", &[Treasure]),
            (self.commit_threshold.is_some(), "--commit-threshold", &[Treasure]),
            (self.sampler.is_some(), "--sampler", &[Bon, Fk, Svdd, Code]),
            (self.particles.is_some(), "--particles", &[Bon, Fk, Svdd, Code]),
            (self.steps.is_some(), "--steps", &[Base, Bon, Fk, Svdd, Code, NaiveTree]),
            (self.lambda.is_some(), "--lambda", &[Fk]),
            (self.potential.is_some(), "--potential", &[Fk]),
            (self.resample_every.is_some(), "--resample-every", &[Fk]),
            (self.resample.is_some(), "--resample", &[Fk]),
            (self.ess.is_some(), "--ess", &[Fk]),
            (self.x0_samples.is_some(), "--x0-samples", &[Treasure, Fk]),
            (self.block.is_some(), "--block", &[Code]),
            (self.screen.is_some(), "--screen", &[Treasure]),
            (self.screen_share.is_some(), "--screen-share", &[Treasure]),
        ];
        given
            .into_iter()
            .filter(|(given, _, methods)| *given && !methods.contains(&method))
            .map(|(_, option, methods)| (option, methods))
            .collect()
    }
}
