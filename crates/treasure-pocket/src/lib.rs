//! The pocket models, embedded so that the binary works from any directory.
//!
//! Each is a plain Hugging Face directory under `assets/pocket`; this crate only carries their bytes.
//! With the feature `pocket` off it carries none, or, with `pocket-permissive`, those that may be used for anything.

#[cfg(any(test, feature = "packed"))]
#[cfg_attr(not(test), allow(dead_code, reason = "packing is the build's"))]
mod words;

/// An embedded model: the files of its directory.
pub struct Model {
    /// The directory's name, such as `denoiser`.
    pub name: &'static str,
    /// File names with their contents as stored; [`Model::open`] reads them.
    files: Files,
    /// Those files unpacked, from the first use to the end of the process.
    #[cfg(feature = "packed")]
    opened: std::sync::OnceLock<Files>,
}

/// File names with their contents.
pub type Files = &'static [(&'static str, &'static [u8])];

impl Model {
    #[cfg_attr(not(feature = "pocket-permissive"), expect(dead_code, reason = "there is none"))]
    const fn new(name: &'static str, files: Files) -> Self {
        Self {
            name,
            files,
            #[cfg(feature = "packed")]
            opened: std::sync::OnceLock::new(),
        }
    }

    /// Its files, unpacked where they are stored packed: once in a process, at the first call.
    pub fn open(&self) -> Files {
        #[cfg(feature = "packed")]
        return self.opened.get_or_init(|| self.unpacked());
        #[cfg(not(feature = "packed"))]
        self.files
    }

    #[cfg(feature = "packed")]
    fn unpacked(&self) -> Files {
        let base = words::base(self.name).and_then(model).map(|base| base.files);
        let files = self.files.iter().map(|&(name, bytes)| {
            let base = base.and_then(|files| files.iter().find(|(file, _)| *file == name));
            let whole = name.ends_with(".safetensors").then(|| {
                // What the build packed can be unpacked; otherwise it is left as it is, and no loader reads it.
                words::unpack(bytes, base.map(|(_, bytes)| *bytes))
            });
            (name, whole.flatten().map_or(bytes, |whole| &*Vec::leak(whole)))
        });
        Vec::leak(files.collect())
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
pub static MODELS: &[Model] = &ALL;

// Defines `ALL`, an array.
include!(concat!(env!("OUT_DIR"), "/models.rs"));

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
    fn weights_are_those_that_ship_and_survive_packing() {
        let read = |model: &str| {
            let path = format!(
                "{}/../../assets/pocket/{model}/model.safetensors",
                env!("CARGO_MANIFEST_DIR")
            );
            std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        for model in MODELS {
            let shipped = read(model.name);
            assert!(model.file("model.safetensors") == Some(&shipped), "{}: embedded", model.name);
            let base = words::base(model.name).map(|base| words::pack(&read(base), None));
            let packed = words::pack(&shipped, base.as_deref());
            let whole = words::unpack(&packed, base.as_deref());
            assert!(whole.as_ref() == Some(&shipped), "{}: packed and unpacked", model.name);
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
