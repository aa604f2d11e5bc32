//! How a product is shared out to threads: by rows and panels, never along k.

use std::ops::Range;

use super::ROWS_OF_TILES;

/// How rows and panels are shared out.
pub(super) struct Shares {
    rows: usize,
    /// Rows that stay together.
    grain: usize,
    blocks: usize,
    groups: usize,
    units: usize,
    lanes: usize,
}

impl Shares {
    pub fn new(rows: usize, grain: usize, words: usize, units: usize, from_file: bool) -> Self {
        // A block of rows stays in the second-level cache while panels stream past it. Tiles take a panel faster
        // than it comes, unless many rows share it.
        const BLOCK_BYTES: usize = 768 << 10;
        const BLOCK_BYTES_OF_TILES: usize = 1536 << 10;
        let (bytes, least, most) = if grain > 1 {
            (BLOCK_BYTES_OF_TILES, 64, ROWS_OF_TILES)
        } else {
            (BLOCK_BYTES, 56, 224)
        };
        // A panel that is widened out of a file costs more than rows that come from afar.
        let least = if from_file { most } else { least };
        let threads = rayon::current_num_threads();
        let most = (bytes / (4 * words.max(1))).clamp(least, most);
        let mut blocks = rows.div_ceil(most);
        if blocks > 1 {
            blocks = blocks.next_multiple_of(threads).min(rows.div_ceil(grain));
        }
        let groups = (8 * threads).div_ceil(blocks).min(units).max(1);
        Self { rows, grain, blocks, groups, units, lanes: threads.min(blocks) }
    }

    pub fn tasks(&self) -> usize {
        self.blocks * self.groups
    }

    /// Rows and units of a task. Neighbouring tasks take different blocks of rows, so that a thread tends
    /// to keep the block it has already copied.
    pub fn task(&self, task: usize) -> (usize, Range<usize>, Range<usize>) {
        let per_turn = self.lanes * self.groups;
        let first = task / per_turn * self.lanes;
        let lanes = self.lanes.min(self.blocks - first);
        let (group, lane) = (task % per_turn / lanes, task % per_turn % lanes);
        let block = first + lane;
        let part = |i: usize, parts: usize, of: usize| i * of / parts..(i + 1) * of / parts;
        let grains = part(block, self.blocks, self.rows.div_ceil(self.grain));
        let rows = grains.start * self.grain..(grains.end * self.grain).min(self.rows);
        (block, rows, part(group, self.groups, self.units))
    }
}
