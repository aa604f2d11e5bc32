//! The ordinary Hugging Face hub cache, read directly, and with the feature `hub` downloads into it.
//!
//! Guarantees: a cached file is found without the network; a missing `HOME` is an error, not a panic;
//! a revision is never replaced by another one.

use std::{
    path::{Component, Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::Blob;
use crate::{Error, Result};

/// A model repository of the hub at a revision.
#[derive(Clone, Debug)]
pub struct HubRepo {
    /// `org/name` or `name`.
    pub id: String,
    /// A branch, tag or commit; `main` unless pinned.
    pub revision: String,
    /// The folder that holds `models--org--name`, if one could be found.
    pub cache: Option<PathBuf>,
    /// Whether to stay off the network.
    pub offline: bool,
    /// Set once the network turned out to be out of reach.
    pub(crate) unreachable: Arc<AtomicBool>,
}

/// Where the hub cache lies: `HF_HUB_CACHE`, `HUGGINGFACE_HUB_CACHE`, `HF_HOME/hub`,
/// `XDG_CACHE_HOME/huggingface/hub` or `~/.cache/huggingface/hub`; `None` if none of them is set.
pub fn default_cache(env: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let set = |name: &str| env(name).filter(|path| !path.as_os_str().is_empty());
    set("HF_HUB_CACHE")
        .or_else(|| set("HUGGINGFACE_HUB_CACHE"))
        .or_else(|| set("HF_HOME").map(|home| home.join("hub")))
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("huggingface/hub")))
        .or_else(|| {
            set("HOME")
                .or_else(|| set("USERPROFILE"))
                .map(|home| home.join(".cache/huggingface/hub"))
        })
}

impl HubRepo {
    /// The snapshot folder of the revision, if it is in the cache.
    pub fn snapshot(&self) -> Option<PathBuf> {
        let folder = self.cache.as_ref()?.join(format!("models--{}", self.id.replace('/', "--")));
        let named = folder.join("refs").join(&self.revision);
        let commit = std::fs::read_to_string(named)
            .map_or_else(|_| self.revision.clone(), |commit| commit.trim().to_owned());
        let plain = Path::new(&commit).components().collect::<Vec<_>>();
        if !matches!(plain[..], [Component::Normal(_)]) {
            return None;
        }
        Some(folder.join("snapshots").join(commit)).filter(|path| path.is_dir())
    }

    /// Opens a file of the repository, from the cache or, unless offline, from the hub.
    /// `None` if the repository has no such file, as far as the cache can tell when off the network.
    pub fn open(&self, file: &str) -> Result<Option<Blob>> {
        let snapshot = self.snapshot();
        let path = snapshot.as_ref().map(|snapshot| snapshot.join(file));
        if let Some(path) = path.filter(|path| path.is_file()) {
            return Blob::open(&path).map(Some);
        }
        let cached = snapshot.is_some();
        if self.offline || (cached && self.unreachable.load(Ordering::Relaxed)) {
            return Ok(None);
        }
        match self.download(file) {
            // A cached model need not have every file we look for.
            Err(_) if cached => {
                self.unreachable.store(true, Ordering::Relaxed);
                Ok(None)
            }
            other => other,
        }
    }

    #[cfg(feature = "hub")]
    fn download(&self, file: &str) -> Result<Option<Blob>> {
        use hf_hub::{Cache, Repo, RepoType, api::sync::ApiBuilder};
        let Some(cache) = &self.cache else {
            return Err(self.out_of_reach(file).with_hint(
                "neither HF_HOME nor HOME is set, so there is no place for a cache: \
                 set HF_HOME, or pass a directory with the files",
            ));
        };
        let mut builder = ApiBuilder::from_cache(Cache::new(cache.clone())).with_progress(false);
        if let Ok(endpoint) = std::env::var("HF_ENDPOINT") {
            builder = builder.with_endpoint(endpoint);
        }
        if let Ok(token) = std::env::var("HF_TOKEN") {
            builder = builder.with_token(Some(token));
        }
        let api = builder.build().map_err(|source| self.out_of_reach(file).with_source(source))?;
        let repo = Repo::with_revision(self.id.clone(), RepoType::Model, self.revision.clone());
        match api.repo(repo).get(file) {
            Ok(path) => Blob::open(&path).map(Some),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(self.out_of_reach(file).with_source(error)),
        }
    }

    #[cfg(not(feature = "hub"))]
    fn download(&self, file: &str) -> Result<Option<Blob>> {
        Err(self.out_of_reach(file).with_source("this build has no access to the network"))
    }

    fn out_of_reach(&self, file: &str) -> Error {
        Error::unreachable(format!(
            "{file} of {}@{}: is not in the hub cache and could not be fetched",
            self.id, self.revision
        ))
        .with_hint(self.how_to_go_on())
    }

    /// What to do when a file is missing.
    pub fn how_to_go_on(&self) -> String {
        let place = self.cache.as_ref().map_or_else(
            || "no cache: HF_HOME and HOME are unset".to_owned(),
            |cache| format!("cache {}", cache.display()),
        );
        format!(
            "pass a directory that holds the files instead of the id, or fetch {} on a machine with \
             a network and set HF_HOME to that cache ({place})",
            self.id
        )
    }
}

/// Whether the hub answered that there is no such file. Only the status says so: a proxy's page or a path may
/// hold any number.
#[cfg(feature = "hub")]
fn is_not_found(error: &hf_hub::api::sync::ApiError) -> bool {
    use hf_hub::api::sync::ApiError;
    match error {
        ApiError::RequestError(error) => matches!(**error, ureq::Error::StatusCode(404)),
        ApiError::TooManyRetries(error) => is_not_found(error),
        _ => false,
    }
}

#[cfg(all(test, feature = "hub"))]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
    };

    use hf_hub::{Cache, api::sync::ApiBuilder};

    use super::is_not_found;

    /// What the hub's client says about a server that answers with this status.
    fn answered(status: &str) -> hf_hub::api::sync::ApiError {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let reply =
            format!("HTTP/1.1 {status}\r\nContent-Length: 3\r\nConnection: close\r\n\r\n404");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(reply.as_bytes()).unwrap();
        });
        let folder = tempfile::tempdir().unwrap();
        let api = ApiBuilder::from_cache(Cache::new(folder.path().to_owned()))
            .with_endpoint(endpoint)
            .with_progress(false)
            .build()
            .unwrap();
        let error = api.model("org/404".to_owned()).get("404.json").unwrap_err();
        server.join().unwrap();
        error
    }

    #[test]
    fn only_the_status_404_means_that_a_file_is_not_there() {
        assert!(is_not_found(&answered("404 Not Found")));
        assert!(!is_not_found(&answered("403 Not found 404")));
        assert!(!is_not_found(&answered("500 Internal Server Error")));
    }
}
