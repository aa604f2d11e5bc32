//! Questions about a state answered within a constraint: from whole rows of logits.
//!
//! Top tokens, draws and log-probabilities are of a mask's row given that the text must be legal: as far
//! as the constraint looks ahead ([`Ahead`]), otherwise of the row restricted to its legal set. Draws of
//! one text see those before them; the likeliest tokens of all masks are the likeliest *legal*
//! completion. [`Answer::top_mass`] and [`Answer::draw_mass`] lead back to the model's own law.

use std::sync::Arc;

use crate::{
    Ahead, Answer, Candidate, Draw, Error, Fills, Legal, MaskedSeq, Result, TokenId, TokenSet, Want,
};

/// A state's prediction under a constraint: completes its children.
pub struct Prediction {
    masks: Vec<usize>,
    rows: Vec<Arc<Within>>,
    fills: Arc<dyn Fills>,
}

impl std::fmt::Debug for Prediction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prediction({} masks)", self.masks.len())
    }
}

impl Prediction {
    /// The likeliest legal completion with these tokens placed.
    pub fn complete(&self, placed: &[(usize, TokenId)]) -> Result<Vec<TokenId>> {
        self.fills.with(placed).ok_or_else(|| Error::Invalid {
            what: "constraint",
            expected: "tokens that leave a legal completion".into(),
            got: format!("{placed:?}"),
        })
    }

    /// The log-probability of a token at a masked position, among the legal ones there.
    pub fn logprob(&self, position: usize, token: TokenId) -> f64 {
        let row = self.masks.binary_search(&position).ok().map(|index| &self.rows[index]);
        row.map_or(f64::NEG_INFINITY, |row| row.logprob(token))
    }

    /// What a completion's token at a masked position adds to log p: padding behind its end, nothing.
    pub fn cost(&self, whole: &[TokenId], position: usize) -> f64 {
        let Ok(index) = self.masks.binary_search(&position) else { return 0.0 };
        let (row, token) = (&self.rows[index], whole[position]);
        match self.fills.is_padding(whole, position) {
            true => 0.0,
            false => row.logprob(token).max(LEAST),
        }
    }

    /// log p of the tokens that a completion has at the masks.
    pub fn log_p(&self, whole: &[TokenId]) -> f64 {
        self.masks.iter().map(|&position| self.cost(whole, position)).sum()
    }
}

/// What a token adds to log p that the model gives no chance at all.
pub(crate) const LEAST: f64 = -1e3;

fn log_sum(logits: &[f32]) -> f64 {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if top == f32::NEG_INFINITY {
        return f64::NEG_INFINITY;
    }
    let mass: f64 = logits.iter().map(|&logit| f64::from(logit - top).exp()).sum();
    f64::from(top) + mass.ln()
}

/// What log-probabilities within a constraint lack to the model's own.
#[derive(Clone, Copy)]
enum Lacks {
    /// All the same: the share of the row that is legal; nothing where padding is certain.
    Share(f64),
    /// Each its own, from the log sum of the model's row.
    Own(f64),
}

/// A row within the constraint, those that are not legal at −∞.
struct Within {
    logits: Vec<f32>,
    log_sum: f64,
    lacks: Lacks,
}

impl Within {
    /// A row restricted to its legal set.
    fn restricted(row: &[f32], legal: &TokenSet) -> Self {
        let mut logits = vec![f32::NEG_INFINITY; row.len()];
        for token in legal.iter() {
            if let Some(&logit) = row.get(token as usize) {
                logits[token as usize] = logit;
            }
        }
        let all = log_sum(row);
        let mut sum = log_sum(&logits);
        let share = if all == f64::NEG_INFINITY { 0.0 } else { sum - all };
        if sum == f64::NEG_INFINITY {
            // The model gives no legal token any mass: they count alike.
            for token in legal.iter() {
                if let Some(logit) = logits.get_mut(token as usize) {
                    *logit = 0.0;
                }
            }
            sum = log_sum(&logits);
        }
        Self { logits, log_sum: sum, lacks: Lacks::Share(share) }
    }

