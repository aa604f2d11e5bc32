//! Composition: one reward out of several, each scored once per text.
//!
//! Guarantees: equal rewards written twice are scored once; every number is checked, so that a NaN
//! names the reward and the text it came from; batch sizes change no number.

use std::{collections::HashMap, sync::Arc};

use treasure_core::TokenId;

use crate::{
    Error, Explained, Range, Result, Spec, TextReward, Window,
    error::quoted,
    spec::{Kind, Leaf, Node},
    window,
};

/// An expression over the values of the leaves.
#[derive(Clone, Debug)]
enum Expr {
    Leaf(usize),
    Sum(Vec<Expr>),
    Weighted(f64, Box<Expr>),
    Min(Vec<Expr>),
    Product(Vec<Expr>),
    AtLeast(Box<Expr>, f64),
    AtMost(Box<Expr>, f64),
    Step(Box<Expr>, f64),
}

impl Expr {
    fn of(&self, leaves: &[f64]) -> f64 {
        match self {
            Self::Leaf(index) => leaves[*index],
            Self::Sum(parts) => parts.iter().map(|part| part.of(leaves)).sum(),
            Self::Weighted(weight, part) => weight * part.of(leaves),
            Self::Min(parts) => {
                parts.iter().map(|part| part.of(leaves)).fold(f64::INFINITY, f64::min)
            }
            Self::Product(parts) => parts.iter().map(|part| part.of(leaves)).product(),
            Self::AtLeast(part, threshold) => (part.of(leaves) - threshold).min(0.0),
            Self::AtMost(part, threshold) => (threshold - part.of(leaves)).min(0.0),
            Self::Step(part, threshold) => f64::from(part.of(leaves) >= *threshold),
        }
    }
}

/// A text's total with its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Breakdown {
    /// The whole reward.
    pub total: f64,
    /// The parts as written with their values, in order; a weighted part has its weighted value.
    pub parts: Vec<(String, f64)>,
    /// What led to it: a lone reward's own detail, else one entry per reward that has some.
    pub detail: Option<serde_json::Value>,
}

/// A whole reward specification, ready to score.
pub struct Composite {
    name: String,
    leaves: Vec<Arc<dyn TextReward>>,
    root: Expr,
    parts: Vec<(String, Expr)>,
    range: Range,
    batch: Option<usize>,
}

impl Composite {
    /// Builds every leaf of `spec` with `build`, once per distinct leaf.
    pub fn new(
        spec: &Spec,
        mut build: impl FnMut(&str, &Leaf) -> Result<Arc<dyn TextReward>>,
    ) -> Result<Self> {
        let mut leaves: Vec<Arc<dyn TextReward>> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for (written, leaf) in spec.leaves() {
            if !places.contains_key(written) {
                leaves.push(build(written, leaf)?);
                places.insert(written.into(), leaves.len() - 1);
            }
        }
        Ok(Self {
            name: spec.to_string(),
            root: expr(&spec.root, &places),
            parts: spec
                .parts()
                .into_iter()
                .map(|part| (part.written.clone(), expr(part, &places)))
                .collect(),
            range: spec.range(),
            leaves,
            batch: None,
        })
    }

    /// A composite of one reward.
    pub fn single(reward: Arc<dyn TextReward>) -> Self {
        Self {
            name: reward.name().into(),
            root: Expr::Leaf(0),
            parts: vec![(reward.name().into(), Expr::Leaf(0))],
            range: reward.range(),
            leaves: vec![reward],
            batch: None,
        }
    }

    /// Hands at most `size` texts at a time to each reward, instead of the reward's own batch size.
    #[must_use]
    pub fn with_batch_size(mut self, size: usize) -> Self {
        self.batch = Some(size.max(1));
        self
    }

    /// The rewards it is made of, each once.
    pub fn leaves(&self) -> &[Arc<dyn TextReward>] {
        &self.leaves
    }

