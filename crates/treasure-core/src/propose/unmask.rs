//! The samplers that LLaDA and Dream are published with: predict every open mask, keep the surest.
//!
//! At temperature 0 the tokens are the reference samplers' (ML-GSAI/LLaDA `generate.py`, Dream's
//! `diffusion_generate`), with two differences: the mask token is never a candidate (there it may be
//! predicted, and the step then places nothing), and a step that places nothing costs no forward pass.
//! What is drawn comes from the key, so that results repeat; under a constraint the tokens are those of
//! the likeliest legal completion.

mod row;

use std::sync::Arc;

use row::{Row, margin, negative_entropy};

use super::{DrawBy, Propose, encode_parents, purpose};
use crate::{
    Answer, Context, Error, Flow, Key, Problem, Result, TokenId, Want, Width,
    methods::{Alg, Dream, Llada, Remasking},
    population::{Child, Expanded, Node, Proposals},
};

/// Whose sampler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Surest {
    /// LLaDA's.
    Llada(Llada),
    /// Dream's.
    Dream(Dream),
}

/// Proposals of a published sampler.
#[derive(Clone, Debug)]
pub struct Unmask {
    /// Whose.
    pub sampler: Surest,
    /// Children per parent.
    pub candidates: Width,
}

/// A mask with the token it would become.
struct Pick {
    position: usize,
    token: TokenId,
    /// How sure it is; the highest are kept.
    sure: f64,
    log_p: f64,
}

/// Which picks of a step are kept.
enum Keep {
    /// So many of the surest.
    Surest(usize),
    /// Each with this chance.
    Chance(f64),
}

impl Unmask {
    /// Refuses what cannot run on a problem, before anything is spent.
    fn check_on(&self, problem: &Problem<'_>) -> Result<()> {
        let temperature = match &self.sampler {
            Surest::Llada(llada) => {
                llada.pace().fits_start(problem.start())?;
                llada.temperature
            }
            Surest::Dream(dream) => dream.temperature,
        };
        if temperature > 0.0 && problem.is_constrained() {
            // Tokens that are drawn side by side would not agree with each other.
            return Err(Error::Invalid {
                what: "temperature",
                expected: "0 under a constraint, whose likeliest legal text is placed".into(),
                got: temperature.to_string(),
            });
        }
        Ok(())
    }

    /// Up to where masks are open to a node's step, and how many are kept.
    fn stage(&self, cx: &Context<'_, '_>, node: &Node) -> (usize, Keep) {
        let step = cx.step.index;
        match &self.sampler {
            Surest::Llada(llada) => {
                let stage = llada.pace().stage(cx.problem.start(), step);
                (stage.end, Keep::Surest(stage.tokens))
            }
            Surest::Dream(dream) => {
                let steps = dream.steps.unwrap_or(cx.problem.start().n_masked());
                let masks = node.seq.n_masked();
                let keep = match dream.alg {
                    Alg::Origin => Keep::Chance(dream.share(step, steps).into()),
                    _ => Keep::Surest(dream.tokens(step, steps, masks)),
                };
                (node.seq.len(), keep)
            }
        }
    }

    /// What a row's mask would become. `legal` is the token of the likeliest legal completion.
    fn pick(
        &self,
        row: &Row,
        at: usize,
        legal: Option<TokenId>,
        key: Key,
        ends: &[TokenId],
    ) -> Pick {
        let own = |purpose| key.fold(purpose).fold(at as u64);
        let drawn = |row: &Row, temperature: f64| match (legal, temperature > 0.0) {
            (Some(token), _) => token,
            (None, true) => row.draw(own(purpose::TOKEN)),
            (None, false) => row.argmax(),
        };
        let (token, sure) = match &self.sampler {
            Surest::Llada(llada) => {
                let first = ends.get(..1).unwrap_or_default();
                let endless = llada.logits_eos_inf.then(|| row.without(first));
                let plain = endless.as_ref().unwrap_or(row);
                let token = drawn(&plain.tempered(llada.temperature), llada.temperature);
                let sure = match llada.remasking {
                    Remasking::LowConfidence if llada.confidence_eos_eot_inf => {
                        plain.without(ends).log_p(token)
                    }
                    Remasking::LowConfidence => plain.log_p(token),
                    Remasking::Random => own(purpose::POSITION).uniform(),
                };
                (token, sure)
            }
            Surest::Dream(dream) => {
                let mut shaped = row.tempered(dream.temperature);
                if let Some(top_p) = dream.top_p.filter(|p| *p < 1.0) {
                    shaped = shaped.nucleus(top_p);
                }
                if let Some(top_k) = dream.top_k {
                    shaped = shaped.top(top_k);
                }
                let token = drawn(&shaped, dream.temperature);
                let sure = match dream.alg {
                    Alg::Origin => 0.0,
                    Alg::MaskgitPlus => shaped.log_p(token).exp(),
                    Alg::TopkMargin => margin(&shaped.probabilities()),
                    Alg::Entropy => negative_entropy(&shaped.probabilities()),
                };
                // Gumbel's trick: the highest of these are a draw without replacement by
                // softmax(sure / alg_temp).
                let noise = |key: Key| -(-key.uniform().ln()).ln();
                let sure = match dream.alg_temp.filter(|temperature| *temperature > 0.0) {
                    Some(temperature) => sure / temperature + noise(own(purpose::POSITION)),
                    None => sure,
                };
                (token, sure)
            }
        };
        Pick { position: at, token, sure, log_p: row.log_p(token) }
    }

