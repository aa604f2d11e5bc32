//! The pocket models, embedded so that the binary works from any directory.
//!
//! Each is a plain Hugging Face directory under `assets/pocket`; this crate only carries their bytes.
//! With the feature `pocket` off it carries none.

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

/// Weights in planes: their even bytes first, then their odd ones.
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
            let files =
                model.files.iter().map(|&(name, bytes)| match name.ends_with(".safetensors") {
                    true => (name, &*Vec::leak(interleaved(bytes))),
                    false => (name, bytes),
                });
            Vec::leak(files.collect())
        })
    }

    /// The bytes that were put into planes.
    fn interleaved(planes: &[u8]) -> Vec<u8> {
        let (even, odd) = planes.split_at(planes.len().div_ceil(2));
        let mut bytes = Vec::with_capacity(planes.len() + 1);
        bytes.extend(even.iter().zip(odd).flat_map(|(&first, &second)| [first, second]));
        bytes.extend(&even[odd.len()..]);
        bytes
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
    fn an_unknown_name_has_no_model() {
        assert!(model("no such model").is_none());
    }
}
