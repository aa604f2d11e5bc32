//! Options that are chosen by name, with the names users type.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "sampler", rename_all = "kebab-case")]
pub enum Sampler {
    /// Parallel ancestral sampling with T steps (Eq. 3).
    Ancestral {
        /// The number of steps T.
        steps: usize,
    },
    /// First hitting, with a sampled token.
    FirstHitting,
    /// First hitting, with the likeliest token.
    Greedy,
}

impl Sampler {
    /// How many steps it takes from a number of masks.
    pub fn steps(&self, masks: usize) -> usize {
        match self {
            Self::Ancestral { steps } => *steps,
            Self::FirstHitting | Self::Greedy => masks,
        }
    }

    /// Refuses a sampler without steps.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Ancestral { steps: 0 } => Err(Error::Invalid {
                what: "steps",
                expected: "at least 1".into(),
                got: "0".into(),
            }),
            _ => Ok(()),
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
