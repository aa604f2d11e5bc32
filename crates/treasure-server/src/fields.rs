//! The fields of a JSON body, taken one at a time, each with its own refusal.

use serde_json::{Map, Value};

use crate::refusal::{Refusal, Result};

#[cfg(test)]
thread_local! {
    /// The outer fields that were asked for, whether or not they were there.
    pub(crate) static READ: std::cell::RefCell<std::collections::BTreeSet<String>> =
        std::cell::RefCell::default();
}

/// What is left of a body.
pub(crate) struct Fields {
    map: Map<String, Value>,
    /// What stands before a name in a refusal: `treasure.` or nothing.
    under: &'static str,
}

impl Fields {
    /// The fields of a body.
    pub fn parse(body: &[u8]) -> Result<Self> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(map)) => Ok(Self { map, under: "" }),
            Ok(other) => Err(Refusal::expected("body", "a JSON object", &other)),
            Err(error) => Err(Refusal::field("body", format_args!("expected JSON, got {error}"))),
        }
    }

    /// The fields of an object under a key.
    pub fn under(&mut self, name: &str, under: &'static str) -> Result<Self> {
        match self.value(name) {
            None => Ok(Self { map: Map::new(), under }),
            Some(Value::Object(map)) => Ok(Self { map, under }),
            Some(other) => Err(self.wrong(name, "an object", &other)),
        }
    }

    /// What has not been taken.
    pub fn rest(self) -> Map<String, Value> {
        self.map
    }

    /// A field as it is; `null` is no value.
    pub fn value(&mut self, name: &str) -> Option<Value> {
        #[cfg(test)]
        if self.under.is_empty() {
            READ.with_borrow_mut(|read| read.insert(name.to_owned()));
        }
        self.map.shift_remove(name).filter(|value| !value.is_null())
    }

    /// A field, left where it is.
    pub fn peek(&self, name: &str) -> Option<&Value> {
        self.map.get(name)
    }

    fn wrong(&self, name: &str, expected: &str, got: &Value) -> Refusal {
        Refusal::expected(format!("{}{name}", self.under), expected, got)
    }

    /// A text.
    pub fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a text", &other)),
        }
    }

    /// A yes or no.
    pub fn flag(&mut self, name: &str) -> Result<Option<bool>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.wrong(name, "true or false", &other)),
        }
    }

    /// A whole number of at least `least`.
    pub fn count(&mut self, name: &str, least: u64) -> Result<Option<u64>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        match value.as_u64().filter(|count| *count >= least) {
            Some(count) => Ok(Some(count)),
            None => Err(self.wrong(name, &format!("a whole number of at least {least}"), &value)),
        }
    }

    /// One text or several.
    pub fn texts(&mut self, name: &str, most: usize) -> Result<Option<Vec<String>>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let list = match value {
            Value::String(text) => return Ok(Some(vec![text])),
            Value::Array(list) => list,
            other => return Err(self.wrong(name, "a text or a list of texts", &other)),
        };
        if list.is_empty() || list.len() > most {
            let param = format!("{}{name}", self.under);
            let message = format!("expected 1 to {most} texts, got {}", list.len());
            return Err(Refusal::field(param, message));
        }
        let mut texts = Vec::with_capacity(list.len());
        for entry in list {
            match entry {
                Value::String(text) => texts.push(text),
                Value::Number(_) | Value::Array(_) => {
                    return Err(self.wrong(name, "texts", &entry).with_hint(
                        "token ids are not taken: their meaning depends on the tokenizer; send text",
                    ));
                }
                other => return Err(self.wrong(name, "texts", &other)),
            }
        }
        Ok(Some(texts))
    }
}
