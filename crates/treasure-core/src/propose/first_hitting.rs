//! First-hitting proposals: jump to the next unmasking event and branch there (Alg. 1, UnmaskBranch).
//!
//! One forward pass per parent gives all its children. With a sampled token this is the first-hitting
//! sampler of Zheng et al. (2024), exact for an exact denoiser; with a denoiser that does not look at
//! the time it stays exact under every [`Order`], since the order depends on what is revealed alone.

mod children;
mod rest;

use super::{DrawBy, Pace, Propose, encode_parents, purpose};
use crate::{
    Answer, At, Context, Draw, Encoded, Flow, Key, MaskedSeq, Want, Width,
    options::named,
    population::{Child, Expanded, Node, Proposals},
};

named!(
    /// Which mask is revealed next.
    Order, "order", {
        /// Any, with equal chance (Alg. 1, line 4).
        #[default]
        Uniform = "uniform",
        /// The first by chance, so that samples differ; after it the one whose likeliest token is surest.
        /// An end of text counts as sure only where no mask stands before it. Ties are broken by the key.
        Confidence = "confidence",
        /// The first.
        LeftToRight = "left-to-right",
    }
);

/// What is placed at the position that is revealed.
#[derive(Clone, Debug)]
pub enum Reveal {
    /// The likeliest b tokens, at each of `groups` positions, each position once.
    Top {
        /// b(·), capped by the allowed tokens.
        beam: Width,
        /// Positions per parent, capped by its masks.
        groups: usize,
        /// Tokens below this share of the likeliest one's probability are not tried. 0 tries all. Where
        /// the reward promises a highest value and a parent is further than [`ROOM`] from it, unlikely
        /// tokens may be worth their price, and the share falls, to its third power at most: see
        /// [`FirstHitting`]'s `least`.
        min_p: f64,
        /// Tokens tried instead of b while the reward has told no two texts on the way apart: what it
        /// asks for is then not among the likeliest few. Only where the reward promises no highest value,
        /// which would say whether more can be had. 0 leaves it at b.
        widen: usize,
    },
    /// A token drawn from the prediction, once per candidate, each at its own position.
    Sample {
        /// Children per parent.
        candidates: Width,
    },
    /// The likeliest b tokens at one position, each standing for its own probability, and one token
    /// drawn from the rest, standing for all of it: a sum over the children is unbiased for the sum
    /// over all tokens.
    Enumerate {
        /// b(·), capped by the allowed tokens.
        beam: Width,
        /// Draws from the prediction in which a token of the rest is looked for. If all fall among
        /// the likeliest there is no child of the rest; its share is raised by how seldom that is.
        tries: usize,
    },
}

/// How far from the highest reward a parent's completion may be for `min_p` to hold in full: about what a
/// judge's log-probability still lacks once it has decided.
pub const ROOM: f64 = 0.2;

/// The power of `min_p` that is tried however far away the highest reward is: what is rarer than that is
/// hardly ever worth a call.
pub const MOST_ROOMS: f64 = 3.0;

/// First-hitting proposals.
#[derive(Clone, Debug)]
pub struct FirstHitting {
    /// What is placed.
    pub reveal: Reveal,
    /// What draws depend on.
    pub draws: DrawBy,
    /// Which mask is revealed.
    pub order: Order,
    /// Also commit, in every child, the masks whose likeliest token has at least this probability.
    pub commit_threshold: Option<f64>,
    /// Take keys and values of tokens that stay from the pass before, except every so many steps.
    pub reuse: Option<usize>,
    /// Blocks that are finished one after another, and tokens committed at a step: with several, the
    /// surest others are committed in every child.
    pub pace: Pace,
}

/// What will be asked about one parent.
struct Branch {
    parent: usize,
    key: Key,
    t: f64,
    top: Vec<At>,
    draws: Vec<Draw>,
}

impl FirstHitting {
    /// One token a step at any mask, drawn by slot.
    pub fn new(reveal: Reveal) -> Self {
        Self {
            reveal,
            draws: DrawBy::Slot,
            order: Order::Uniform,
            commit_threshold: None,
            reuse: None,
            pace: Pace::default(),
        }
    }

    /// The masks of the block that is being filled. They come first among the masks of a state.
    fn open(&self, cx: &Context<'_, '_>, seq: &MaskedSeq) -> Vec<usize> {
        let end = self.pace.open_until(cx.problem.start(), seq);
        seq.masked().take_while(|&position| position < end).collect()
    }

    fn level(&self, step: usize, masks: usize) -> usize {
        match self.draws {
            DrawBy::State => masks,
            DrawBy::Slot => step,
        }
    }

