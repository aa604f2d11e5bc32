//! The methods: each file holds one method's options and wires its parts into the one loop.
//!
//! [`Method`] is all of them as data: what a request names, what a plan stores. Adding one is a file
//! here and a line in the list below.

mod base;
mod best_of_n;
mod code;
mod dfs;
mod dream;
mod dsearch;
mod dts;
mod fk;
mod fk_reference;
mod greedy;
mod iterref;
mod llada;
mod naive_tree;
mod pg;
mod refine;
mod smc;
mod svdd;
mod treasure;
mod treeg;
mod walk;

pub use base::{Base, Fhs};
pub use best_of_n::BestOfN;
pub use code::Code;
pub use dfs::Dfs;
pub use dream::{Alg, Dream};
pub use dsearch::{Dsearch, Fall, WideWhen};
pub use dts::{Backup, Dts, DtsStar, Policy};
pub use fk::FkSteering;
pub use fk_reference::FkReference;
pub use greedy::Greedy;
pub use iterref::IterRef;
pub use llada::{Llada, Remasking};
pub use naive_tree::NaiveTree;
pub use pg::Pg;
pub use refine::{Accept, Inner, Pick, Refine};
pub use smc::Smc;
pub use svdd::Svdd;
pub use treasure::Treasure;
pub use treeg::Treeg;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Error, Key, Observer, Outcome, Problem, Progress, Result, Tempering, run::Stepper,
    select::Temper,
};

/// What a method is expected to spend on one sample, before any saving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nominal {
    /// Sequences run through the denoiser.
    pub nfe: u64,
    /// Views scored by the reward.
    pub reward_calls: u64,
}

impl Nominal {
    /// Counts of a method; numbers beyond what can be counted stay at the largest.
    pub fn new(nfe: usize, reward_calls: usize) -> Self {
        Self { nfe: nfe as u64, reward_calls: reward_calls as u64 }
    }
}

/// What a method holds in memory at once, at the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtOnce {
    /// Sequences: parents, children and their completions.
    pub sequences: u64,
    /// States whose prediction is held.
    pub states: u64,
}

impl AtOnce {
    /// States of which each has so many completions.
    pub fn completed(states: usize, each: usize) -> Self {
        Self { sequences: states.saturating_mul(each.max(1)) as u64, states: states as u64 }
    }
}

/// A search method with its options.
///
/// A method draws from nothing but its key: the same problem and key give the same outcome.
pub trait Search: Send + Sync {
    /// The name users know it by.
    fn name(&self) -> &'static str;

    /// Refuses options outside their domain.
    fn check(&self) -> Result<()>;

    /// The per-step width that the paper calls NFE: m of a tree, N of a population, else 1.
    fn width(&self) -> usize {
        1
    }

    /// What a sample with so many masks costs, before any saving.
    fn nominal_cost(&self, masks: usize) -> Nominal;

    /// What is held in memory at once for a sample with so many masks: by default what one of its steps
    /// asks for.
    fn at_once(&self, masks: usize) -> AtOnce {
        let (cost, steps, width) = (self.nominal_cost(masks), masks.max(1) as u64, self.width());
        let states = cost.nfe.div_ceil(steps).max(width as u64);
        AtOnce { sequences: states.max(cost.reward_calls.div_ceil(steps)), states }
    }

    /// Whether the last population is a weighted sample of a law, from which an answer can be drawn.
    fn is_sampler(&self) -> bool {
        false
    }

    /// Every option, as it goes into traces.
    fn plan(&self) -> Value;

