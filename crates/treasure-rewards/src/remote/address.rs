//! A server's address, taken apart: where it is, which endpoint, and the settings in its query.
//!
//! `model`, `labels` and `prompt_logprobs` in the query are settings of ours and are not sent on.

/// The parts of an `http://` or `https://` address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Scheme, host and port.
    pub origin: String,
    /// The path without its last slash; empty if none was given.
    pub path: String,
    /// What is left of the query, with its `?`.
    query: String,
    settings: Vec<(String, String)>,
}

const SETTINGS: [&str; 3] = ["model", "labels", "prompt_logprobs"];

impl Address {
    pub fn new(url: &str) -> Self {
        let (before_query, query) = url.split_once('?').unwrap_or((url, ""));
        let host_at = before_query.find("://").map_or(0, |at| at + 3);
        let path_at =
            before_query[host_at..].find('/').map_or(before_query.len(), |at| host_at + at);
        let (settings, rest): (Vec<_>, Vec<_>) =
            query.split('&').filter(|pair| !pair.is_empty()).partition(|pair| {
                SETTINGS.contains(&pair.split_once('=').map_or(*pair, |(key, _)| key))
            });
        let settings = settings.into_iter().map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key.to_string(), value.to_string())
        });
        Self {
            origin: before_query[..path_at].to_string(),
            path: before_query[path_at..].trim_end_matches('/').to_string(),
            query: if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) },
            settings: settings.collect(),
        }
    }

    /// A setting of ours from the query.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The address of an endpoint: the path the user gave, or `default` if none was given.
    pub fn endpoint(&self, default: &str) -> String {
        let path = if self.path.is_empty() { default } else { &self.path };
        format!("{}{path}{}", self.origin, self.query)
    }

    /// The address of another path on the same server.
    pub fn sibling(&self, path: &str) -> String {
        format!("{}{path}{}", self.origin, self.query)
    }
}
