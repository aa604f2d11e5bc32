//! API keys from a file.
//!
//! Guarantee: keys are kept and compared as digests, every one is compared in constant time, and how
//! long that takes does not tell which of them was near.

use std::path::Path;

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};
use treasure::{Error, Result};

struct Key {
    name: String,
    digest: [u8; 32],
}

/// The keys that are known.
pub(crate) struct Keys(Vec<Key>);

impl Keys {
    /// Reads a file: a key a line, perhaps after a name; `#` begins a comment.
    pub fn load(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Error::from(error).context(format!("api keys {}", file.display())))?;
        Self::parse(&text).map_err(|error| error.context(format!("api keys {}", file.display())))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut keys: Vec<Key> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let words: Vec<&str> =
                line.split('#').next().unwrap_or("").split_whitespace().collect();
            let (name, key) = match words[..] {
                [] => continue,
                [key] => (format!("key-{}", keys.len() + 1), key),
                [name, key] => (name.to_owned(), key),
                _ => {
                    let message = format!("line {}: expected a key, or a name and a key", at + 1);
                    return Err(Error::request(message));
                }
            };
            keys.push(Key { name, digest: Sha256::digest(key.as_bytes()).into() });
        }
        if keys.is_empty() {
            return Err(Error::request("expected at least one key, got none")
                .with_hint("write a key a line; without keys leave the file out"));
        }
        Ok(Self(keys))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The name of a key, if it is known.
    pub fn name(&self, presented: &str) -> Option<&str> {
        let digest: [u8; 32] = Sha256::digest(presented.as_bytes()).into();
        let mut found = u32::MAX;
        for (at, key) in (0..).zip(&self.0) {
            let same: Choice = key.digest.ct_eq(&digest);
            found = u32::conditional_select(&found, &at, same);
        }
        self.0.get(found as usize).map(|key| key.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Keys;

    #[test]
    fn a_key_is_known_by_all_of_it() {
        let keys = Keys::parse("# ours\nalice sk-1 # hers\n\nsk-2\n").unwrap();
        assert_eq!(keys.name("sk-1"), Some("alice"));
        assert_eq!(keys.name("sk-2"), Some("key-2"));
        for wrong in ["", "sk-", "sk-11", "alice", "SK-1"] {
            assert_eq!(keys.name(wrong), None, "{wrong}");
        }
        assert!(Keys::parse("# nothing\n").is_err());
        assert!(Keys::parse("a b c\n").is_err());
    }
}
