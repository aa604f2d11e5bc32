//! Arrays: `items`, `prefixItems`, `minItems`, `maxItems`.

use serde_json::Value;

use super::{
    super::{Result, nfa::Node},
    Writer,
    keywords::{Keywords, list, malformed, size, unsupported},
};

static ANYTHING: Value = Value::Bool(true);
static NOTHING: Value = Value::Bool(false);

impl<'a> Writer<'a> {
    pub(super) fn array(
        &mut self,
        keywords: &'a Keywords,
        at: &str,
        from: Node,
        to: Node,
    ) -> Result<bool> {
        match keywords.get("uniqueItems") {
            None | Some(Value::Bool(false)) => {}
            Some(Value::Bool(true)) => {
                return Err(unsupported(at, "uniqueItems", "no automaton remembers all items"));
            }
            Some(other) => return Err(malformed(at, "uniqueItems", "true or false", other)),
        }
        let prefix = match keywords.get("prefixItems") {
            Some(schemas) => list(schemas, "prefixItems", at)?,
            None => &[],
        };
        if let Some(Value::Array(_)) = keywords.get("items") {
            return Err(unsupported(at, "items", "as a list; use prefixItems"));
        }
        // A tuple is closed unless `items` says otherwise, as an object is.
        let items =
            keywords.get("items").unwrap_or(if prefix.is_empty() { &ANYTHING } else { &NOTHING });
        let min = size(keywords, "minItems", at)?.unwrap_or(0);
        let max = size(keywords, "maxItems", at)?;
        if max.is_some_and(|max| max < min) {
            return Ok(false);
        }
        let inside = self.nfa.node()?;
        self.mark(from, b'[', inside)?;
        // Items that are written one by one; after them the last one may repeat.
        let single = max.unwrap_or_else(|| min.max(prefix.len() + 1));
        let (mut done, mut possible) = (inside, false);
        for index in 0..=single {
            if index >= min {
                self.mark(done, b']', to)?;
                possible = true;
            }
            if index == single {
                break;
            }
            let (item, after) = (self.nfa.node()?, self.nfa.node()?);
            match index {
                0 => self.nfa.silent(done, item),
                _ => self.mark(done, b',', item)?,
            }
            let (schema, place) = match prefix.get(index) {
                Some(schema) => (schema, format!("{at}/prefixItems/{index}")),
                None => (items, format!("{at}/items")),
            };
            if !self.value(schema, &place, item, after)? {
                break;
            }
            if max.is_none() && index + 1 == single {
                self.mark(after, b',', item)?;
            }
            done = after;
        }
        Ok(possible)
    }
}
