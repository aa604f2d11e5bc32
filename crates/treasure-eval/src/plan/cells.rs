//! A plan → its cells, each with a name, a key and a weight.

use sha2::{Digest, Sha256};
use treasure_core::Key;

use super::Plan;
use crate::config::Kind;

/// One unit of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its place in the plan's order.
    pub index: usize,
    /// `VARIANT/REWARD/pNN/cNN`; the reward is `all` where one cell serves all.
    pub id: String,
    /// Which variant.
    pub variant: usize,
    /// Which reward; none where one cell serves all.
    pub reward: Option<usize>,
    /// Which prompt.
    pub prompt: usize,
    /// Which continuation.
    pub continuation: usize,
}

impl Plan {
    /// The cells in their order: continuation by continuation and prompt by prompt, so that a run cut
    /// short still has every method on its first prompts.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for continuation in 0..self.continuations {
            for prompt in 0..self.prompts.len() {
                for (variant, settings) in self.variants.iter().enumerate() {
                    if prompt >= settings.prompts {
                        continue;
                    }
                    let one_for_all = match self.kind {
                        Kind::Search => settings.serves_all_rewards(),
                        Kind::Branching => true,
                        Kind::Variation => false,
                    };
                    let rewards: Vec<_> = match one_for_all || self.rewards.is_empty() {
                        true => vec![None],
                        false => (0..self.rewards.len()).map(Some).collect(),
                    };
                    for reward in rewards {
                        let name =
                            reward.map_or("all", |reward| self.rewards[reward].name.as_str());
                        cells.push(Cell {
                            index: cells.len(),
                            id: format!(
                                "{}/{name}/p{:02}/c{:02}",
                                settings.id,
                                prompt + 1,
                                continuation + 1
                            ),
                            variant,
                            reward,
                            prompt,
                            continuation,
                        });
                    }
                }
            }
        }
        cells
    }

    /// The key of a cell's sample.
    pub fn key(&self, cell: &Cell) -> Key {
        let prompt = Sha256::digest(self.prompts[cell.prompt].as_bytes());
        let mut head = [0; 8];
        head.copy_from_slice(&prompt[..8]);
        Key::new(self.seed).fold(u64::from_le_bytes(head)).fold(cell.continuation as u64)
    }

    /// Whether a cell keeps its trace.
    pub fn traced(&self, cell: &Cell) -> bool {
        self.variants[cell.variant].trace && cell.continuation == 0 && cell.prompt < self.traces
    }

    /// How much work a cell is, for time left and for even shards; reward calls weigh as much as model calls.
    pub fn weight(&self, cell: &Cell) -> f64 {
        let (model, reward) = self.variants[cell.variant].nominal_cost(self.length);
        match self.kind {
            Kind::Search => 1.0 + model as f64 + reward as f64,
            Kind::Branching => 1.0 + self.length as f64,
            Kind::Variation => 1.0 + (self.completions * self.length / self.every.max(1)) as f64,
        }
    }
}
