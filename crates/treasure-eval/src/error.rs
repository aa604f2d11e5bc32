//! What can go wrong in an experiment, with the values that went wrong and a way out.

use std::{borrow::Cow, io, path::PathBuf};

use treasure::Hint;

/// The result of an evaluation operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a preset, a plan, the run store, a sample or the report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No preset and no file of that name.
    #[error("preset {name}: expected one of {known} or a path to a .toml file")]
    UnknownPreset {
        /// What was asked for.
        name: String,
        /// The presets there are.
        known: String,
        /// The one that was probably meant.
        near: Option<String>,
    },
    /// A config that does not make sense.
    #[error("config {name}: {message}")]
    Config {
        /// The preset or file.
        name: String,
        /// What is wrong, with the place.
        message: String,
        /// What can be done about it.
        hint: Cow<'static, str>,
    },
    /// A method of a config that cannot be asked for.
    #[error("method {name:?}: {cause}")]
    Method {
        /// Its name in tables.
        name: String,
        /// What is wrong with it.
        cause: treasure::Error,
    },
    /// An option outside its domain.
    #[error("{what}: expected {expected}, got {got}")]
    Invalid {
        /// The option.
        what: String,
        /// What it should have been.
        expected: String,
        /// What it was.
        got: String,
    },
    /// A file could not be read or written.
    #[error("{}: {action} failed{}", path.display(), after(*kept))]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// How many finished samples the file holds, where it is a store.
        kept: Option<usize>,
        /// The operating system's answer.
        #[source]
        source: io::Error,
    },
    /// The folder holds results of another plan.
    #[error("{}: holds results of another plan ({found}), this run is {expected}: {difference}", path.display())]
    OtherPlan {
        /// The folder or file.
        path: PathBuf,
        /// The fingerprint of this run.
        expected: String,
        /// The fingerprint found.
        found: String,
        /// The first differences.
        difference: String,
    },
    /// The folder already has samples and nobody asked to continue.
    #[error("{}: already holds {samples} finished samples of this plan", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
        /// How many.
        samples: usize,
    },
    /// Another process writes here.
    #[error("{}: another process is writing this shard", path.display())]
    Locked {
        /// The shard file.
        path: PathBuf,
    },
    /// A line of a store that cannot be a row.
    #[error("{}:{line}: not a sample row: {message}", path.display())]
    Row {
        /// The shard file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// A file that is no trace.
    #[error("{}: expected a trace, which begins with its schema, got {got}", path.display())]
    NoTrace {
        /// The file.
        path: PathBuf,
        /// What it begins with.
        got: String,
    },
    /// A file that a page was to be written over, and that is none.
    #[error("{}: expected no file or an earlier page, got {bytes} bytes of something else", path.display())]
    NoPage {
        /// The file.
        path: PathBuf,
        /// How long it is.
        bytes: usize,
    },
    /// A merge without all rows, or with some twice.
    #[error("{}: cannot merge: {message}", path.display())]
    Merge {
        /// The folder.
        path: PathBuf,
        /// Which rows are missing or double.
        message: String,
    },
    /// A sample failed; the finished ones are kept.
    #[error("sample {id}: failed after {kept} finished samples were kept")]
    Sample {
        /// The cell.
        id: String,
        /// How many finished samples the store holds.
        kept: usize,
        /// Why.
        #[source]
        source: Box<Error>,
    },
    /// A model, a reward or a search failed.
    #[error(transparent)]
    Search(#[from] treasure::Error),
    /// A figure could not be drawn.
    #[error("figure {name}: {message}")]
    Figure {
        /// The figure.
        name: String,
        /// What happened.
        message: String,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            Self::UnknownPreset { near: Some(near), .. } => {
                format!("did you mean {near}?").into()
            }
            Self::UnknownPreset { .. } => {
                "a config of your own is given by its path, ./my.toml".into()
            }
            Self::Method { cause, .. } | Self::Search(cause) => {
                return treasure::hint_of(cause).map(Cow::Owned);
            }
            Self::Config { hint, .. } => hint.as_ref().into(),
            Self::NoTrace { .. } => "write one as the trace of a search".into(),
            Self::NoPage { .. } => "name another file, or remove it first".into(),
            Self::Invalid { what, .. } if what == "prompts" => {
                r#"for more, name a JSON Lines file in the config: prompts = "mine.jsonl""#.into()
            }
            Self::Invalid { what, .. } if what == "continuations" => "take another number".into(),
            Self::Invalid { .. } => PAGE.into(),
            Self::Io { source, .. } if no_room(source.kind()) => {
                "make room on the disk or in the quota, then resume the run".into()
            }
            Self::Io { action: "reading prompts", .. } => {
                "the path of a prompts file is relative to the folder of the config".into()
            }
            Self::Io { action: "reading", source, .. } => match source.kind() {
                io::ErrorKind::NotFound => "make the run first, into this folder".into(),
                io::ErrorKind::NotADirectory => {
                    "name the folder of a run; a trace is shown by `treasure trace view FILE`".into()
                }
                _ => WRITE.into(),
            },
            Self::Io { .. } => WRITE.into(),
            Self::OtherPlan { .. } => {
                "choose another folder; its run may reuse what both have in common".into()
            }
            Self::NotEmpty { .. } => {
                "resume the run, or choose another folder".into()
            }
            Self::Locked { .. } => "wait for it, or give each process its own shard".into(),
            Self::Row { path, .. } => format!(
                "only an unfinished last line is repaired; look at {} and remove the damaged line, then resume the run",
                path.display()
            )
            .into(),
            Self::Merge { .. } => {
                "resume the run until nothing is missing, then merge again".into()
            }
            Self::Sample { source, .. } => {
                let resume = "when the cause is gone, resume the run";
                source.hint().map_or(resume.into(), |hint| format!("{hint}; {resume}").into())
            }
            Self::Figure { .. } => "the samples are kept: draw it again from them".into(),
        })
    }
}

/// What can be done about anything in a config.
pub(crate) const PAGE: &str = "docs/experiments.md says what a config holds";
const WRITE: &str = "see that the path is right and that it may be read or written";

fn after(kept: Option<usize>) -> String {
    kept.map(|kept| format!(" after {kept} finished samples were kept")).unwrap_or_default()
}

fn no_room(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
}

/// Attaches the path and the action to an I/O error.
pub(crate) fn at(
    path: impl Into<PathBuf>,
    action: &'static str,
) -> impl FnOnce(io::Error) -> Error {
    let path = path.into();
    move |source| Error::Io { path, action, kept: None, source }
}

impl From<treasure::core::Error> for Error {
    fn from(error: treasure::core::Error) -> Self {
        Self::Search(error.into())
    }
}
