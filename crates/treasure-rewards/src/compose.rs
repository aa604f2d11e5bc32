//! Composition: one reward out of several, each scored once per text.
//!
//! Guarantees: equal rewards written twice are scored once; every number is checked here and nowhere else
//! against what its reward promised, so that a NaN or a positive log-probability names the reward and the text
//! it came from; batch sizes change no number.

use std::{collections::HashMap, sync::Arc};

use treasure_core::TokenId;

use crate::{
    Error, Explained, Interrupt, Range, Result, Spec, TextReward, Window,
    error::quoted,
    expr::Expr,
    spec::{Leaf, Node},
    window,
};

/// A text's total with its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Breakdown {
    /// The whole reward.
    pub total: f64,
    /// The parts as written with their values, in order; a weighted part has its weighted value.
    pub parts: Vec<(String, f64)>,
    /// The rules that the text does not meet though the reward grows with them.
    pub unmet: Vec<String>,
    /// What led to it: a lone reward's own detail, else one entry per reward that has some.
    pub detail: Option<serde_json::Value>,
}

/// A whole reward specification, ready to score.
pub struct Composite {
    name: String,
    leaves: Vec<Arc<dyn TextReward>>,
    root: Expr,
    parts: Vec<(String, Expr)>,
    /// The rewards that are rules which the whole grows with.
    rules: Vec<usize>,
    range: Range,
    batch: Option<usize>,
    interrupt: Interrupt,
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
        let expr = |node: &Node| Expr::new(node, &mut |written, _| places[written]);
        let root = expr(&spec.root);
        let ranges: Vec<Range> = leaves.iter().map(|leaf| leaf.range()).collect();
        let parts = spec.parts().into_iter();
        Ok(Self {
            name: spec.to_string(),
            range: root.of(&ranges),
            rules: rules(&root, &leaves),
            root,
            parts: parts.map(|part| (part.written.clone(), expr(part))).collect(),
            leaves,
            batch: None,
            interrupt: Interrupt::NEVER,
        })
    }

    /// A composite of one reward.
    pub fn single(reward: Arc<dyn TextReward>) -> Self {
        Self {
            name: reward.name().into(),
            root: Expr::Leaf(0),
            parts: vec![(reward.name().into(), Expr::Leaf(0))],
            rules: rules(&Expr::Leaf(0), std::slice::from_ref(&reward)),
            range: reward.range(),
            leaves: vec![reward],
            batch: None,
            interrupt: Interrupt::NEVER,
        }
    }

    /// Hands at most `size` texts at a time to each reward, instead of the reward's own batch size.
    #[must_use]
    pub fn with_batch_size(mut self, size: usize) -> Self {
        self.batch = Some(size.max(1));
        self
    }

    /// Ends between two batches when `interrupt` is raised.
    #[must_use]
    pub fn with_interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// The rules in it that the whole grows with: what a text that is wanted meets.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|&rule| self.leaves[rule].name())
    }

    /// The rewards it is made of, each once.
    pub fn leaves(&self) -> &[Arc<dyn TextReward>] {
        &self.leaves
    }

    /// The part of a text that the rewards together look at: a prefix of it that scores the same.
    pub fn seen<'a>(&self, text: &'a str) -> Result<&'a str> {
        window::seen(&self.leaves, text)
    }

    /// Every reward's row of every item, in batches, checked.
    fn columns<Item>(
        &self,
        items: &[Item],
        ask: impl Fn(&dyn TextReward, &[Item]) -> Result<Vec<Explained>>,
        show: impl Fn(&Item) -> String,
    ) -> Result<Vec<Vec<Explained>>> {
        let mut columns = Vec::with_capacity(self.leaves.len());
        for leaf in &self.leaves {
            let range = leaf.range();
            let mut column = Vec::with_capacity(items.len());
            let batch = leaf.batch_size().map_or(items.len(), |own| self.batch.unwrap_or(own));
            for chunk in items.chunks(batch.max(1)) {
                self.interrupt.check(leaf.name())?;
                let mut rows = ask(leaf.as_ref(), chunk)?;
                if rows.len() != chunk.len() {
                    let (wanted, got) = (chunk.len(), rows.len());
                    let message =
                        format!("expected {wanted} numbers for {wanted} texts, got {got}");
                    return Err(Error::reward(leaf.name(), message));
                }
                for (row, item) in rows.iter_mut().zip(chunk) {
                    row.value = admitted(leaf.name(), range, row.value, || show(item))?;
                }
                column.extend(rows);
            }
            columns.push(column);
        }
        Ok(columns)
    }

    fn scores(&self, texts: &[&str]) -> Result<Vec<Vec<Explained>>> {
        let ask = |leaf: &dyn TextReward, texts: &[&str]| {
            Ok(leaf.score(texts)?.into_iter().map(Explained::plain).collect())
        };
        self.columns(texts, ask, |text| quoted(text))
    }

    /// Scores texts, part by part, without detail: texts that were scored before cost nothing.
    pub fn score_parts(&self, texts: &[&str]) -> Result<Vec<Breakdown>> {
        self.join(&self.scores(texts)?, texts, |text| quoted(text))
    }

    /// Scores texts, part by part, with the detail of each reward, which is always asked afresh.
    pub fn breakdown(&self, texts: &[&str]) -> Result<Vec<Breakdown>> {
        let ask = |leaf: &dyn TextReward, texts: &[&str]| leaf.explain(texts);
        self.join(&self.columns(texts, ask, |text| quoted(text))?, texts, |text| quoted(text))
    }

    /// Scores token ids of the reward's own vocabulary as they are, with no special tokens added.
    pub fn breakdown_ids(&self, ids: &[&[TokenId]]) -> Result<Vec<Breakdown>> {
        let ask = |leaf: &dyn TextReward, ids: &[&[TokenId]]| leaf.explain_ids(ids);
        let show = |ids: &&[TokenId]| format!("ids {ids:?}");
        self.join(&self.columns(ids, ask, show)?, ids, show)
    }

    /// The whole reward of one row of values.
    fn total(&self, values: &[f64], item: impl Fn() -> String) -> Result<f64> {
        admitted(&self.name, self.range, self.root.of(values), item)
    }

    fn join<Item>(
        &self,
        columns: &[Vec<Explained>],
        items: &[Item],
        show: impl Fn(&Item) -> String,
    ) -> Result<Vec<Breakdown>> {
        let row = |row: usize| {
            let values: Vec<f64> = columns.iter().map(|column| column[row].value).collect();
            let detail = match columns {
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
            let parts = self.parts.iter();
            let unmet = self.rules.iter().filter(|&&rule| values[rule] < 1.0);
            Ok(Breakdown {
                unmet: unmet.map(|&rule| self.leaves[rule].name().into()).collect(),
                total: self.total(&values, || show(&items[row]))?,
                parts: parts.map(|(written, part)| (written.clone(), part.of(&values))).collect(),
                detail,
            })
        };
        (0..items.len()).map(row).collect()
    }
}

