//! Patterns as the constraint of a search: legal sets, draws and completions for any method.

use std::sync::Arc;

use treasure_core::{Bans, Constraint, Error, Fills, Legal, MaskedSeq, Result, TokenId, TokenSet};

use super::{Filled, Likeliest, Patterns};

impl From<super::Error> for Error {
    fn from(error: super::Error) -> Self {
        let message = error.to_string();
        let (what, rest) = message.split_once(": expected ").unwrap_or(("", &message));
        let (expected, got) = rest.rsplit_once(", got ").unwrap_or((rest, ""));
        let what = if what.is_empty() { String::new() } else { format!("{what}: ") };
        Self::Invalid { what: "constraint", expected: format!("{what}{expected}"), got: got.into() }
    }
}

impl Constraint for Patterns {
    fn bans(&self) -> &Bans {
        self.banned()
    }

    fn open(&self, state: &MaskedSeq) -> Result<Option<Box<dyn Legal>>> {
        Ok(Some(Box::new(self.fill(state)?)))
    }
}

impl Legal for Filled {
    fn allowed(&self, position: usize, _: usize, out: &mut TokenSet) {
        self.legal(position, out);
    }

    fn place(&mut self, position: usize, token: TokenId) -> Result<()> {
        Ok(self.reveal(position, token)?)
    }

    fn fills(&self, rows: &[Vec<f32>]) -> Result<Arc<dyn Fills>> {
        let mut index = vec![0; self.slots().len()];
        let masks = (0..index.len()).filter(|&position| self.slots()[position].is_none());
        masks.enumerate().for_each(|(row, position)| index[position] = row);
        Ok(Arc::new(self.likeliest(&|position| rows[index[position]].as_slice())?))
    }

    fn again(&self) -> Box<dyn Legal> {
        Box::new(self.clone())
    }
}

impl Fills for Likeliest {
    fn with(&self, placed: &[(usize, TokenId)]) -> Option<Vec<TokenId>> {
        Likeliest::with(self, placed)
    }
}
