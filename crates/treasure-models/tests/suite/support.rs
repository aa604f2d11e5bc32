//! Fixtures: where the golden folders are, their numbers, and directories made of changed copies.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use candle_core::{DType, Device, Tensor};
use serde_json::Value;
use tempfile::TempDir;
use treasure_models::{LoadOptions, Resolver};

/// Golden folders of denoisers.
pub const DENOISERS: [&str; 9] = [
    "mdlm",
    "mdlm_sigma",
    "llada",
    "llada_gqa",
    "dream",
    "diffugpt",
    "bert_mlm",
    "bert_mlm_legacy",
    "modernbert_mlm",
];

/// Golden folders of autoregressive scorers.
pub const SCORERS: [&str; 4] = ["gpt2", "gpt2_bare", "llama", "llama_rope3"];

/// Golden folders of classifiers.
pub const CLASSIFIERS: [&str; 3] = ["roberta_cls", "bert_cls", "distilbert_cls"];

/// Golden folders of reward models, classifiers with one logit.
pub const REWARD_MODELS: [&str; 3] = ["llama_reward", "qwen2_reward", "armorm"];

/// A folder of `tests/golden`.
pub fn golden(family: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(family)
}

/// A path as a user writes it.
pub fn spec(path: &Path) -> String {
    path.display().to_string()
}

/// A resolver that never leaves the machine.
pub fn resolver() -> Resolver {
    Resolver::new().with_cache("/nonexistent/cache").offline()
}

pub fn meta(family: &str) -> Value {
    let text = fs::read_to_string(golden(family).join("meta.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub fn tolerance(family: &str) -> f32 {
    meta(family)["suggested_atol"].as_f64().unwrap() as f32
}

/// Options as a user would have to give them for this golden folder.
pub fn options(family: &str) -> LoadOptions {
    let needs_mask = ["diffugpt", "bert_mlm", "bert_mlm_legacy", "modernbert_mlm"];
    let mask = meta(family)["mask_id"].as_u64().map(|id| id as u32);
    LoadOptions { mask_id: mask.filter(|_| needs_mask.contains(&family)), ..Default::default() }
}

/// Inputs and outputs of a golden folder.
pub struct Io(HashMap<String, Tensor>);

impl Io {
    pub fn read(family: &str) -> Self {
        let path = golden(family).join("io.safetensors");
        Self(candle_core::safetensors::load(path, &Device::Cpu).unwrap())
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// `[rows, len]` token ids.
    pub fn ids(&self, name: &str) -> Vec<Vec<u32>> {
        self.0[name].to_dtype(DType::U32).unwrap().to_vec2().unwrap()
    }

    /// All numbers of a tensor, flat.
    pub fn numbers(&self, name: &str) -> Vec<f32> {
        self.0[name].flatten_all().unwrap().to_vec1().unwrap()
    }
}

/// The largest absolute difference.
pub fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "as many numbers on both sides");
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// A copy of a folder that a test may change.
pub fn copy(from: &Path) -> TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::write(to.path().join(entry.file_name()), fs::read(entry.path()).unwrap()).unwrap();
    }
    to
}

/// A copy of a golden folder with the config of transformers 5.
pub fn with_new_config(family: &str) -> TempDir {
    let dir = copy(&golden(family));
    fs::rename(dir.path().join("config.v5.json"), dir.path().join("config.json")).unwrap();
    dir
}

/// Changes one file of a folder as JSON.
pub fn edit_json(path: &Path, edit: impl FnOnce(&mut Value)) {
    let mut value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    edit(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

/// Rewrites the tensors of a folder's `model.safetensors`.
pub fn edit_tensors(dir: &Path, edit: impl FnOnce(&mut HashMap<String, Tensor>)) {
    let path = dir.join("model.safetensors");
    let mut tensors = candle_core::safetensors::load(&path, &Device::Cpu).unwrap();
    edit(&mut tensors);
    candle_core::safetensors::save(&tensors, path).unwrap();
}