    fn next_time(cx: &Context<'_, '_>, key: Key, masks: usize, t: f64) -> f64 {
        cx.problem.schedule().next_event(masks, t, key.fold(purpose::TIME).uniform())
    }

    /// The event of a parent: when it happens. Alg. 1, lines 1–2. One τ, whatever the groups.
    fn event(&self, cx: &Context<'_, '_>, parent: usize, node: &Node) -> Branch {
        let masks = node.seq.n_masked();
        let level = self.level(cx.step.index, masks);
        let key = self.draws.key(cx.key, level, node.slot, &node.seq);
        let t = Self::next_time(cx, key, masks, node.t);
        Branch { parent, key, t, top: Vec::new(), draws: Vec::new() }
    }

    /// Which positions are revealed, and what is asked there. `seen` is the parent's likeliest tokens
    /// with their log-probabilities, where the order looks at them.
    fn aim(
        &self,
        cx: &mut Context<'_, '_>,
        branch: &mut Branch,
        node: &Node,
        seen: Option<&Answer>,
    ) -> Flow<()> {
        let key = branch.key;
        match &self.reveal {
            Reveal::Top { beam, .. } | Reveal::Enumerate { beam, .. } => {
                let beam = beam.at(cx.step.index, cx.step.steps);
                let tried = match self.reveal {
                    Reveal::Top { widen, .. }
                        if node.even
                            && node.worth.is_some()
                            && cx.problem.reward_bound().is_none() =>
                    {
                        beam.max(widen)
                    }
                    _ => beam,
                };
                let groups = match self.reveal {
                    Reveal::Top { groups, .. } => groups,
                    _ => 1,
                };
                for position in self.positions(cx, key, &node.seq, groups, seen) {
                    let allowed = cx.problem.allowed_at(&node.seq, position)?;
                    // Under a constraint a choice of one or two is nothing to note.
                    if beam > allowed && !cx.problem.is_constrained() {
                        cx.note("beam width", || {
                            format!(
                                "capped at {allowed} by the allowed tokens at position {position}, \
                                 {beam} asked for"
                            )
                        })?;
                    }
                    branch.top.push(At { position, k: tried.min(allowed) });
                    if let Reveal::Enumerate { tries, .. } = self.reveal
                        && beam < allowed
                    {
                        let own = |i| key.fold(purpose::TOKEN).fold(i).uniform();
                        let draw = |i| Draw { position, u: own(i), text: i as u32 };
                        let draws = (0..tries as u64).map(draw);
                        branch.draws.extend(draws);
                    }
                }
            }
            Reveal::Sample { candidates } => {
                for candidate in 0..candidates.at(cx.step.index, cx.step.steps) as u64 {
                    let own = key.fold(purpose::POSITION).fold(candidate);
                    let position = match self.order {
                        Order::Uniform => {
                            let free = self.open(cx, &node.seq);
                            free[own.below(free.len())]
                        }
                        _ => self.positions(cx, own, &node.seq, 1, seen)[0],
                    };
                    let u = key.fold(purpose::TOKEN).fold(candidate).uniform();
                    branch.draws.push(Draw { position, u, text: candidate as u32 });
                }
            }
        }
        Ok(())
    }

    /// The positions of a parent that are revealed, each in a group of its own.
    fn positions(
        &self,
        cx: &Context<'_, '_>,
        key: Key,
        seq: &MaskedSeq,
        groups: usize,
        seen: Option<&Answer>,
    ) -> Vec<usize> {
        let mut free = self.open(cx, seq);
        let groups = groups.min(free.len());
        match (self.order, seen) {
            (Order::LeftToRight, _) => free.truncate(groups),
            (Order::Confidence, Some(answer)) if cx.step.index > 0 => {
                let first = free.first().copied();
                let sure = |index: usize| sure(cx, answer, index, Some(free[index]) == first);
                let tie =
                    |index: usize| key.fold(purpose::POSITION).fold(free[index] as u64).bits();
                let mut order: Vec<usize> = (0..free.len()).collect();
                order.sort_by(|&a, &b| {
                    sure(b).total_cmp(&sure(a)).then_with(|| tie(a).cmp(&tie(b)))
                });
                return order[..groups].iter().map(|&index| free[index]).collect();
            }
            // Alg. 1, line 4: ℓ uniform over the masks; further groups without replacement.
            _ => {
                let pick = |group: usize, free: &mut Vec<usize>| {
                    let at = key.fold(purpose::POSITION).fold(group as u64).below(free.len());
                    free.swap_remove(at)
                };
                return (0..groups).map(|group| pick(group, &mut free)).collect();
            }
        }
        free
    }

