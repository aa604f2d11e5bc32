//! First-hitting proposals: jump to the next unmasking event and branch there (Alg. 1, UnmaskBranch).
//!
//! One forward pass per parent gives all its children. With a sampled token this is the first-hitting
//! sampler of Zheng et al. (2024), exact for an exact denoiser; with a denoiser that does not look at
//! the time it stays exact under every [`Order`], since the order depends on what is revealed alone.

mod rest;

use std::sync::Arc;

use rest::Rest;

use super::{DrawBy, Pace, Propose, encode_parents, purpose};
use crate::{
    Answer, At, Context, Draw, Encoded, Flow, Key, MaskedSeq, Want, Width,
    legal::LEAST,
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
        /// Tokens below this share of the likeliest one's probability are not tried, except the
        /// second likeliest, so that there is always a choice. 0 tries all. Where the reward promises
        /// a highest value and a parent is further than [`ROOM`] from it, unlikely tokens may be worth
        /// their price, and the share falls, to its third power at most: see [`FirstHitting`]'s `least`.
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

/// Tokens that [`Reveal::Top`] tries however unlikely they are.
const ALWAYS_TRIED: usize = 2;

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

    /// Tokens that a child commits beside its own.
    fn others(&self, cx: &Context<'_, '_>) -> usize {
        match self.pace.steps {
            Some(_) => {
                let stage = self.pace.stage(cx.problem.start(), cx.step.index);
                stage.tokens.saturating_sub(1)
            }
            None => 0,
        }
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

    /// The time at which a child's own prediction will be asked for.
    fn prediction_time(&self, cx: &Context<'_, '_>, seq: &MaskedSeq, t: f64, slot: usize) -> f64 {
        let masks = seq.n_masked();
        let key = self.draws.key(cx.key, self.level(cx.step.index + 1, masks), slot, seq);
        Self::next_time(cx, key, masks.max(1), t)
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

impl FirstHitting {
    /// The open masks of a parent with their likeliest tokens, the surest first, where a step commits
    /// several.
    fn surest(&self, cx: &Context<'_, '_>, node: &Node, answer: &Answer) -> Vec<(usize, u32, f64)> {
        if self.others(cx) == 0 {
            return Vec::new();
        }
        let open = self.open(cx, &node.seq);
        let mut order: Vec<usize> = (0..open.len()).collect();
        let rank = |index: usize| sure(cx, answer, index, index == 0);
        order.sort_by(|&a, &b| rank(b).total_cmp(&rank(a)).then(a.cmp(&b)));
        let mask = |index: usize| (open[index], answer.argmax[index], answer.confidence[index]);
        order.into_iter().map(mask).collect()
    }

    /// The least log-probability, relative to the likeliest token's, that is tried: log of `min_p`, times
    /// how many [`ROOM`]s the parent's completion is away from the highest reward, but at least once and
    /// at most [`MOST_ROOMS`] times.
    /// A parent that was not scored tries everything; without a highest reward `min_p` holds as it is.
    fn least(&self, cx: &Context<'_, '_>, node: &Node) -> f64 {
        let Reveal::Top { min_p, .. } = self.reveal else { return f64::NEG_INFINITY };
        let least = min_p.ln();
        match (cx.problem.reward_bound(), node.worth) {
            (None, _) => least,
            (Some(_), None) => f64::NEG_INFINITY,
            (Some(highest), Some(worth)) => {
                least * ((highest - worth.reward) / ROOM).clamp(1.0, MOST_ROOMS)
            }
        }
    }

    /// The children of one parent.
    fn children(
        &self,
        cx: &Context<'_, '_>,
        node: &Node,
        branch: &Branch,
        answer: &Answer,
        rest: Option<Rest>,
        out: &mut Vec<Child>,
    ) -> Flow<()> {
        let sure: Vec<(usize, u32, f64)> = match self.commit_threshold {
            Some(threshold) => (node.seq.masked().zip(&answer.argmax).zip(&answer.confidence))
                .filter(|(_, confidence)| confidence.exp() >= threshold)
                .map(|((position, &token), &confidence)| (position, token, confidence))
                .collect(),
            None => Vec::new(),
        };
        let surest = self.surest(cx, node, answer);
        let mut push = |position, token, rank, log_p: f64, log_mass: f64| -> Flow<()> {
            let mut seq = node.seq.reveal(position, token);
            let mut log_p = node.log_p + log_p;
            let mut also = Vec::new();
            // Where a constraint pads behind an end of text, there is nothing to ask the model about.
            for at in cx.problem.padding(position, token) {
                if seq.get(at).is_none() {
                    seq.reveal_in_place(at, token);
                    also.push((at, token));
                }
            }
            // Under a constraint only what agrees with the child's own legal completion is sure.
            let whole = match &answer.prediction {
                Some(prediction) if !sure.is_empty() || !surest.is_empty() => {
                    Some(prediction.complete(&[(position, token)])?)
                }
                _ => None,
            };
            let agrees = |at: usize, token| whole.as_ref().is_none_or(|whole| whole[at] == token);
            let fills = surest.iter().filter(|&&(at, _, _)| seq.get(at).is_none());
            // What a constraint's completion says instead of the likeliest token counts as much.
            let fills = fills.map(|&(at, token, confidence)| match &whole {
                Some(whole) => (at, whole[at], confidence),
                None => (at, token, confidence),
            });
            let fills: Vec<_> = fills.take(self.others(cx)).collect();
            let others = sure.iter().filter(|&&(at, token, _)| agrees(at, token));
            for &(at, token, confidence) in others.chain(&fills) {
                if seq.get(at).is_some() {
                    continue;
                }
                seq.reveal_in_place(at, token);
                log_p += confidence;
                also.push((at, token));
            }
            let next_t = (cx.step.needs.next_time)
                .then(|| self.prediction_time(cx, &seq, branch.t, node.slot));
            out.push(Child {
                seq: Arc::new(seq),
                next_t,
                rank,
                reveal: Some((position, token)),
                also,
                log_mass,
                log_p,
                ..Child::carried(branch.parent, node, branch.t)
            });
            Ok(())
        };
        let least = self.least(cx, node);
        let groups = (branch.top.len() as f64).ln();
        // A child stands for the model's own law, of which a constraint leaves a part.
        let lack = |masses: &[f64], index: usize| masses.get(index).copied().unwrap_or(0.0);
        for (index, (at, top)) in branch.top.iter().zip(&answer.top).enumerate() {
            let lacks = answer.top_mass.get(index).map_or(&[][..], Vec::as_slice);
            let likeliest = top.first().map_or(0.0, |best| best.logprob);
            for (rank, candidate) in top.iter().enumerate() {
                let likely = candidate.logprob - likeliest >= least;
                if likely || rank < ALWAYS_TRIED {
                    let logprob = candidate.logprob;
                    let lack = lack(lacks, rank);
                    let log_mass = logprob - (groups - lack);
                    let log_p = logprob.max(LEAST);
                    push(at.position, candidate.token, rank, log_p, log_mass)?; // Alg. 1, line 5
                }
            }
        }
        if let Some(Rest { position, token, log_p, log_mass }) = rest {
            push(position, token, answer.top[0].len(), log_p, log_mass)?;
        }
        if let Reveal::Sample { .. } = self.reveal {
            let share = -(branch.draws.len() as f64).ln();
            for (rank, (draw, &token)) in branch.draws.iter().zip(&answer.draws).enumerate() {
                let log_mass = share + lack(&answer.draw_mass, rank);
                push(draw.position, token, rank, 0.0, log_mass)?;
            }
        }
        Ok(())
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
