//! Fixed values: what `const`, `enum` and keys are written as.

use serde_json::Value;

use super::{
    super::{Result, nfa::Node},
    Writer,
};

impl Writer<'_> {
    /// Writes one value, with the white space the options allow.
    pub(super) fn literal(&mut self, value: &Value, from: Node, to: Node) -> Result<()> {
        match value {
            Value::Array(items) => {
                self.pieces((b'[', b']'), items.iter().map(|item| (None, item)), from, to)
            }
            Value::Object(members) => self.pieces(
                (b'{', b'}'),
                members.iter().map(|(key, value)| (Some(key.as_str()), value)),
                from,
                to,
            ),
            scalar => self.nfa.bytes(from, scalar.to_string().as_bytes(), to),
        }
    }

    fn pieces<'v>(
        &mut self,
        (open, close): (u8, u8),
        pieces: impl Iterator<Item = (Option<&'v str>, &'v Value)>,
        from: Node,
        to: Node,
    ) -> Result<()> {
        let mut at = self.nfa.node()?;
        self.mark(from, open, at)?;
        for (index, (key, value)) in pieces.enumerate() {
            if index > 0 {
                let next = self.nfa.node()?;
                self.mark(at, b',', next)?;
                at = next;
            }
            let start = match key {
                Some(key) => self.key(key, at)?,
                None => at,
            };
            at = self.nfa.node()?;
            self.literal(value, start, at)?;
        }
        self.mark(at, close, to)
    }

    /// A key and its colon; gives the node where the value starts.
    pub(super) fn key(&mut self, key: &str, from: Node) -> Result<Node> {
        let (after, value) = (self.nfa.node()?, self.nfa.node()?);
        self.nfa.bytes(from, Value::from(key).to_string().as_bytes(), after)?;
        self.mark(after, b':', value)?;
        Ok(value)
    }

    /// Any key and its colon.
    pub(super) fn any_key(&mut self, from: Node) -> Result<Node> {
        let (after, value) = (self.nfa.node()?, self.nfa.node()?);
        self.string(&super::keywords::Keywords::new(), "#", from, after)?;
        self.mark(after, b':', value)?;
        Ok(value)
    }
}
