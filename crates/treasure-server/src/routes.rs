//! The routes, one file a kind.

pub(crate) mod generate;
pub(crate) mod lists;
pub(crate) mod page;
pub(crate) mod score;
