//! Objects: `properties` in their order, `required`, `additionalProperties`, `minProperties`, `maxProperties`.

use serde_json::Value;

use super::{
    super::{Pattern, Result, nfa::Node, regex::whole},
    Writer,
    keywords::{Keywords, malformed, size, unsupported},
};

/// A key that may or must stand in an object.
struct Member<'a> {
    key: &'a str,
    schema: &'a Value,
    at: String,
    required: bool,
}

/// The schema of a key that is required and not described.
static ANYTHING: Value = Value::Bool(true);

/// The schema of keys that are not named, unless none may stand.
enum Others<'a> {
    None,
    Some(&'a Value),
}

impl<'a> Writer<'a> {
    pub(super) fn object(
        &mut self,
        keywords: &'a Keywords,
        at: &str,
        from: Node,
        to: Node,
    ) -> Result<bool> {
        let others = match keywords.get("additionalProperties") {
            None | Some(Value::Bool(false)) => Others::None,
            Some(schema) => Others::Some(schema),
        };
        let Some(members) = members(keywords, &others, at)? else { return Ok(false) };
        let required = members.iter().filter(|member| member.required).count();
        let min = size(keywords, "minProperties", at)?.unwrap_or(0).max(required);
        let max = size(keywords, "maxProperties", at)?.unwrap_or(usize::MAX);
        if let (Others::Some(_), true) = (&others, min > required || max < usize::MAX) {
            let which = if min > required { "minProperties" } else { "maxProperties" };
            return Err(unsupported(at, which, "not beside keys that are not named"));
        }
        if max < min || (matches!(others, Others::None) && members.len() < min) {
            return Ok(false);
        }
        // How many members stand is followed only where it matters; else just whether any does.
        let counting = min > required || max < members.len();
        let levels = if counting { max.min(members.len()) + 1 } else { 2 };
        let mut here = self.nodes(levels)?;
        self.mark(from, b'{', here[0])?;
        for member in &members {
            let next = self.nodes(levels)?;
            if !member.required {
                here.iter().zip(&next).for_each(|(&from, &to)| self.nfa.silent(from, to));
            }
            let mut possible = false;
            for (level, &after) in next.iter().enumerate().skip(1) {
                let entry = self.nfa.node()?;
                self.enter(&here, level, counting, entry)?;
                let value = self.key(member.key, entry)?;
                possible |= self.value(member.schema, &member.at, value, after)?;
            }
            if member.required && !possible {
                return Ok(false);
            }
            here = next;
        }
        if let Others::Some(schema) = others {
            // Any number of further members, behind the named ones.
            let (entry, after) = (self.nfa.node()?, self.nfa.node()?);
            self.enter(&here, 1, counting, entry)?;
            let value = self.other_key(&members, entry)?;
            if self.value(schema, &format!("{at}/additionalProperties"), value, after)? {
                self.nfa.silent(after, here[1]);
            }
        }
        let enough = if counting { min } else { 0 };
        for &end in &here[enough..] {
            self.mark(end, b'}', to)?;
        }
        Ok(true)
    }

    fn nodes(&mut self, count: usize) -> Result<Vec<Node>> {
        (0..count).map(|_| self.nfa.node()).collect()
    }

    /// Leads to the member that makes `level` of them: with a comma unless it is the first.
    fn enter(&mut self, here: &[Node], level: usize, counting: bool, entry: Node) -> Result<()> {
        if level == 1 {
            self.nfa.silent(here[0], entry);
        }
        match (counting, level) {
            (true, 1) => Ok(()),
            (true, _) => self.mark(here[level - 1], b',', entry),
            (false, _) => self.mark(here[1], b',', entry),
        }
    }

    /// A key that is none of the named ones, without escapes so that it cannot be one in disguise.
    fn other_key(&mut self, members: &[Member<'_>], from: Node) -> Result<Node> {
        let mut keys = whole(r#""[^"\\\x00-\x1F]*""#, self.limits)?;
        if !members.is_empty() {
            let named = members.iter().map(|member| Value::from(member.key).to_string());
            let named = Pattern::choices(named).dfa(self.limits)?;
            if let Some(rest) = keys.except(&named, self.limits.max_states)? {
                keys = rest;
            }
        }
        let (after, value) = (self.nfa.node()?, self.nfa.node()?);
        self.nfa.dfa(from, &keys, after)?;
        self.mark(after, b':', value)?;
        Ok(value)
    }
}

/// The keys in order: those of `properties`, then required ones that are not described. `None` if a
/// required key may not stand.
fn members<'a>(
    keywords: &'a Keywords,
    others: &Others<'a>,
    at: &str,
) -> Result<Option<Vec<Member<'a>>>> {
    let mut members = Vec::new();
    if let Some(properties) = keywords.get("properties") {
        let Some(properties) = properties.as_object() else {
            return Err(malformed(at, "properties", "an object of schemas", properties));
        };
        for (key, schema) in properties {
            let at = format!("{at}/properties/{}", key.replace('~', "~0").replace('/', "~1"));
            members.push(Member { key, schema, at, required: false });
        }
    }
    let Some(required) = keywords.get("required") else { return Ok(Some(members)) };
    let Some(names) = required.as_array() else {
        return Err(malformed(at, "required", "a list of keys", required));
    };
    for name in names {
        let Some(key) = name.as_str() else {
            return Err(malformed(at, "required", "a list of keys", required));
        };
        if let Some(member) = members.iter_mut().find(|member| member.key == key) {
            member.required = true;
            continue;
        }
        let (schema, at) = match (others, keywords.get("additionalProperties")) {
            (Others::Some(schema), _) => (*schema, format!("{at}/additionalProperties")),
            (Others::None, None) => (&ANYTHING, format!("{at}/required")),
            (Others::None, Some(_)) => return Ok(None),
        };
        members.push(Member { key, schema, at, required: true });
    }
    Ok(Some(members))
}