    /// The method at the start of a problem, before its first step. Options have been checked.
    fn begin(&self, problem: &Problem<'_>, key: Key) -> Result<Box<dyn Stepper>>;

    /// Runs to the end.
    fn run(&self, problem: &Problem<'_>, key: Key, observer: &mut dyn Observer) -> Result<Outcome> {
        let mut run = problem.run(self, key, observer)?;
        while run.step()? == Progress::More {}
        run.finish()
    }
}

/// Tempering from its options.
fn temper(rule: Tempering, gamma: Option<f64>, share: Option<f64>) -> Temper {
    Temper { rule, gamma, share: share.unwrap_or(Temper::default().share) }
}

/// A plan without what came after the first edition and stands at its default, so that the plans of old
/// runs stay as they were.
fn plan_since<T: Serialize + Default>(options: &T, new: &[&str]) -> Value {
    let (paper, mut plan) = (plan_of(&T::default()), plan_of(options));
    if let Value::Object(options) = &mut plan {
        options
            .retain(|name, value| !new.contains(&name.as_str()) || paper.get(name) != Some(value));
    }
    plan
}

/// A method's options as JSON. Options are plain data, so this cannot fail; if it did, the plan would
/// say so instead of the options.
fn plan_of(options: &impl Serialize) -> Value {
    serde_json::to_value(options).unwrap_or_else(|error| error.to_string().into())
}

macro_rules! methods {
    ($($(#[$doc:meta])* $variant:ident($options:ty) = $name:literal),+ $(,)?) => {
        /// A search method as data: its name under the key `method`, its options beside it.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "method")]
        pub enum Method {
            $($(#[$doc])* #[serde(rename = $name)] $variant($options)),+
        }

        impl Method {
            /// The name of every method.
            pub const NAMES: &[&str] = &[$($name),+];

            /// A method by name, with the options of its paper.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant(<$options>::default())),)+
                    _ => None,
                }
            }

            /// The method with its options.
            pub fn search(&self) -> &dyn Search {
                match self {
                    $(Self::$variant(options) => options),+
                }
            }
        }

        $(impl From<$options> for Method {
            fn from(options: $options) -> Self {
                Self::$variant(options)
            }
        })+
    };
}

methods! {
    /// Tree search with resubstitution: the paper's method and its descendants.
    Treasure(Treasure) = "treasure",
    /// The model alone, ancestral sampling.
    Base(Base) = "base",
    /// The model alone, first-hitting sampling.
    Fhs(Fhs) = "fhs",
    /// First hitting, always the likeliest token.
    Greedy(Greedy) = "greedy",
    /// The model alone, as LLaDA's own sampler runs it.
    Llada(Llada) = "llada",
    /// The model alone, as Dream's own sampler runs it.
    Dream(Dream) = "dream",
    /// The best of N samples.
    Bon(BestOfN) = "bon",
    /// Feynman–Kac steering: resampled particles.
    Fk(FkSteering) = "fk",
    /// Feynman–Kac steering as its reference code runs it.
    FkReference(FkReference) = "fk-reference",
    /// The best of N candidates at every step.
    Svdd(Svdd) = "svdd",
    /// The best of N candidates at every block of steps.
    Code(Code) = "code",
    /// Tree search that branches by parallel sampling.
    NaiveTree(NaiveTree) = "naive-tree",
    /// Fully adapted sequential Monte Carlo: particles that look at their own tokens.
    Smc(Smc) = "smc",
    /// Particle Gibbs: sweeps of particles along a reference.
    Pg(Pg) = "pg",
    /// Sampling from a tree of rollouts.
    Dts(Dts) = "dts",
    /// Search in a tree of rollouts or tokens.
    DtsStar(DtsStar) = "dts-star",
    /// One path that goes back where it promises less than unguided ones.
    Dfs(Dfs) = "dfs",
    /// Tree search over sampled completions, for few steps.
    Treeg(Treeg) = "treeg",
    /// The best of N candidates in chains whose number falls.
    Dsearch(Dsearch) = "dsearch",
    /// Renoising by Multiple-Try Metropolis, on the way and at the end.
    IterRef(IterRef) = "iterref",
    /// From a finished text: mask some of it again, search anew, keep what is better.
    Refine(Refine) = "refine",
}

impl Method {
    /// The name users know it by.
    pub fn name(&self) -> &'static str {
        self.search().name()
    }

    /// Its options with their names, without the method's own.
    pub fn options(&self) -> Map<String, Value> {
        match plan_of(self) {
            Value::Object(mut options) => {
                options.remove("method");
                options
            }
            _ => Map::new(),
        }
    }

    /// A method by name, with `defaults` laid over its paper's options and `given` over those. An
    /// option that the method does not have, or a value that it cannot take, is an error that names it.
    pub fn from_options(
        name: &str,
        defaults: &Map<String, Value>,
        given: &Map<String, Value>,
    ) -> Result<Self> {
        let Some(plain) = Self::named(name) else {
            return Err(Error::NoMethod { name: name.into() });
        };
        let mut options = plain.options();
        // Another sampler brings its own steps along.
        if given.get("sampler").is_some_and(|sampler| options.get("sampler") != Some(sampler)) {
            for option in ["steps", "remask", "eta"] {
                options.remove(option);
            }
        }
        options.extend(defaults.iter().map(|(key, value)| (key.clone(), value.clone())));
        let with = |options: &Map<String, Value>| {
            let mut all = options.clone();
            all.insert("method".into(), name.into());
            serde_json::from_value::<Self>(all.into())
        };
        let mut all = options.clone();
        all.extend(given.iter().map(|(key, value)| (key.clone(), value.clone())));
        // Together they may make sense where one by one they do not; the loop finds who is to blame.
        let sound = with(&all).is_ok();
        for (key, value) in given {
            if sound {
                options = all;
                break;
            }
            let before = options.insert(key.clone(), value.clone());
            if let Err(error) = with(&options) {
                if before.is_none() && !plain.could_have(key) {
                    return Err(Error::NoUse { method: name.into(), option: key.clone() });
                }
                return Err(Error::option(key, value.clone(), &error));
            }
        }
        let method =
            with(&options).map_err(|error| Error::option(name, options.clone().into(), &error))?;
        // What the method does not give back, it had no use for.
        let kept = method.options();
        if let Some(option) = given.keys().find(|key| !kept.contains_key(*key)) {
            return Err(Error::NoUse { method: name.into(), option: option.clone() });
        }
        method.search().check()?;
        Ok(method)
    }

    fn could_have(&self, option: &str) -> bool {
        self.options().contains_key(option)
    }

    /// The methods that have an option of this name.
    pub fn with_option(option: &str) -> Vec<&'static str> {
        let has = |name: &&&str| Self::named(name).is_some_and(|method| method.could_have(option));
        Self::NAMES.iter().filter(has).copied().collect()
    }

    /// The option of a method that more of a budget goes into, if there is one.
    pub fn width_option(method: &str) -> Option<&'static str> {
        let options = ["iterations", "particles", "tree_width", "final_rounds", "rounds"];
        options.into_iter().find(|option| Self::with_option(option).contains(&method))
    }
}