    /// A row as a look ahead sees it.
    fn ahead(ahead: &mut dyn Ahead, position: usize, row: &[f32]) -> Result<Self> {
        let mut logits = Vec::new();
        let own = ahead.row(position, row, &mut logits)?;
        let lacks = match ahead.is_padding(position) {
            true => Lacks::Share(0.0),
            false => Lacks::Own(own),
        };
        Ok(Self { logits, log_sum: 0.0, lacks })
    }

    fn logprob(&self, token: TokenId) -> f64 {
        let logit = self.logits.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY);
        if logit == f32::NEG_INFINITY { f64::NEG_INFINITY } else { f64::from(logit) - self.log_sum }
    }

    /// What a token's log-probability lacks to the model's own, whose row is given.
    fn lack(&self, token: TokenId, own: &[f32]) -> f64 {
        match self.lacks {
            Lacks::Share(share) => share,
            Lacks::Own(all) => f64::from(own[token as usize]) - all - self.logprob(token),
        }
    }

    fn top(&self, k: usize) -> Vec<Candidate> {
        let possible = |&(_, &logit): &(TokenId, &f32)| logit > f32::NEG_INFINITY;
        let mut ranked: Vec<(TokenId, &f32)> = (0..).zip(&self.logits).filter(possible).collect();
        let order =
            |a: &(TokenId, &f32), b: &(TokenId, &f32)| b.1.total_cmp(a.1).then(a.0.cmp(&b.0));
        if k > 0 && k < ranked.len() {
            ranked.select_nth_unstable_by(k - 1, order);
        }
        ranked.truncate(k);
        ranked.sort_by(order);
        let candidate = |(token, _)| Candidate { token, logprob: self.logprob(token) };
        ranked.into_iter().map(candidate).collect()
    }

    /// Inverse CDF over increasing ids.
    fn draw(&self, u: f64) -> TokenId {
        let (mut below, mut last) = (0.0, 0);
        for (token, &logit) in (0..).zip(&self.logits) {
            if logit > f32::NEG_INFINITY {
                last = token;
                below += (f64::from(logit) - self.log_sum).exp();
                if u < below {
                    break;
                }
            }
        }
        last
    }
}

/// A state as a constraint sees it: its rows, and what was worked out of them so far.
pub(crate) struct Outlook {
    masks: Vec<usize>,
    rows: Arc<Vec<Vec<f32>>>,
    legal: Box<dyn Legal>,
    ahead: Option<Box<dyn Ahead>>,
    within: Vec<Option<Arc<Within>>>,
    prediction: Option<Arc<Prediction>>,
}

impl std::fmt::Debug for Outlook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Outlook({} masks)", self.masks.len())
    }
}

impl Outlook {
    /// The rows of all masks of a state, in position order, and what is legal there.
    pub fn new(seq: &MaskedSeq, legal: Box<dyn Legal>, rows: Vec<Vec<f32>>) -> Result<Self> {
        let slices: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let ahead = legal.ahead(&slices)?;
        let masks: Vec<usize> = seq.masked().collect();
        let count = masks.len();
        let (rows, within) = (Arc::new(rows), vec![None; count]);
        Ok(Self { masks, rows, legal, ahead, within, prediction: None })
    }

    /// What is legal.
    pub fn legal(&self) -> &dyn Legal {
        &*self.legal
    }

    /// The memory it takes, about.
    pub fn bytes(&self) -> usize {
        2 * self.rows.iter().map(|row| 4 * row.len()).sum::<usize>()
    }

    fn index_of(&self, position: usize) -> Result<usize> {
        self.masks.binary_search(&position).map_err(|_| Error::Invalid {
            what: "question",
            expected: "a masked position".into(),
            got: position.to_string(),
        })
    }

    fn row(&mut self, index: usize) -> Result<Arc<Within>> {
        if let Some(known) = &self.within[index] {
            return Ok(known.clone());
        }
        let (position, row) = (self.masks[index], &self.rows[index]);
        let within = match &mut self.ahead {
            Some(ahead) => Within::ahead(&mut **ahead, position, row)?,
            None => restricted(&*self.legal, position, row),
        };
        let within = Arc::new(within);
        self.within[index] = Some(within.clone());
        Ok(within)
    }