    /// The part of a text that the rewards together look at: a prefix of it that scores the same.
    pub fn seen<'a>(&self, text: &'a str) -> Result<&'a str> {
        window::seen(&self.leaves, text)
    }

    /// Every reward's value of every text.
    fn columns(&self, texts: &[&str]) -> Result<Vec<Vec<f64>>> {
        let mut columns = Vec::with_capacity(self.leaves.len());
        for leaf in &self.leaves {
            let mut column = Vec::with_capacity(texts.len());
            for chunk in texts.chunks(self.batch_of(leaf.as_ref())) {
                let values = leaf.score(chunk)?;
                checked(leaf.name(), &values, chunk.len(), |row| quoted(chunk[row]))?;
                column.extend(values);
            }
            columns.push(column);
        }
        Ok(columns)
    }

    /// Scores texts, part by part, without detail: texts that were scored before cost nothing.
    pub fn score_parts(&self, texts: &[&str]) -> Result<Vec<Breakdown>> {
        let plain = |column: Vec<f64>| column.into_iter().map(Explained::plain).collect();
        let columns = self.columns(texts)?.into_iter().map(plain).collect();
        Ok(self.join(columns, texts.len()))
    }

    /// Scores texts, part by part, with the detail of each reward, which is always asked afresh.
    pub fn breakdown(&self, texts: &[&str]) -> Result<Vec<Breakdown>> {
        let mut columns = Vec::with_capacity(self.leaves.len());
        for leaf in &self.leaves {
            let mut column = Vec::with_capacity(texts.len());
            for chunk in texts.chunks(self.batch_of(leaf.as_ref())) {
                column.extend(leaf.explain(chunk)?);
            }
            let values: Vec<f64> = column.iter().map(|row| row.value).collect();
            checked(leaf.name(), &values, texts.len(), |row| quoted(texts[row]))?;
            columns.push(column);
        }
        Ok(self.join(columns, texts.len()))
    }

    /// Scores token ids of the reward's own vocabulary as they are, with no special tokens added.
    pub fn breakdown_ids(&self, ids: &[&[TokenId]]) -> Result<Vec<Breakdown>> {
        let mut columns = Vec::with_capacity(self.leaves.len());
        for leaf in &self.leaves {
            let mut column = Vec::with_capacity(ids.len());
            for chunk in ids.chunks(self.batch_of(leaf.as_ref())) {
                column.extend(leaf.explain_ids(chunk)?);
            }
            let values: Vec<f64> = column.iter().map(|row| row.value).collect();
            checked(leaf.name(), &values, ids.len(), |row| format!("ids {:?}", ids[row]))?;
            columns.push(column);
        }
        Ok(self.join(columns, ids.len()))
    }

    fn batch_of(&self, leaf: &dyn TextReward) -> usize {
        match leaf.batch_size() {
            usize::MAX => usize::MAX, // It makes its own batches.
            own => self.batch.unwrap_or(own).max(1),
        }
    }

    fn join(&self, columns: Vec<Vec<Explained>>, rows: usize) -> Vec<Breakdown> {
        let row = |row: usize| {
            let values: Vec<f64> = columns.iter().map(|column| column[row].value).collect();
            let detail = match columns.as_slice() {
                [only] => only[row].detail.clone(),
                several => {
                    let entries: serde_json::Map<_, _> = self
                        .leaves
                        .iter()
                        .zip(several)
                        .filter_map(|(leaf, column)| {
                            Some((leaf.name().to_string(), column[row].detail.clone()?))
                        })
                        .collect();
                    (!entries.is_empty()).then_some(entries.into())
                }
            };
            Breakdown {
                total: self.root.of(&values),
                parts: self
                    .parts
                    .iter()
                    .map(|(written, part)| (written.clone(), part.of(&values)))
                    .collect(),
                detail,
            }
        };
        (0..rows).map(row).collect()
    }
}

impl TextReward for Composite {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        let columns = self.columns(texts)?;
        let total = |row: usize| {
            let values: Vec<f64> = columns.iter().map(|column| column[row]).collect();
            self.root.of(&values)
        };
        Ok((0..texts.len()).map(total).collect())
    }

    fn range(&self) -> Range {
        self.range
    }

    fn window(&self, text: &str) -> Result<Window> {
        match self.leaves.as_slice() {
            [only] => only.window(text),
            _ => Ok(Window::Whole),
        }
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        let rows = self.breakdown(texts)?;
        Ok(rows.into_iter().map(|row| Explained { value: row.total, detail: row.detail }).collect())
    }

    fn explain_ids(&self, ids: &[&[TokenId]]) -> Result<Vec<Explained>> {
        let rows = self.breakdown_ids(ids)?;
        Ok(rows.into_iter().map(|row| Explained { value: row.total, detail: row.detail }).collect())
    }

    fn batch_size(&self) -> usize {
        self.batch
            .or_else(|| self.leaves.iter().map(|leaf| leaf.batch_size()).max())
            .unwrap_or(usize::MAX)
    }
}

fn expr(node: &Node, places: &HashMap<String, usize>) -> Expr {
    let all = |parts: &[Node]| parts.iter().map(|part| expr(part, places)).collect();
    let one = |part: &Node| Box::new(expr(part, places));
    match &node.kind {
        Kind::Leaf(_) => Expr::Leaf(places[&node.written]),
        Kind::Sum(parts) => Expr::Sum(all(parts)),
        Kind::Weighted(weight, part) => Expr::Weighted(*weight, one(part)),
        Kind::Min(parts) => Expr::Min(all(parts)),
        Kind::Product(parts) => Expr::Product(all(parts)),
        Kind::AtLeast(part, threshold) => Expr::AtLeast(one(part), *threshold),
        Kind::AtMost(part, threshold) => Expr::AtMost(one(part), *threshold),
        Kind::Step(part, threshold) => Expr::Step(one(part), *threshold),
    }
}

/// One finite number per text, or an error that names the reward and the text.
fn checked(
    name: &str,
    values: &[f64],
    wanted: usize,
    text: impl Fn(usize) -> String,
) -> Result<()> {
    if values.len() != wanted {
        let message = format!("expected {wanted} numbers for {wanted} texts, got {}", values.len());
        return Err(Error::reward(name, message));
    }
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(row) => Err(Error::reward(
            name,
            format!("expected a finite number, got {} for the text {}", values[row], text(row)),
        )),
    }
}