    /// The picks that a candidate places, in position order.
    fn kept(mut picks: Vec<Pick>, keep: &Keep, key: Key) -> Vec<Pick> {
        match keep {
            Keep::Chance(chance) => {
                let own = |at: usize| key.fold(purpose::REVEAL).fold(at as u64).uniform();
                picks.retain(|pick| own(pick.position) < *chance);
            }
            Keep::Surest(count) => {
                picks.sort_by(|a, b| b.sure.total_cmp(&a.sure).then(a.position.cmp(&b.position)));
                picks.truncate(*count);
                picks.sort_by_key(|pick| pick.position);
            }
        }
        picks
    }

    fn children(
        &self,
        cx: &Context<'_, '_>,
        (parent, node): (usize, &Node),
        open: &[usize],
        keep: &Keep,
        answer: &Answer,
    ) -> Vec<Child> {
        let step = cx.step;
        let t = self.time(cx, node);
        let legal = cx.problem.is_constrained();
        let rows: Vec<Row> = answer.rows.iter().map(|row| Row::new(row)).collect();
        let key = DrawBy::Slot.key(cx.key, step.index, node.slot, &node.seq);
        let candidates = self.candidates.at(step.index, step.steps);
        let child = |candidate: usize| {
            let key = key.fold(candidate as u64);
            let pick = |(index, (&at, row)): (usize, (&usize, &Row))| {
                let legal = legal.then(|| answer.argmax.get(index).copied()).flatten();
                self.pick(row, at, legal, key, cx.problem.ends())
            };
            // Open masks come first among the masks, so that an index is the same in both.
            let picks = open.iter().zip(&rows).enumerate().map(pick).collect();
            let kept = Self::kept(picks, keep, key);
            let mut seq = (*node.seq).clone();
            for pick in &kept {
                seq.reveal_in_place(pick.position, pick.token);
            }
            let mut placed = kept.iter().map(|pick| (pick.position, pick.token));
            Child {
                seq: if kept.is_empty() { node.seq.clone() } else { Arc::new(seq) },
                next_t: step.needs.next_time.then_some(t),
                rank: candidate,
                reveal: placed.next(),
                also: placed.collect(),
                log_mass: -(candidates as f64).ln(),
                log_p: node.log_p + kept.iter().map(|pick| pick.log_p).sum::<f64>(),
                ..Child::carried(parent, node, t)
            }
        };
        (0..candidates).map(child).collect()
    }

    /// The share of masks left: these models do not look at it, others are told what they expect.
    fn time(&self, cx: &Context<'_, '_>, node: &Node) -> f64 {
        node.seq.n_masked() as f64 / cx.problem.start().n_masked().max(1) as f64
    }
}

impl Propose for Unmask {
    fn steps(&self, masks: usize) -> usize {
        match &self.sampler {
            Surest::Llada(llada) => llada.pace().steps(masks),
            Surest::Dream(dream) => dream.steps.unwrap_or(masks),
        }
    }

    fn propose(&self, cx: &mut Context<'_, '_>, parents: &[Node]) -> Flow<Proposals> {
        if cx.step.index == 0 {
            self.check_on(cx.problem)?;
        }
        let times: Vec<f64> = parents.iter().map(|node| self.time(cx, node)).collect();
        let encoded = encode_parents(cx, parents, &times, None)?;
        let confidence = cx.step.needs.confidence;
        let argmax = cx.step.needs.argmax || confidence || cx.problem.is_constrained();
        let stages: Vec<(Vec<usize>, Keep)> = (parents.iter())
            .map(|node| {
                let (end, keep) = self.stage(cx, node);
                let open: Vec<usize> = match keep {
                    Keep::Surest(0) => Vec::new(),
                    _ => node.seq.masked().take_while(|&position| position < end).collect(),
                };
                (open, keep)
            })
            .collect();
        let wants: Vec<_> = (encoded.iter().zip(&stages))
            .map(|(encoded, (rows, _))| {
                let argmax = argmax && (cx.step.needs.argmax || confidence || !rows.is_empty());
                (encoded, Want { argmax, confidence, rows, ..Want::default() })
            })
            .collect();
        let answers = cx.problem.read(&wants)?;
        let mut proposals = Proposals::default();
        for (parent, answer) in answers.into_iter().enumerate() {
            let (node, (open, keep)) = (&parents[parent], &stages[parent]);
            match open.is_empty() {
                true => {
                    let next_t = cx.step.needs.next_time.then_some(times[parent]);
                    let carried = Child::carried(parent, node, times[parent]);
                    proposals.children.push(Child { next_t, ..carried });
                }
                false => {
                    let made = self.children(cx, (parent, node), open, keep, &answer);
                    proposals.children.extend(made);
                }
            }
            proposals.parents.push(Expanded::new(&encoded[parent], answer));
        }
        Ok(proposals)
    }

    fn is_last(&self, cx: &Context<'_, '_>, proposals: &Proposals) -> bool {
        cx.step.index + 1 >= cx.step.steps
            || proposals.children.iter().all(|child| child.seq.n_masked() == 0)
    }
}