    /// Answers a question.
    pub fn answer(&mut self, want: &Want<'_>) -> Result<Answer> {
        let mut answer = Answer::default();
        for at in want.top {
            let index = self.index_of(at.position)?;
            let row = self.row(index)?;
            let top = row.top(at.k);
            let lacks = top.iter().map(|best| row.lack(best.token, &self.rows[index])).collect();
            answer.top.push(top);
            answer.top_mass.push(lacks);
        }
        // Tokens of one text are drawn one after another, each given the ones before.
        for text in want.draws.chunk_by(|a, b| a.text == b.text) {
            let mut later: Option<Later> = None;
            for (number, &Draw { position, u, .. }) in text.iter().enumerate() {
                let index = self.index_of(position)?;
                let row = match &mut later {
                    None => self.row(index)?,
                    Some(later) => Arc::new(later.row(position, &self.rows[index])?),
                };
                let token = row.draw(u);
                if number + 1 < text.len() {
                    later.get_or_insert_with(|| self.later()).place(position, token)?;
                }
                answer.draws.push(token);
                answer.draw_mass.push(row.lack(token, &self.rows[index]));
            }
        }
        for &(position, token) in want.logprobs {
            let index = self.index_of(position)?;
            answer.logprobs.push(self.row(index)?.logprob(token));
        }
        for &position in want.rows {
            let index = self.index_of(position)?;
            answer.rows.push(self.row(index)?.logits.clone());
        }
        if want.argmax {
            let prediction = self.prediction()?;
            let whole = prediction.complete(&[])?;
            for (row, &position) in prediction.rows.iter().zip(&prediction.masks) {
                answer.argmax.push(whole[position]);
                if want.confidence {
                    answer.confidence.push(row.logprob(whole[position]));
                }
            }
            answer.prediction = Some(prediction);
        }
        Ok(answer)
    }

    fn prediction(&mut self) -> Result<Arc<Prediction>> {
        if let Some(known) = &self.prediction {
            return Ok(known.clone());
        }
        let rows: Vec<Arc<Within>> =
            (0..self.masks.len()).map(|index| self.row(index)).collect::<Result<_>>()?;
        // The scores of a completion: the look ahead's, or the rows as they are.
        let scores: Vec<&[f32]> = match self.ahead {
            Some(_) => rows.iter().map(|row| row.logits.as_slice()).collect(),
            None => self.rows.iter().map(Vec::as_slice).collect(),
        };
        let fills = self.legal.fills(&scores)?;
        let prediction = Arc::new(Prediction { masks: self.masks.clone(), rows, fills });
        self.prediction = Some(prediction.clone());
        Ok(prediction)
    }

    fn later(&self) -> Later {
        match &self.ahead {
            Some(ahead) => Later::Ahead(ahead.again()),
            None => Later::Legal(self.legal.again()),
        }
    }
}

/// What follows once tokens of a text were drawn.
enum Later {
    Ahead(Box<dyn Ahead>),
    Legal(Box<dyn Legal>),
}

impl Later {
    fn row(&mut self, position: usize, row: &[f32]) -> Result<Within> {
        match self {
            Self::Ahead(ahead) => Within::ahead(&mut **ahead, position, row),
            Self::Legal(legal) => Ok(restricted(&**legal, position, row)),
        }
    }

    fn place(&mut self, position: usize, token: TokenId) -> Result<()> {
        match self {
            Self::Ahead(ahead) => ahead.place(position, token),
            Self::Legal(legal) => legal.place(position, token),
        }
    }
}

/// A row restricted to what is legal at a position.
fn restricted(legal: &dyn Legal, position: usize, row: &[f32]) -> Within {
    let mut set = TokenSet::default();
    legal.allowed(position, row.len(), &mut set);
    Within::restricted(row, &set)
}
