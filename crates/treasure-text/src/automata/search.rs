//! Patterns as the constraint of a search: legal sets, draws and completions for any method.

use std::{ops::Range, sync::Arc};

use treasure_core::{Ahead, Bans, Constraint, Fills, Legal, MaskedSeq, Result, TokenId, TokenSet};

use super::{Filled, Likeliest, Outlook, Patterns};

impl Constraint for Patterns {
    fn bans(&self) -> &Bans {
        self.banned()
    }

    fn open(&self, state: &MaskedSeq) -> Result<Option<Box<dyn Legal>>> {
        Ok(Some(Box::new(self.fill(state)?)))
    }

    fn padding(&self, position: usize, token: TokenId) -> Range<usize> {
        Patterns::padding(self, position, token)
    }
}

impl Legal for Filled {
    fn allowed(&self, position: usize, _: usize, out: &mut TokenSet) {
        self.legal(position, out);
    }

    fn place(&mut self, position: usize, token: TokenId) -> Result<()> {
        Ok(self.reveal(position, token)?)
    }

    fn ahead(&self, rows: &[&[f32]]) -> Result<Option<Box<dyn Ahead>>> {
        let index = self.index_of_masks();
        Ok(self.outlook(&|position| rows[index[position]])?.map(|ahead| Box::new(ahead) as _))
    }

    fn fills(&self, rows: &[&[f32]]) -> Result<Arc<dyn Fills>> {
        let index = self.index_of_masks();
        Ok(Arc::new(self.likeliest(&|position| rows[index[position]])?))
    }

    fn again(&self) -> Box<dyn Legal> {
        Box::new(self.clone())
    }
}

impl Fills for Likeliest {
    fn with(&self, placed: &[(usize, TokenId)]) -> Option<Vec<TokenId>> {
        Likeliest::with(self, placed)
    }

    fn is_padding(&self, whole: &[TokenId], position: usize) -> bool {
        Likeliest::is_padding(self, whole, position)
    }
}

impl Ahead for Outlook {
    fn row(&mut self, position: usize, row: &[f32], out: &mut Vec<f32>) -> Result<f64> {
        Ok(Outlook::row(self, position, row, out)?)
    }

    fn place(&mut self, position: usize, token: TokenId) -> Result<()> {
        Ok(Outlook::place(self, position, token)?)
    }

    fn is_padding(&self, position: usize) -> bool {
        Outlook::is_padding(self, position)
    }

    fn again(&self) -> Box<dyn Ahead> {
        Box::new(self.clone())
    }
}
