//! What a forward pass leaves for a later one over nearly the same sequence.

/// Keys and values of every position of a sequence, layer by layer and before rotation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    tokens: Vec<u32>,
    layers: Vec<[Vec<f32>; 2]>,
}

impl Past {
    /// Nothing yet of a sequence.
    pub(super) fn of(tokens: &[u32]) -> Self {
        Self { tokens: tokens.to_vec(), layers: Vec::new() }
    }

    /// Adds the keys and values of the next layer, in order of positions.
    pub(super) fn push(&mut self, keys: Vec<f32>, values: Vec<f32>) {
        self.layers.push([keys, values]);
    }

    /// Keys and values of a layer at a position.
    pub(super) fn at(&self, layer: usize, position: usize) -> [&[f32]; 2] {
        self.layers[layer].each_ref().map(|all| {
            let width = all.len() / self.tokens.len();
            &all[position * width..][..width]
        })
    }

    /// Whether it can stand for a position of a sequence: same length, same token there.
    pub(super) fn covers(&self, tokens: &[u32], position: usize) -> bool {
        self.tokens.len() == tokens.len() && self.tokens[position] == tokens[position]
    }

    /// Its size in memory.
    pub fn bytes(&self) -> usize {
        4 * (self.tokens.len() + self.layers.iter().flatten().map(Vec::len).sum::<usize>())
    }
}
