//! A trie of the vocabulary's bytes, in the order of a walk that can leave out subtrees.

use treasure_core::TokenId;

/// A node: the byte that leads to it, where its subtree ends, and the tokens that end here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    pub byte: u8,
    /// One more than the index of the last node below this one.
    pub end: u32,
    /// Tokens `ids[first..last]` end here; equal bytes may have several ids.
    pub first: u32,
    pub last: u32,
}

/// Nodes in preorder; the root is left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Trie {
    pub nodes: Vec<Branch>,
    pub ids: Vec<TokenId>,
}

impl Trie {
    /// The trie of tokens `0..size`; those without bytes are not in it.
    pub fn build<'a>(size: usize, bytes: impl Fn(TokenId) -> &'a [u8]) -> Self {
        // Most comparisons are decided by the first eight bytes.
        let head = |text: &[u8]| {
            let mut head = [0; 8];
            head[..text.len().min(8)].copy_from_slice(&text[..text.len().min(8)]);
            u64::from_be_bytes(head)
        };
        let spoken = (0..size as TokenId).filter(|&id| !bytes(id).is_empty());
        let mut heads: Vec<(u64, TokenId)> = spoken.map(|id| (head(bytes(id)), id)).collect();
        heads.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| bytes(a.1).cmp(bytes(b.1))).then(a.1.cmp(&b.1))
        });
        let ids: Vec<TokenId> = heads.into_iter().map(|(_, id)| id).collect();
        let mut nodes: Vec<Branch> = Vec::new();
        // The nodes of the bytes of the token before.
        let mut path: Vec<usize> = Vec::new();
        let mut before: &[u8] = &[];
        for (at, &id) in ids.iter().enumerate() {
            let text = bytes(id);
            let common = text.iter().zip(before).take_while(|(a, b)| a == b).count();
            for closed in path.drain(common..) {
                nodes[closed].end = nodes.len() as u32;
            }
            for &byte in &text[common..] {
                path.push(nodes.len());
                nodes.push(Branch { byte, end: 0, first: at as u32, last: at as u32 });
            }
            if let Some(&end) = path.last() {
                nodes[end].last = at as u32 + 1;
            }
            before = text;
        }
        for closed in path {
            nodes[closed].end = nodes.len() as u32;
        }
        Self { nodes, ids }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_ends_at_the_node_of_its_bytes() {
        let words: [&[u8]; 7] = [b"ab", b"b", b"", b"abc", b"ab", b"a", b"ad"];
        let trie = Trie::build(words.len(), |id| words[id as usize]);
        let mut found = vec![Vec::new(); words.len()];
        let (mut path, mut ends) = (Vec::new(), Vec::new());
        for (at, node) in trie.nodes.iter().enumerate() {
            while ends.last().is_some_and(|&end| end <= at as u32) {
                ends.pop();
                path.pop();
            }
            path.push(node.byte);
            ends.push(node.end);
            for &id in &trie.ids[node.first as usize..node.last as usize] {
                found[id as usize] = path.clone();
            }
        }
        for (id, word) in words.iter().enumerate() {
            assert_eq!(found[id], *word, "token {id}");
        }
        assert_eq!(trie.nodes.len(), 5);
    }
}