    /// Forward passes for the parents that still have masks; the others ask for nothing.
    fn encode_open(
        &self,
        cx: &Context<'_, '_>,
        parents: &[Node],
        times: &[f64],
    ) -> Flow<Vec<Encoded>> {
        if parents.iter().all(|node| node.seq.n_masked() > 0) {
            return encode_parents(cx, parents, times, self.reuse);
        }
        let open: Vec<usize> =
            (0..parents.len()).filter(|&i| parents[i].seq.n_masked() > 0).collect();
        let nodes: Vec<Node> = open.iter().map(|&i| parents[i].clone()).collect();
        let open_times: Vec<f64> = open.iter().map(|&i| times[i]).collect();
        let mut encoded = encode_parents(cx, &nodes, &open_times, self.reuse)?.into_iter();
        Ok(parents
            .iter()
            .zip(times)
            .filter_map(|(node, &t)| match node.seq.n_masked() {
                0 => Some(Encoded::complete(node.seq.clone(), t)),
                _ => encoded.next(),
            })
            .collect())
    }
}

impl Propose for FirstHitting {
    fn steps(&self, masks: usize) -> usize {
        self.pace.steps(masks)
    }

    fn propose(&self, cx: &mut Context<'_, '_>, parents: &[Node]) -> Flow<Proposals> {
        let mut branches: Vec<Branch> = Vec::with_capacity(parents.len());
        let mut times: Vec<f64> = parents.iter().map(|node| node.t).collect();
        for (parent, node) in parents.iter().enumerate() {
            if node.seq.n_masked() > 0 {
                let branch = self.event(cx, parent, node);
                times[parent] = branch.t;
                branches.push(branch);
            }
        }
        let encoded = self.encode_open(cx, parents, &times)?;
        let looks = self.order == Order::Confidence;
        let confidence = self.commit_threshold.is_some()
            || self.pace.steps.is_some()
            || cx.step.needs.confidence
            || looks;
        let argmax = cx.step.needs.argmax || confidence;
        // An order by confidence must see the masks before it can say what to ask at one of them.
        let mut seen: Vec<Option<Answer>> = vec![None; branches.len()];
        if looks {
            let want = Want { argmax, confidence, ..Want::default() };
            let wants: Vec<_> =
                branches.iter().map(|branch| (&encoded[branch.parent], want)).collect();
            seen = cx.problem.read(&wants)?.into_iter().map(Some).collect();
        }
        for (branch, seen) in branches.iter_mut().zip(&seen) {
            let node = &parents[branch.parent];
            self.aim(cx, branch, node, seen.as_ref())?;
        }
        let wants: Vec<_> = branches
            .iter()
            .map(|branch| {
                let want = Want {
                    argmax: argmax && !looks,
                    confidence: confidence && !looks,
                    top: &branch.top,
                    draws: &branch.draws,
                    ..Want::default()
                };
                (&encoded[branch.parent], want)
            })
            .collect();
        let answers = cx.problem.read(&wants)?;
        let rests = self.rests(cx, &branches, &answers, &encoded)?;
        let mut proposals = Proposals {
            children: Vec::new(),
            parents: encoded
                .iter()
                .map(|encoded| Expanded::new(encoded, Answer::default()))
                .collect(),
        };
        let mut answered = branches.iter().zip(answers.into_iter().zip(seen).zip(rests)).peekable();
        for (parent, node) in parents.iter().enumerate() {
            let Some((branch, ((mut answer, seen), rest))) =
                answered.next_if(|(branch, _)| branch.parent == parent)
            else {
                proposals.children.push(Child::carried(parent, node, node.t));
                continue;
            };
            if let Some(seen) = seen {
                (answer.argmax, answer.confidence) = (seen.argmax, seen.confidence);
                answer.prediction = seen.prediction;
            }
            self.children(cx, node, branch, &answer, rest, &mut proposals.children)?;
            proposals.parents[parent] = Expanded::new(&encoded[parent], answer);
        }
        Ok(proposals)
    }

    fn is_last(&self, _: &Context<'_, '_>, proposals: &Proposals) -> bool {
        proposals.children.iter().all(|child| child.seq.n_masked() == 0)
    }
}

/// How sure the likeliest token of a mask is. An end of text is only where no mask stands before it.
fn sure(cx: &Context<'_, '_>, answer: &Answer, index: usize, is_first: bool) -> f64 {
    match cx.problem.ends().contains(&answer.argmax[index]) && !is_first {
        true => f64::NEG_INFINITY,
        false => answer.confidence[index],
    }
}
