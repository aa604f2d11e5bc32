//! A search as a value: the caller may drive it step by step, look at it, and take its answer at any
//! time.
//!
//! ```text
//! let mut run = problem.run(&method, key, &mut observer)?;
//! while run.step()? == Progress::More {}
//! let outcome = run.finish()?;
//! ```
//!
//! Guarantees: a run begins with empty counts and memory; a stop (budget, deadline, target, observer,
//! cancellation) ends it with the best it has; runs nest, since [`crate::Problem::continue_from`]
//! shares counts, memory and budgets.

use crate::{
    AnswerKind, Context, Error, Event, Finished, Flow, Halt, Key, Observer, Outcome, Particle,
    Problem, Result, StopReason, TokenId,
    methods::Search,
    population::Node,
    propose::purpose,
    resample::{LogWeights, draw_one},
    stop::filled,
};

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Another step follows.
    More,
    /// It ran to its end, or was stopped.
    Done,
}

/// What a method answers at its end, before the caller's choice of an answer.
#[derive(Clone, Debug)]
pub struct Concluded {
    /// The answer.
    pub tokens: Vec<TokenId>,
    /// Its exact reward, if it could be scored.
    pub reward: Option<f64>,
    /// log p of its committed tokens, where the method knows it.
    pub log_p: Option<f64>,
    /// Why the last score could not be had.
    pub stopped: Option<StopReason>,
    /// The last population.
    pub finals: Vec<Particle>,
}

/// A method on its way: what [`Run`] drives.
pub trait Stepper: Send {
    /// How many steps there will be.
    fn steps(&self) -> usize;

    /// One step; whether it was the last.
    fn step(&mut self, cx: &mut Context<'_, '_>) -> Flow<bool>;

    /// The states it is at, best first, for whoever has to complete one.
    fn nodes(&self) -> &[Node];

    /// A text that it would rather hand back than a lower one, if it is stopped.
    fn holds(&self) -> Option<&Finished> {
        None
    }

    /// Its answer, after the last step.
    fn conclude(&mut self, cx: &mut Context<'_, '_>) -> Flow<Concluded>;
}

/// A search under way.
pub struct Run<'r, 'p> {
    cx: Context<'r, 'p>,
    search: Box<dyn Stepper + 'r>,
    name: &'static str,
    plan: serde_json::Value,
    begun: bool,
    steps: usize,
    ended: Option<Option<StopReason>>,
}

impl<'r, 'p> Run<'r, 'p> {
    /// A run of a method; nothing has been spent.
    pub(crate) fn new(
        method: &(impl Search + ?Sized),
        problem: &'r Problem<'p>,
        key: Key,
        observer: &'r mut dyn Observer,
    ) -> Result<Self> {
        method.check()?;
        problem.begin();
        Ok(Self {
            search: method.begin(problem, key)?,
            name: method.name(),
            plan: method.plan(),
            cx: Context::new(problem, key, observer),
            begun: false,
            steps: 0,
            ended: None,
        })
    }

    /// Keeps every node, for [`Outcome::tree`].
    #[must_use]
    pub fn with_tree(mut self) -> Self {
        self.cx.tree = Some(Vec::new());
        self
    }

    /// The states the search is at.
    pub fn nodes(&self) -> &[Node] {
        self.search.nodes()
    }

    /// Steps completed.
    pub fn steps_done(&self) -> usize {
        self.steps
    }

    /// What was spent so far.
    pub fn cost(&self) -> crate::Cost {
        self.cx.problem.cost()
    }

    /// The best complete sequence scored so far.
    pub fn best(&self) -> Option<crate::Finished> {
        self.cx.problem.best()
    }

    fn begin(&mut self) -> Flow<()> {
        let start = self.cx.problem.start().clone();
        self.cx.tell(&Event::Start {
            method: self.name.into(),
            plan: std::mem::take(&mut self.plan),
            len: start.len(),
            masks: start.n_masked(),
            steps: self.search.steps(),
            start: start.slots().collect(),
        })
    }

    /// One step. After [`Progress::Done`] it does nothing.
    pub fn step(&mut self) -> Result<Progress> {
        if self.ended.is_some() {
            return Ok(Progress::Done);
        }
        let begun = std::mem::replace(&mut self.begun, true);
        let stepped = match begun {
            true => self.search.step(&mut self.cx),
            false => self.begin().and_then(|()| self.search.step(&mut self.cx)),
        };
        match stepped {
            Ok(last) => {
                self.steps += 1;
                self.ended = last.then_some(None);
            }
            Err(Halt::Stop(reason)) => self.ended = Some(Some(reason)),
            Err(Halt::Fail(error)) => return Err(error),
        }
        Ok(if self.ended.is_some() { Progress::Done } else { Progress::More })
    }

