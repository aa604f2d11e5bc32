//! Options that are chosen by name, with the names users type.

use serde::{Deserialize, Serialize};

use crate::{
    Error, Result,
    methods::{Dream, Llada, Search},
};

macro_rules! named {
    ($(#[$doc:meta])* $kind:ident, $what:literal, { $($(#[$item_doc:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $kind { $($(#[$item_doc])* $variant),+ }

        impl $kind {
            /// Every choice, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name users type.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $kind {
            type Err = $crate::Error;

            fn from_str(text: &str) -> $crate::Result<Self> {
                match text {
                    $($name => Ok(Self::$variant),)+
                    _ => Err($crate::Error::Invalid {
                        what: $what,
                        expected: [$($name),+].join(", "),
                        got: format!("{text:?}"),
                    }),
                }
            }
        }

        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let name = std::borrow::Cow::<'de, str>::deserialize(from)?;
                name.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use named;

named!(
    /// How TReASURe values a child.
    ValueKind, "value", {
        /// Fill the child's masks with the parent's likeliest tokens (Alg. 2).
        #[default]
        Resubstitute = "resubstitute",
        /// Sampled completions of the parent, without the child's token.
        Previous = "previous",
        /// The parent's argmax completion, without the child's token.
        PreviousArgmax = "previous-argmax",
        /// The argmax completion of the child's own prediction: one more forward pass per child.
        Posterior = "posterior",
    }
);

named!(
    /// How a tree picks the nodes that live on.
    SelectKind, "select", {
        /// The best m of all children (Alg. 3).
        #[default]
        Top = "top",
        /// Slot j competes only for children of slots up to j, which makes Theorem 3 true.
        Nested = "nested",
    }
);

named!(
    /// The potentials of Feynman–Kac steering.
    Potential, "potential", {
        /// exp(λ(r − r_previous)).
        #[default]
        Diff = "diff",
        /// exp(λ max of the rewards so far).
        Max = "max",
        /// exp(λ sum of the rewards so far).
        Add = "add",
        /// exp(λ r).
        Rt = "rt",
    }
);

named!(
    /// How particles are drawn by weight.
    Resampling, "resample", {
        /// Independent draws.
        #[default]
        Multinomial = "multinomial",
        /// One uniform number, evenly spaced.
        Systematic = "systematic",
        /// ⌊N w⌋ copies for sure, the rest drawn independently.
        Residual = "residual",
    }
);

named!(
    /// Whose prediction a particle is weighed by.
    WeighBy, "weigh by", {
        /// Its parent's, which was made before its last tokens were placed: the particle is weighed
        /// blindly, as the FK reference does.
        #[default]
        Parent = "parent",
        /// Its own, which its next step reuses.
        Own = "own",
    }
);

named!(
    /// How λ rises on the way to its full value; the last step always has it in full.
    Tempering, "tempering", {
        /// λ at every step.
        #[default]
        None = "none",
        /// λ·min(1, (1 + γ)ⁱ − 1) after i steps (DAS).
        Rising = "rising",
        /// The largest λ at which enough particles stay effective.
        Adaptive = "adaptive",
    }
);

named!(
    /// How many revealed tokens the ReMDM sampler masks again.
    Remask, "remask", {
        /// Each with chance min(η, what the schedule leaves room for); η is 0.008.
        #[default]
        Cap = "cap",
        /// Each with chance η times what the schedule leaves room for; η is 0.015.
        Rescale = "rescale",
        /// What the schedule leaves room for, shared out among the tokens by how unsure they were.
        Confidence = "confidence",
        /// None but in a loop at 9/10 of the tokens, from t = 0.55 to 0.05; η is 0.02.
        Loop = "loop",
    }
);

named!(
    /// Which text a search hands back.
    AnswerKind, "answer", {
        /// The method's own choice at its end (Alg. 3).
        #[default]
        Final = "final",
        /// The best complete text ever scored.
        BestSeen = "best-seen",
        /// A sampling method's sample: a member of the last population, drawn by weight.
        Draw = "draw",
    }
);

/// What a population runs on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "sampler", rename_all = "kebab-case")]
pub enum Sampler {
    /// Parallel ancestral sampling with T steps (Eq. 3).
    Ancestral {
        /// The number of steps T.
        #[serde(default = "thousand")]
        steps: usize,
    },
    /// First hitting, with a sampled token.
    FirstHitting,
    /// First hitting, with the likeliest token.
    Greedy,
    /// Ancestral sampling that masks some revealed tokens again (Wang et al., 2025), with T steps.
    Remdm {
        /// The number of steps T.
        #[serde(default = "thousand")]
        steps: usize,
        /// Which tokens are masked again.
        #[serde(default)]
        remask: Remask,
        /// η; by default that of the rule.
        #[serde(default)]
        eta: Option<f64>,
    },
    /// LLaDA's own.
    Llada(Llada),
    /// Dream's own.
    Dream(Dream),
}

/// The steps of ancestral sampling where nothing is said.
fn thousand() -> usize {
    1000
}

impl Sampler {
    /// How many steps it takes from a number of masks.
    pub fn steps(&self, masks: usize) -> usize {
        match self {
            Self::Ancestral { steps } | Self::Remdm { steps, .. } => *steps,
            Self::Llada(llada) => llada.steps.unwrap_or(masks),
            Self::Dream(dream) => dream.steps.unwrap_or(masks),
            Self::FirstHitting | Self::Greedy => masks,
        }
    }

    /// The forward passes of one sample with so many masks: a step that changes nothing needs none.
    pub fn passes(&self, masks: usize) -> usize {
        match self {
            Self::Remdm { steps, .. } => *steps,
            _ => self.steps(masks).min(masks),
        }
    }

    /// Refuses a sampler without steps, or a chance that is none.
    pub(crate) fn check(&self) -> Result<()> {
        match *self {
            Self::Ancestral { steps } => at_least_one("steps", steps),
            Self::Remdm { steps, eta, .. } => {
                at_least_one("steps", steps)?;
                share("eta", eta.unwrap_or(1.0))
            }
            Self::Llada(llada) => llada.check(),
            Self::Dream(dream) => dream.check(),
            Self::FirstHitting | Self::Greedy => Ok(()),
        }
    }

    /// The name users type.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ancestral { .. } => "ancestral",
            Self::FirstHitting => "first-hitting",
            Self::Greedy => "greedy",
            Self::Remdm { .. } => "remdm",
            Self::Llada(_) => "llada",
            Self::Dream(_) => "dream",
        }
    }

    /// Whose prediction weighs a particle unless an option says so: its own, except under ancestral
    /// sampling, where the FK reference weighs blindly.
    pub(crate) fn weigh_by(&self) -> WeighBy {
        match self {
            Self::Ancestral { .. } => WeighBy::Parent,
            _ => WeighBy::Own,
        }
    }
}

/// Refuses a count of 0.
pub(crate) fn at_least_one(what: &'static str, count: usize) -> Result<()> {
    if count > 0 {
        return Ok(());
    }
    Err(Error::Invalid { what, expected: "at least 1".into(), got: count.to_string() })
}

/// Refuses a number that is not finite and positive.
pub(crate) fn positive(what: &'static str, number: f64) -> Result<()> {
    if number.is_finite() && number > 0.0 {
        return Ok(());
    }
    Err(Error::Invalid {
        what,
        expected: "a finite number above 0".into(),
        got: number.to_string(),
    })
}

/// Refuses a number that is negative or not finite.
pub(crate) fn not_negative(what: &'static str, number: f64) -> Result<()> {
    if number.is_finite() && number >= 0.0 {
        return Ok(());
    }
    Err(Error::Invalid {
        what,
        expected: "a finite number of at least 0".into(),
        got: number.to_string(),
    })
}

/// Refuses a number outside (0, 1].
pub(crate) fn share(what: &'static str, number: f64) -> Result<()> {
    if number > 0.0 && number <= 1.0 {
        return Ok(());
    }
    Err(Error::Invalid { what, expected: "a number in (0, 1]".into(), got: number.to_string() })
}