impl TextReward for Composite {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        let columns = self.scores(texts)?;
        let mut values = vec![0.0; columns.len()];
        let total = |(row, text): (usize, &&str)| {
            for (value, column) in values.iter_mut().zip(&columns) {
                *value = column[row].value;
            }
            self.total(&values, || quoted(text))
        };
        texts.iter().enumerate().map(total).collect()
    }

    fn range(&self) -> Range {
        self.range
    }

    fn is_rule(&self) -> bool {
        matches!((&self.root, self.leaves.as_slice()), (Expr::Leaf(_), [only]) if only.is_rule())
    }

    fn prepare(&self) {
        self.leaves.iter().for_each(|leaf| leaf.prepare());
    }

    fn window(&self, text: &str) -> Result<Window> {
        match self.leaves.as_slice() {
            [only] => only.window(text),
            _ => Ok(Window::Whole),
        }
    }

    fn cut(&self, text: &str) -> Result<Option<usize>> {
        let cuts = self.leaves.iter().map(|leaf| leaf.cut(text));
        Ok(cuts.collect::<Result<Vec<_>>>()?.into_iter().flatten().min())
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        let rows = self.breakdown(texts)?;
        Ok(rows.into_iter().map(|row| Explained { value: row.total, detail: row.detail }).collect())
    }

    fn explain_ids(&self, ids: &[&[TokenId]]) -> Result<Vec<Explained>> {
        let rows = self.breakdown_ids(ids)?;
        Ok(rows.into_iter().map(|row| Explained { value: row.total, detail: row.detail }).collect())
    }

    fn batch_size(&self) -> Option<usize> {
        self.batch.or_else(|| {
            let own = self.leaves.iter().map(|leaf| leaf.batch_size());
            own.collect::<Option<Vec<_>>>()?.into_iter().max()
        })
    }
}

/// The rewards that are rules which the whole grows with, each once.
fn rules(root: &Expr, leaves: &[Arc<dyn TextReward>]) -> Vec<usize> {
    let mut found = root.rising_leaves();
    found.sort_unstable();
    found.dedup();
    found.retain(|&leaf| leaves[leaf].is_rule());
    found
}

/// The one door: a number that its reward promised, or an error that names the reward and the text.
fn admitted(name: &str, range: Range, value: f64, text: impl Fn() -> String) -> Result<f64> {
    range.admit(value).ok_or_else(|| {
        let expected = if value.is_finite() { range.to_string() } else { "a finite number".into() };
        Error::reward(name, format!("expected {expected}, got {value} for the text {}", text()))
    })
}
