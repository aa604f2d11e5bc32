//! Widths b(·) and m(·): a number of nodes as a function of how far the search has come.
//!
//! Guarantee: a checked width is at least 1 at every step. The paper allows any function of the masks
//! left; with n masks at the start and one reveal a step, step i has n − i masks left, so a width is
//! told as a function of i. Where a step commits more than one token the search ends before its
//! schedule does.

use std::{f64::consts::PI, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, Result};

/// A width for every step of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Width {
    /// The same at every step.
    Constant(usize),
    /// A straight line from the first step to the last.
    Linear {
        /// At the first step.
        from: usize,
        /// At the last step.
        to: usize,
    },
    /// Half a cosine wave from the first step to the last.
    Cosine {
        /// At the first step.
        from: usize,
        /// At the last step.
        to: usize,
    },
    /// Step by step; the last entry repeats.
    List(Vec<usize>),
}

impl Width {
    /// The width at a step out of `steps`.
    pub fn at(&self, step: usize, steps: usize) -> usize {
        let between = |from: usize, to: usize, share: f64| {
            (from as f64 + (to as f64 - from as f64) * share).round() as usize
        };
        let way = if steps > 1 { step.min(steps - 1) as f64 / (steps - 1) as f64 } else { 0.0 };
        match self {
            Self::Constant(width) => *width,
            Self::Linear { from, to } => between(*from, *to, way),
            Self::Cosine { from, to } => between(*from, *to, (1.0 - (PI * way).cos()) / 2.0),
            Self::List(widths) => widths.get(step).or(widths.last()).copied().unwrap_or(0),
        }
    }

    /// The largest width of any step.
    pub fn widest(&self) -> usize {
        match self {
            Self::Constant(width) => *width,
            Self::Linear { from, to } | Self::Cosine { from, to } => *from.max(to),
            Self::List(widths) => widths.iter().copied().max().unwrap_or(0),
        }
    }

    /// Refuses a width that is 0 somewhere; `what` names it in the error.
    pub fn check(&self, what: &'static str) -> Result<()> {
        let positive = match self {
            Self::Constant(width) => *width > 0,
            Self::Linear { from, to } | Self::Cosine { from, to } => *from > 0 && *to > 0,
            Self::List(widths) => !widths.is_empty() && widths.iter().all(|&width| width > 0),
        };
        if positive {
            return Ok(());
        }
        Err(Error::Invalid {
            what,
            expected: "at least 1 at every step".into(),
            got: self.to_string(),
        })
    }
}

impl From<usize> for Width {
    fn from(width: usize) -> Self {
        Self::Constant(width)
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(width) => write!(f, "{width}"),
            Self::Linear { from, to } => write!(f, "linear:{from}..{to}"),
            Self::Cosine { from, to } => write!(f, "cosine:{from}..{to}"),
            Self::List(widths) => {
                for (i, width) in widths.iter().enumerate() {
                    write!(f, "{}{width}", if i == 0 { "" } else { "," })?;
                }
                // A list of one entry is told apart from a constant by its comma.
                if widths.len() == 1 { write!(f, ",") } else { Ok(()) }
            }
        }
    }
}

/// `5`, `linear:8..2`, `cosine:8..2` or `8,8,4` (first to last step; the last entry repeats).
impl FromStr for Width {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = || Error::Invalid {
            what: "width",
            expected: "5, linear:8..2, cosine:8..2 or 8,8,4".into(),
            got: format!("{text:?}"),
        };
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| invalid());
        let width = if let Some((shape, range)) = text.split_once(':') {
            let (from, to) = range.split_once("..").ok_or_else(invalid)?;
            let (from, to) = (number(from)?, number(to)?);
            match shape {
                "linear" => Self::Linear { from, to },
                "cosine" => Self::Cosine { from, to },
                _ => return Err(invalid()),
            }
        } else if text.contains(',') {
            let text = text.strip_suffix(',').unwrap_or(text);
            Self::List(text.split(',').map(number).collect::<Result<_>>()?)
        } else {
            Self::Constant(number(text)?)
        };
        width.check("width")?;
        Ok(width)
    }
}

/// A constant is a number, anything else is its text.
impl Serialize for Width {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Constant(width) => serializer.serialize_u64(*width as u64),
            other => serializer.collect_str(other),
        }
    }
}

impl<'de> Deserialize<'de> for Width {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(usize),
            Text(String),
        }
        let width = match Written::deserialize(from)? {
            Written::Number(width) => Self::Constant(width),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom)?,
        };
        width.check("width").map_err(serde::de::Error::custom)?;
        Ok(width)
    }
}
