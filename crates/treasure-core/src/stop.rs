//! How a search that was stopped before anything was scored still has a text to show.

use crate::{MaskedSeq, Problem, Result, TokenId, Want, population::Node};

/// The first node that can be completed from a prediction already made.
pub(crate) fn filled(problem: &Problem<'_>, nodes: &[Node]) -> Result<Option<Vec<TokenId>>> {
    if let Some(tokens) = nodes.iter().find_map(|node| node.seq.complete()) {
        return Ok(Some(tokens.to_vec()));
    }
    for node in nodes {
        let own = (node.seq.clone(), node.t);
        for (seq, t) in std::iter::once(own).chain(node.origin.clone()) {
            if let Some(encoded) = problem.recall(&seq, t) {
                let want = Want { argmax: true, ..Want::default() };
                let answer = problem.read_at_last(&encoded, want)?;
                if let Some(prediction) = answer.prediction {
                    let placed = |at: usize| Some((at, node.seq.get(at)?));
                    let placed: Vec<_> = seq.masked().filter_map(placed).collect();
                    return prediction.complete(&placed).map(Some);
                }
                return Ok(Some(resubstitute(&seq, &node.seq, &answer.argmax)));
            }
        }
    }
    Ok(None)
}

/// Fills a child's masks with the likeliest tokens of its parent's prediction (Alg. 2, lines 1–4); a
/// token that the child masked again is filled in as it was.
fn resubstitute(parent: &MaskedSeq, child: &MaskedSeq, argmax: &[TokenId]) -> Vec<TokenId> {
    let whole = parent.complete_with(argmax.iter().copied());
    child.complete_with(child.masked().map(|position| whole[position]))
}
