//! A schema between two nodes: references, alternatives, fixed values, then type by type.

use serde_json::Value;

use super::{
    super::{Error, Result, nfa::Node},
    Writer,
    disjoint::check_disjoint,
    keywords::{
        Keywords, OF_TYPE, check_alone, check_known, is_annotation, list, malformed, shortened,
        unsupported,
    },
    reference::resolve,
};

/// Schemas inside schemas beyond which the file is taken to be broken.
const MAX_NESTING: usize = 128;

const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "integer", "string"];

impl<'a> Writer<'a> {
    /// Writes what a schema allows from one node to another; says whether it allows anything.
    pub(super) fn value(
        &mut self,
        schema: &'a Value,
        at: &str,
        from: Node,
        to: Node,
    ) -> Result<bool> {
        let keywords = match schema {
            Value::Bool(false) => return Ok(false),
            Value::Bool(true) => return self.anything(self.options.depth, from, to),
            Value::Object(keywords) => keywords,
            other => {
                return Err(Error::Schema {
                    at: at.to_owned(),
                    expected: "an object, true or false".to_owned(),
                    got: shortened(other),
                });
            }
        };
        if self.nesting >= MAX_NESTING {
            return Err(Error::TooLarge {
                what: "schemas inside schemas",
                limit: MAX_NESTING,
                got: "more".to_owned(),
            });
        }
        self.visits += 1;
        if self.visits > self.limits.max_nodes {
            return Err(Error::TooLarge {
                what: "schemas that are entered, with those of references and items each time",
                limit: self.limits.max_nodes,
                got: "more".to_owned(),
            });
        }
        self.nesting += 1;
        let done = self.keywords(keywords, at, from, to);
        self.nesting -= 1;
        done
    }

    fn keywords(&mut self, keywords: &'a Keywords, at: &str, from: Node, to: Node) -> Result<bool> {
        check_known(keywords, at)?;
        if keywords.contains_key("$id") && self.nesting > 1 {
            return Err(unsupported(at, "$id", "inside a schema: references would start there"));
        }
        if let Some(reference) = keywords.get("$ref") {
            check_alone(keywords, "$ref", &[], at)?;
            return self.reference(reference, at, from, to);
        }
        if let Some(schemas) = keywords.get("allOf") {
            check_alone(keywords, "allOf", &[], at)?;
            return match list(schemas, "allOf", at)? {
                [only] => self.value(only, &format!("{at}/allOf/0"), from, to),
                _ => Err(unsupported(at, "allOf", "of several; write one schema that says it all")),
            };
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(schemas) = keywords.get(keyword) {
                check_alone(keywords, keyword, &[], at)?;
                let schemas = list(schemas, keyword, at)?;
                if keyword == "oneOf" {
                    check_disjoint(self.root, schemas, at)?;
                }
                return self.alternatives(schemas, &format!("{at}/{keyword}"), from, to);
            }
        }
        if let Some(value) = keywords.get("const") {
            check_alone(keywords, "const", &["type"], at)?;
            return self.fixed(std::slice::from_ref(value), keywords, at, from, to);
        }
        if let Some(values) = keywords.get("enum") {
            check_alone(keywords, "enum", &["type"], at)?;
            return self.fixed(list(values, "enum", at)?, keywords, at, from, to);
        }
        if keywords.keys().all(|keyword| is_annotation(keyword)) {
            return self.anything(self.options.depth, from, to);
        }
        let mut possible = false;
        for name in types(keywords, at)? {
            possible |= match name {
                "null" => self.text("null", from, to)?,
                "boolean" => self.text("true", from, to)? | self.text("false", from, to)?,
                "object" => self.object(keywords, at, from, to)?,
                "array" => self.array(keywords, at, from, to)?,
                "string" => self.string(keywords, at, from, to)?,
                "integer" => self.number(keywords, at, true, from, to)?,
                _ => self.number(keywords, at, false, from, to)?,
            };
        }
        Ok(possible)
    }

