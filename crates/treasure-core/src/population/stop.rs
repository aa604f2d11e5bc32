//! How a search that was stopped hands back the best it has.

use super::{Node, Run};
use crate::{Error, Halt, MaskedSeq, Outcome, Problem, Result, StopReason, TokenId, Want};

/// The end of a search that was stopped: the best complete sequence, or else the first particle with
/// its masks filled from its parent's prediction, which costs no forward pass.
pub(super) fn stopped(
    run: &mut Run<'_, '_>,
    nodes: &[Node],
    reason: StopReason,
    steps: usize,
) -> Result<Outcome> {
    let problem = run.problem;
    let mut answer = problem.best().map(|best| (best.tokens, Some(best.reward)));
    if answer.is_none()
        && let Some(tokens) = filled(problem, nodes)?
    {
        let scored = match reason {
            StopReason::Deadline => Err(Halt::Stop(reason)),
            _ => problem.score(std::slice::from_ref(&tokens)),
        };
        let reward = match scored {
            Ok(rewards) => rewards.first().copied(),
            Err(Halt::Stop(_)) => problem.best_reward(),
            Err(Halt::Fail(error)) => return Err(error),
        };
        answer = Some((tokens, reward));
    }
    let (tokens, reward) = answer.ok_or_else(|| Error::Stopped {
        reason,
        steps,
        masks: nodes.iter().map(|node| node.seq.n_masked()).max().unwrap_or(0),
        cost: problem.cost(),
    })?;
    Ok(Outcome {
        tokens,
        reward,
        cost: problem.cost(),
        stopped: Some(reason),
        steps,
        best_seen: problem.best(),
        finals: Vec::new(),
        log_normalizer: None,
        notes: std::mem::take(&mut run.notes),
    })
}

/// The first node that can be completed from a prediction already made.
fn filled(problem: &Problem<'_>, nodes: &[Node]) -> Result<Option<Vec<TokenId>>> {
    if let Some(tokens) = nodes.iter().find_map(|node| node.seq.complete()) {
        return Ok(Some(tokens.to_vec()));
    }
    for node in nodes {
        let own = (node.seq.clone(), node.t);
        for (seq, t) in std::iter::once(own).chain(node.origin.clone()) {
            if let Some(encoded) = problem.recall(&seq, t) {
                let want = Want { argmax: true, ..Want::default() };
                let answer = problem.read(&[(&encoded, want)])?.pop().unwrap_or_default();
                return Ok(Some(resubstitute(&seq, &node.seq, &answer.argmax)));
            }
        }
    }
    Ok(None)
}

/// Fills a child's masks with the likeliest tokens of its parent's prediction (Alg. 2, lines 1–4).
/// Every mask of the child must be a mask of the parent.
pub(crate) fn resubstitute(
    parent: &MaskedSeq,
    child: &MaskedSeq,
    argmax: &[TokenId],
) -> Vec<TokenId> {
    let fill = parent.masked().zip(argmax).filter(|(position, _)| child.get(*position).is_none());
    child.complete_with(fill.map(|(_, &token)| token))
}