    /// The answer: of the whole search after [`Progress::Done`], else of what was done so far.
    pub fn finish(mut self) -> Result<Outcome> {
        let outcome = match self.ended {
            Some(None) => self.concluded()?,
            ended => self.stopped(ended.flatten().unwrap_or(StopReason::Caller))?,
        };
        // The search is over: a `Break` changes nothing any more.
        let _ = self.cx.tell(&Event::End {
            tokens: outcome.tokens.clone(),
            reward: outcome.reward,
            stopped: outcome.stopped,
            cost: outcome.cost,
        });
        Ok(outcome)
    }

    fn concluded(&mut self) -> Result<Outcome> {
        let concluded = match self.search.conclude(&mut self.cx) {
            Ok(concluded) => concluded,
            Err(Halt::Stop(reason)) => return self.stopped(reason),
            Err(Halt::Fail(error)) => return Err(error),
        };
        let problem = self.cx.problem;
        let mut outcome = Outcome {
            tokens: concluded.tokens,
            reward: concluded.reward,
            reward_final: concluded.reward,
            log_p: concluded.log_p,
            cost: problem.cost(),
            stopped: concluded.stopped,
            steps: self.steps,
            best_seen: problem.best(),
            finals: concluded.finals,
            log_normalizer: self.cx.log_normalizer,
            reward_before: self.cx.reward_before,
            notes: std::mem::take(&mut self.cx.notes),
            tree: self.cx.tree.take(),
        };
        match problem.answer() {
            AnswerKind::Final => {}
            AnswerKind::BestSeen => {
                // A taste may see a best text that earns less than one that must not be lost.
                let held = self.search.holds().map(|held| held.reward);
                let higher = |best: &Finished| held.is_none_or(|held| best.reward > held);
                if let Some(best) = outcome.best_seen.clone().filter(higher) {
                    (outcome.tokens, outcome.reward) = (best.tokens, Some(best.reward));
                    outcome.log_p = best.log_p.or(outcome.log_p);
                }
            }
            AnswerKind::Draw => {
                let weights: Vec<f64> =
                    outcome.finals.iter().map(|particle| particle.log_weight).collect();
                let weights = LogWeights::new("answer", &weights)?;
                let key = self.cx.key.fold(purpose::ANSWER);
                let drawn = &outcome.finals[draw_one(&weights, key)];
                (outcome.tokens, outcome.log_p) = (drawn.tokens.clone(), Some(drawn.log_p));
                outcome.reward = Some(drawn.reward);
            }
        }
        Ok(outcome)
    }

    /// The end of a search that was stopped: the best complete sequence, or else the first node with
    /// its masks filled from its parent's prediction, which costs no forward pass.
    fn stopped(&mut self, reason: StopReason) -> Result<Outcome> {
        let problem = self.cx.problem;
        let best = match reason {
            StopReason::Target => problem.at_target().or_else(|| problem.best()),
            _ => {
                let best = problem.best();
                let held = self.search.holds();
                let stays =
                    |held: &&Finished| best.as_ref().is_none_or(|best| held.reward >= best.reward);
                held.filter(stays).cloned().or(best)
            }
        };
        let mut answer = best.map(|best| (best.tokens, Some(best.reward), best.log_p));
        if answer.is_none()
            && let Some(tokens) = filled(problem, self.search.nodes())?
        {
            let scored = match reason {
                StopReason::Deadline | StopReason::Cancelled => Err(Halt::Stop(reason)),
                _ => problem.score(std::slice::from_ref(&tokens)),
            };
            let reward = match scored {
                Ok(rewards) => rewards.first().copied(),
                Err(Halt::Stop(_)) => problem.best_reward(),
                Err(Halt::Fail(error)) => return Err(error),
            };
            answer = Some((tokens, reward, None));
        }
        let nodes = self.search.nodes();
        let (tokens, reward, log_p) = answer.ok_or_else(|| Error::Stopped {
            reason,
            steps: self.steps,
            masks: nodes.iter().map(|node| node.seq.n_masked()).max().unwrap_or(0),
            cost: problem.cost(),
        })?;
        Ok(Outcome {
            tokens,
            reward,
            reward_final: None,
            log_p,
            cost: problem.cost(),
            stopped: Some(reason),
            steps: self.steps,
            best_seen: problem.best(),
            finals: Vec::new(),
            log_normalizer: None,
            reward_before: self.cx.reward_before,
            notes: std::mem::take(&mut self.cx.notes),
            tree: self.cx.tree.take(),
        })
    }
}