    fn reference(&mut self, reference: &'a Value, at: &str, from: Node, to: Node) -> Result<bool> {
        let schema = resolve(self.root, reference, at)?;
        let name = reference.as_str().unwrap_or_default();
        let inside = self.entered.iter().filter(|entered| *entered == name).count();
        if inside > self.options.depth {
            self.cut = true;
            return Ok(false);
        }
        self.entered.push(name.to_owned());
        let done = self.value(schema, name, from, to);
        self.entered.pop();
        done
    }

    fn alternatives(
        &mut self,
        schemas: &'a [Value],
        at: &str,
        from: Node,
        to: Node,
    ) -> Result<bool> {
        let mut possible = false;
        for (index, schema) in schemas.iter().enumerate() {
            possible |= self.value(schema, &format!("{at}/{index}"), from, to)?;
        }
        Ok(possible)
    }

    /// The values of `const` or `enum` that have the type, if one is given.
    fn fixed(
        &mut self,
        values: &'a [Value],
        keywords: &Keywords,
        at: &str,
        from: Node,
        to: Node,
    ) -> Result<bool> {
        let names = match keywords.contains_key("type") {
            true => types(keywords, at)?,
            false => TYPES.to_vec(),
        };
        let mut possible = false;
        for value in values.iter().filter(|value| names.iter().any(|name| has_type(value, name))) {
            self.literal(value, from, to)?;
            possible = true;
        }
        Ok(possible)
    }

    pub(super) fn text(&mut self, text: &str, from: Node, to: Node) -> Result<bool> {
        self.nfa.bytes(from, text.as_bytes(), to)?;
        Ok(true)
    }

    /// Any value, with arrays and objects nested to a depth.
    pub(super) fn anything(&mut self, depth: usize, from: Node, to: Node) -> Result<bool> {
        for text in ["null", "true", "false"] {
            self.text(text, from, to)?;
        }
        let none = Keywords::new();
        self.number(&none, "#", false, from, to)?;
        self.string(&none, "#", from, to)?;
        for (open, close, keyed) in [(b'[', b']', false), (b'{', b'}', true)] {
            let (inside, item, after) = (self.nfa.node()?, self.nfa.node()?, self.nfa.node()?);
            self.mark(from, open, inside)?;
            self.mark(inside, close, to)?;
            if depth == 0 {
                continue;
            }
            self.nfa.silent(inside, item);
            let value = if keyed { self.any_key(item)? } else { item };
            self.anything(depth - 1, value, after)?;
            self.mark(after, b',', item)?;
            self.mark(after, close, to)?;
        }
        Ok(true)
    }
}

/// The types a schema names; without `type`, those its keywords speak of.
fn types<'v>(keywords: &'v Keywords, at: &str) -> Result<Vec<&'v str>> {
    let known = |value: &'v Value| {
        let name = value.as_str().filter(|name| TYPES.contains(name));
        name.ok_or_else(|| malformed(at, "type", &TYPES.join(", "), value))
    };
    match keywords.get("type") {
        Some(Value::Array(_)) => {
            let names = list(&keywords["type"], "type", at)?;
            let mut names = names.iter().map(known).collect::<Result<Vec<_>>>()?;
            if names.contains(&"number") {
                names.retain(|&name| name != "integer");
            }
            Ok(names)
        }
        Some(value) => Ok(vec![known(value)?]),
        None => {
            let speaks =
                |list: &&[&str]| list.iter().any(|keyword| keywords.contains_key(*keyword));
            let spoken: Vec<&str> =
                OF_TYPE.iter().filter(|(_, list)| speaks(list)).map(|(name, _)| *name).collect();
            Ok(spoken)
        }
    }
}

/// Whether a value has a type, in JSON Schema's sense: 1.0 is an integer.
pub(super) fn has_type(value: &Value, name: &str) -> bool {
    match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
        Value::Number(number) => {
            let whole = number.as_f64().is_some_and(|x| x.fract() == 0.0);
            name == "number" || (name == "integer" && whole)
        }
    }
}
