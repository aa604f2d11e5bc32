//! `$ref` to definitions in the same schema.

use serde_json::Value;

use super::{
    super::Result,
    keywords::{malformed, unsupported},
};

/// The schema a `$ref` points at.
pub(super) fn resolve<'v>(root: &'v Value, reference: &Value, at: &str) -> Result<&'v Value> {
    let Some(text) = reference.as_str() else {
        return Err(malformed(at, "$ref", "a text", reference));
    };
    let local = text.strip_prefix('#').filter(|path| path.is_empty() || path.starts_with('/'));
    let Some(pointer) = local else {
        return Err(unsupported(at, "$ref", format!("only #/$defs/name and the like, not {text}")));
    };
    let Some(pointer) = percent_decoded(pointer) else {
        return Err(malformed(at, "$ref", "a pointer with %XX escapes of UTF-8", reference));
    };
    let found = root.pointer(&pointer);
    found.ok_or_else(|| malformed(at, "$ref", "a place in this schema", reference))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}
