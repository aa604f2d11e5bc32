//! Rows of a matrix where they lie in a mapped file.

use std::sync::Arc;

use crate::{gguf::BlockType, source::Mapping};

/// Rows of a matrix as a file stores them: whole blocks, one row after another. All lie inside the file.
#[derive(Clone, Debug)]
pub(crate) struct MappedRows {
    pub(super) map: Arc<Mapping>,
    pub(super) kind: BlockType,
    pub(super) offset: usize,
    pub(super) row_bytes: usize,
    pub(super) rows: usize,
    /// Where each row lies, if not in order.
    pub(super) order: Option<Arc<[u32]>>,
}

impl MappedRows {
    /// Rows of zeros in no file.
    pub(crate) fn zeros(kind: BlockType, rows: usize, width: usize) -> Option<Self> {
        let row_bytes = width / kind.numbers() * kind.bytes();
        let map = Arc::new(Mapping::zeros(rows * row_bytes)?);
        Some(Self { map, kind, offset: 0, row_bytes, rows, order: None })
    }

    /// How numbers are stored.
    pub(crate) fn kind(&self) -> BlockType {
        self.kind
    }

    /// The bytes of a row.
    pub(crate) fn row(&self, row: usize) -> &[u8] {
        let row = self.order.as_ref().map_or(row, |order| order[row] as usize);
        &self.map.bytes()[self.offset + row * self.row_bytes..][..self.row_bytes]
    }

    /// Bytes of all rows.
    pub(crate) fn bytes(&self) -> usize {
        self.rows * self.row_bytes
    }

    /// Rows `first..first + count` of these.
    pub(crate) fn part(mut self, first: usize, count: usize) -> Option<Self> {
        if self.order.is_some() || first.checked_add(count).is_none_or(|end| end > self.rows) {
            return None;
        }
        self.offset += first * self.row_bytes;
        self.rows = count;
        Some(self)
    }

    /// The same rows in another order: row `r` is the present row `place(r)`.
    pub(crate) fn reordered(mut self, place: impl Fn(usize) -> usize) -> Option<Self> {
        if self.order.is_some() {
            return None;
        }
        let order: Vec<u32> = (0..self.rows).map(|row| place(row) as u32).collect();
        if order.iter().any(|&row| row as usize >= self.rows) {
            return None;
        }
        self.order = Some(order.into());
        Some(self)
    }
}
