//! The pocket models, embedded so that the binary works from any directory.
//!
//! Each is a plain Hugging Face directory under `assets/pocket`; this crate only carries their bytes.
//! With the feature `pocket` off it carries none.

/// An embedded model: the files of its directory.
#[derive(Clone, Copy)]
pub struct Model {
    /// The directory's name, such as `denoiser`.
    pub name: &'static str,
    /// File names with their contents.
    pub files: &'static [(&'static str, &'static [u8])],
}

impl Model {
    /// The contents of a file.
    pub fn file(&self, name: &str) -> Option<&'static [u8]> {
        self.files.iter().find(|(file, _)| *file == name).map(|&(_, bytes)| bytes)
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
