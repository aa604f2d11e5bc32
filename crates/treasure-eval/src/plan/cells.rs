//! A plan → its cells, each with a name, a key and a weight.

use treasure::{
    core::{Key, Nominal},
    sample_key,
};

use super::{Plan, Variant};
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
        let own = |variant: &Variant| variant.continuations.unwrap_or(self.continuations);
        let rewards = self.variants.iter().map(|variant| {
            let one_for_all = match self.kind {
                Kind::Search => self.serves_all_rewards(variant),
                Kind::Branching => true,
                Kind::Variation => false,
            };
            match one_for_all || self.rewards.is_empty() {
                true => vec![None],
                false => (0..self.rewards.len()).map(Some).collect(),
            }
        });
        let rewards: Vec<Vec<Option<usize>>> = rewards.collect();
        let mut cells = Vec::new();
        for continuation in 0..self.variants.iter().map(own).max().unwrap_or(0) {
            for prompt in 0..self.prompts.len() {
                for (variant, settings) in self.variants.iter().enumerate() {
                    if prompt >= settings.prompts || continuation >= own(settings) {
                        continue;
                    }
                    for &reward in &rewards[variant] {
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
        sample_key(self.seed, &self.prompts[cell.prompt], cell.continuation as u64)
    }

    /// Whether one cell of a variant serves every reward: its candidates are shared, or it makes no
    /// choice.
    pub fn serves_all_rewards(&self, variant: &Variant) -> bool {
        variant.shared || self.makes_no_choice(variant).is_some()
    }

    /// Whether a variant is a sample of the model alone.
    pub fn is_unguided(&self, variant: &Variant) -> bool {
        self.makes_no_choice(variant).is_some_and(|asked| asked.method.search().is_sampler())
    }

    /// What a variant asks for, if it has nothing to choose from: its one score is that of its answer.
    fn makes_no_choice(&self, variant: &Variant) -> Option<treasure::Plan> {
        let one = |asked: &treasure::Plan| {
            asked.method.search().nominal_cost(self.length).reward_calls <= 1
        };
        self.asked(variant, None).ok().filter(one)
    }

    /// What one sample of a variant costs before any saving.
    pub fn nominal_cost(&self, variant: &Variant) -> Nominal {
        let most = variant.particles_by_reward.iter().max_by_key(|(_, count)| **count);
        let reward = most.and_then(|(name, _)| self.rewards.iter().position(|r| r.name == *name));
        // A plan that was made or read has methods that can be asked for.
        let asked = self.asked(variant, reward).ok();
        asked.map_or(Nominal::default(), |asked| asked.method.search().nominal_cost(self.length))
    }

    /// Whether a cell keeps its trace.
    pub fn traced(&self, cell: &Cell) -> bool {
        self.variants[cell.variant].trace && cell.continuation == 0 && cell.prompt < self.traces
    }

    /// How much work a cell is, for time left and for even shards; reward calls weigh as much as model calls.
    pub fn weight(&self, cell: &Cell) -> f64 {
        match self.kind {
            Kind::Search => {
                let nominal = self.nominal_cost(&self.variants[cell.variant]);
                1.0 + nominal.nfe as f64 + nominal.reward_calls as f64
            }
            Kind::Branching => 1.0 + self.length as f64,
            Kind::Variation => 1.0 + (self.completions * self.length / self.every.max(1)) as f64,
        }
    }
}
