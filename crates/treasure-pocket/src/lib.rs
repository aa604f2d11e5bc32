//! The pocket models, embedded so that the binary works from any directory.
//!
//! Each is a plain Hugging Face directory under `assets/pocket`; this crate only carries their bytes.
//! With the feature `pocket` off it carries none, or, with `pocket-permissive`, those that may be used for anything.

/// An embedded model: the files of its directory.
#[derive(Clone, Copy)]
pub struct Model {
    /// The directory's name, such as `denoiser`.
    pub name: &'static str,
    /// File names with their contents as stored; [`Model::open`] reads them.
    files: Files,
}

/// File names with their contents.
pub type Files = &'static [(&'static str, &'static [u8])];

impl Model {
    /// Its files, unpacked where they are stored packed: once in a process, at the first call.
    pub fn open(&self) -> Files {
        #[cfg(feature = "packed")]
        return packed::open(self);
        #[cfg(not(feature = "packed"))]
        self.files
    }

    /// The contents of a file.
    pub fn file(&self, name: &str) -> Option<&'static [u8]> {
        self.open().iter().find(|(file, _)| *file == name).map(|&(_, bytes)| bytes)
    }

    /// The size of all its files together.
    pub fn bytes(&self) -> usize {
        self.files.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Model({}, {} bytes)", self.name, self.bytes())
    }
}

/// All embedded models, in the manifest's order.
///
/// A static, not a constant: a constant would copy the weights into every crate that names it.
pub static MODELS: &[Model] = include!(concat!(env!("OUT_DIR"), "/models.rs"));

/// Weights stored smaller: the length of their odd bytes once compressed, those, then the even bytes.
#[cfg(feature = "packed")]
mod packed {
    use std::{
        collections::HashMap,
        sync::{Mutex, PoisonError},
    };

    use super::{Files, Model};

    static OPENED: Mutex<Option<HashMap<&'static str, Files>>> = Mutex::new(None);

    /// The files of a model. They stay for the life of the process, as those of the binary do.
    pub(super) fn open(model: &Model) -> Files {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = opened.get_or_insert_default();
        opened.entry(model.name).or_insert_with(|| {
            let files = model.files.iter().map(|&(name, bytes)| {
                let whole = name.ends_with(".safetensors").then(|| whole(bytes)).flatten();
                // What the build packed can be unpacked; a file that cannot is left as it is, and no loader reads it.
                (name, whole.map_or(bytes, |whole| &*Vec::leak(whole)))
            });
            Vec::leak(files.collect())
        })
    }

    /// The bytes that were packed.
    fn whole(packed: &[u8]) -> Option<Vec<u8>> {
        let (length, rest) = packed.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (small, even) = rest.split_at_checked(length)?;
        let odd = miniz_oxide::inflate::decompress_to_vec_with_limit(small, even.len()).ok()?;
        let mut bytes = Vec::with_capacity(2 * even.len());
        bytes.extend(even.iter().zip(&odd).flat_map(|(&first, &second)| [first, second]));
        bytes.extend(even.get(odd.len()..)?);
        Some(bytes)
    }
}

/// The embedded model of a name.
pub fn model(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.name == name)
}

#[cfg(all(test, feature = "pocket"))]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_model_has_a_config_weights_and_a_tokenizer() {
        for model in MODELS {
            for file in ["config.json", "model.safetensors", "tokenizer.json", "README.md"] {
                assert!(
                    model.file(file).is_some_and(|bytes| !bytes.is_empty()),
                    "{}/{file}",
                    model.name
                );
            }
        }
    }

    #[test]
    fn cards_say_which_models_may_be_used_for_anything() {
        let permissive = MODELS.iter().filter(|model| {
            let card = model.file("README.md").map(String::from_utf8_lossy).unwrap_or_default();
            card.lines().any(|line| line == "license: mit" || line == "license: apache-2.0")
        });
        let names: Vec<&str> = permissive.map(|model| model.name).collect();
        assert_eq!(names, ["denoiser", "scorer"], "LICENSES.md and the README name these two");
    }

    #[test]
    fn an_unknown_name_has_no_model() {
        assert!(model("no such model").is_none());
    }
}
