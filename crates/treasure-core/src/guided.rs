//! Classifier-free guidance: a denoiser whose prediction is pushed away from the one without a prompt.
//!
//! logits = u + (s + 1)(c − u) with c the logits given the prompt and u those with every given position
//! masked (LLaDA's `cfg_scale` s; Nie et al., 2024, unsupervised guidance). A state costs two forward
//! passes and is counted as two.

use crate::{
    Answer, Denoiser, Encoding, Error, Facts, MaskedSeq, Question, Result, State, Want,
    answer_from_rows,
};

/// A denoiser under classifier-free guidance.
pub struct Guided<'a> {
    inner: &'a dyn Denoiser,
    /// The positions that are given from the start.
    given: Vec<usize>,
    scale: f64,
}

/// Both forward passes of a state.
struct Pair {
    with: Encoding,
    without: Encoding,
    bare: MaskedSeq,
}

impl<'a> Guided<'a> {
    /// A denoiser guided away from what it would say without the given positions of a start state.
    pub fn new(inner: &'a dyn Denoiser, start: &MaskedSeq, scale: f64) -> Self {
        let given = (0..start.len()).filter(|&at| start.get(at).is_some()).collect();
        Self { inner, given, scale }
    }

    fn combined(&self, question: &Question<'_>, pair: &Pair) -> Result<Answer> {
        let want = &question.want;
        let mut rows: Vec<usize> = match want.argmax {
            true => question.seq.masked().collect(),
            false => (want.top.iter().map(|at| at.position))
                .chain(want.draws.iter().map(|draw| draw.position))
                .chain(want.logprobs.iter().map(|&(position, _)| position))
                .chain(want.rows.iter().copied())
                .collect(),
        };
        rows.sort_unstable();
        rows.dedup();
        let ask = Want { rows: &rows, ..Want::default() };
        let bans = question.bans;
        let both = [
            Question { seq: question.seq, encoding: &pair.with, bans, want: ask },
            Question { seq: &pair.bare, encoding: &pair.without, bans, want: ask },
        ];
        let answers = self.inner.read(&both)?;
        let [with, without] = answers.as_slice() else {
            return Err(wrong(format!("expected 2 answers, got {}", answers.len())));
        };
        let guided = |(with, without): (&Vec<f32>, &Vec<f32>)| -> Vec<f64> {
            let logit = |(&with, &without): (&f32, &f32)| {
                let (with, without) = (f64::from(with), f64::from(without));
                match with == f64::NEG_INFINITY || without == f64::NEG_INFINITY {
                    true => with,
                    false => without + (self.scale + 1.0) * (with - without),
                }
            };
            with.iter().zip(without).map(logit).collect()
        };
        let mut made = with.rows.iter().zip(&without.rows).map(guided);
        let mut asked = rows.iter().peekable();
        // Masks that nobody asked about have no row.
        let all: Vec<Vec<f64>> = (question.seq.masked())
            .map(|at| match asked.next_if(|&&next| next == at) {
                Some(_) => made.next().unwrap_or_default(),
                None => Vec::new(),
            })
            .collect();
        Ok(answer_from_rows(question, &all))
    }
}

fn wrong(message: String) -> Error {
    Error::Denoiser { message, source: None }
}

impl Denoiser for Guided<'_> {
    fn facts(&self) -> &Facts {
        self.inner.facts()
    }

    fn passes(&self) -> u64 {
        2 * self.inner.passes()
    }

    fn row_invariant(&self) -> bool {
        self.inner.row_invariant()
    }

    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        let bare: Vec<MaskedSeq> =
            batch.iter().map(|state| state.seq.remask(self.given.iter().copied())).collect();
        let alone = bare.iter().zip(batch).map(|(seq, state)| State { seq, t: state.t });
        let all: Vec<State<'_>> = batch.iter().copied().chain(alone).collect();
        let mut with = self.inner.encode(&all)?;
        if with.len() != all.len() {
            return Err(wrong(format!("expected {} encodings, got {}", all.len(), with.len())));
        }
        let without = with.split_off(batch.len());
        let pairs = with.into_iter().zip(without).zip(bare);
        let pair = |((with, without), bare): ((Encoding, Encoding), MaskedSeq)| {
            let bytes = with.bytes() + without.bytes() + 4 * bare.len();
            Encoding::new(Pair { with, without, bare }, bytes)
        };
        Ok(pairs.map(pair).collect())
    }

    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        let answer = |question: &Question<'_>| match question.encoding.downcast::<Pair>() {
            Some(pair) => self.combined(question, pair),
            None => Err(wrong("the encoding is another denoiser's".into())),
        };
        batch.iter().map(answer).collect()
    }
}
