//! What is asked about a row of logits, and the slow way to answer: from the whole row.

/// What is asked about one row of logits. Banned tokens have logit −∞ throughout.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowQuestion<'a> {
    /// Which hidden row.
    pub row: usize,
    /// Tokens without mass, in increasing order.
    pub banned: &'a [u32],
    /// Whether the likeliest token is wanted.
    pub best: bool,
    /// How many of the likeliest tokens are wanted.
    pub top: usize,
    /// Whether the logarithm of the normaliser is wanted.
    pub normaliser: bool,
    /// Uniform numbers in (0, 1): one token each by inverse CDF over increasing ids.
    pub draws: &'a [f64],
    /// Tokens whose logits are wanted.
    pub tokens: &'a [u32],
}

/// The answer to a [`RowQuestion`]; parts not asked for are empty. Parts that need a token are empty, too,
/// when every token is banned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowAnswer {
    /// The likeliest token and its logit; ties go to the lowest id.
    pub best: Option<(u32, f32)>,
    /// The likeliest tokens and their logits, best first, ties by lowest id.
    pub top: Vec<(u32, f32)>,
    /// `ln Σ exp(logit)`: subtract it from a logit for a log-probability. Also set when draws were asked.
    pub normaliser: Option<f64>,
    /// One token per draw.
    pub draws: Vec<u32>,
    /// One logit per token; −∞ for banned ones.
    pub logits: Vec<f32>,
}

impl RowAnswer {
    /// Answers a question from all logits of its row: what [`super::Forward::ask`] does unless an executor
    /// knows better.
    ///
    /// # Panics
    /// If the question names a token that does not exist.
    pub fn from_logits(mut logits: Vec<f32>, question: &RowQuestion<'_>) -> Self {
        for &token in question.banned {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
        let listed = question.tokens.iter().map(|&token| logits[token as usize]).collect();
        let mut answer = Self { logits: listed, ..Self::default() };
        let mut order: Vec<(u32, f32)> = (0..)
            .zip(logits.iter().copied())
            .filter(|(_, logit)| *logit != f32::NEG_INFINITY)
            .collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let Some(&(_, largest)) = order.first() else { return answer };
        answer.best = order.first().copied().filter(|_| question.best);
        answer.top = order.iter().take(question.top).copied().collect();
        if !question.normaliser && question.draws.is_empty() {
            return answer;
        }
        let mass = |logit: f32| f64::from(logit - largest).exp();
        let total: f64 = logits.iter().map(|&logit| mass(logit)).sum();
        answer.normaliser = Some(f64::from(largest) + total.ln());
        answer.draws = question
            .draws
            .iter()
            .map(|u| {
                let (mut below, mut chosen) = (0.0, 0);
                for (token, &logit) in (0..).zip(&logits) {
                    if logit != f32::NEG_INFINITY {
                        chosen = token;
                        below += mass(logit);
                        if below > u * total {
                            break;
                        }
                    }
                }
                chosen
            })
            .collect();
        answer
    }
}
