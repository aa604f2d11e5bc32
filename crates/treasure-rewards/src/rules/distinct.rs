//! `distinct:N`: the share of a text's n-grams of words that are not repeats. 1 means no repetition.
//!
//! The usual Dist-n of one text; a text too short to have an n-gram repeats nothing and gets 1.

use std::sync::Arc;

use super::{Fault, Scheme};
use crate::{Range, Result, TextReward, metrics, spec::Style};

pub(super) const SCHEME: Scheme = Scheme {
    name: "distinct",
    style: Style::Whole,
    wants: "the size of n-grams such as 2",
    missing: None,
    check: |arguments| size(&arguments[0]).map(drop),
    build: |name, arguments| {
        let size = size(&arguments[0]).map_err(|fault| fault.error(name))?;
        Ok(Arc::new(Distinct::new(name, size)))
    },
};

fn size(text: &str) -> Result<usize, Fault> {
    let size = text.parse().ok().filter(|&size| size >= 1);
    size.ok_or_else(|| {
        Fault::new(0, format!("expected a whole number of at least 1, got {text:?}"))
    })
}

/// A penalty on repeated n-grams.
#[derive(Debug)]
pub struct Distinct {
    name: String,
    size: usize,
}

impl Distinct {
    /// A reward called `name` on n-grams of `size` words (at least 1).
    pub fn new(name: impl Into<String>, size: usize) -> Self {
        Self { name: name.into(), size: size.max(1) }
    }
}

impl TextReward for Distinct {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        Ok(texts.iter().map(|text| metrics::dist(&[*text], self.size).unwrap_or(1.0)).collect())
    }

    fn range(&self) -> Range {
        Range::UNIT
    }
}
