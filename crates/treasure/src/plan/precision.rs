//! What products are computed in, known before any weights are read.

use std::{fs, path::Path};

use treasure_models::{Dtype, exec::Precision};

use crate::Result;

/// The precision of this name; f32 without one. What `auto` is depends on the machine, on how large the networks are,
/// and on how their weights are to be held. Eight bits are for models in the binary and for folders: a GGUF file is
/// multiplied where it lies, and what a hub id stands for may not be there yet.
pub fn precision<'a>(
    name: Option<&str>,
    dtypes: &[Dtype],
    networks: impl IntoIterator<Item = &'a str>,
) -> Result<Precision> {
    let name = name.unwrap_or("f32");
    if name != "auto" {
        return Ok(Precision::chosen(name, None)?);
    }
    let only = |kept: &[Dtype]| dtypes.iter().all(|dtype| kept.contains(dtype));
    if !only(&[Dtype::Auto, Dtype::File]) {
        return Ok(Precision::F32);
    }
    let mut sizes = networks.into_iter().map(bytes_of);
    let largest = sizes.try_fold(0, |most, size| Some(size?.max(most)));
    Ok(Precision::chosen(name, largest.filter(|_| only(&[Dtype::Auto])))?)
}

/// The bytes of a model's weights: none in the binary, the files of a folder; unknown elsewhere.
fn bytes_of(model: &str) -> Option<u64> {
    if model == "pocket" || model.starts_with("pocket/") {
        return Some(0);
    }
    let is_weights = |path: &Path| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        matches!(ending, Some("safetensors" | "bin" | "pt" | "pth"))
    };
    let mut total = None;
    for entry in fs::read_dir(model).ok()? {
        let path = entry.ok()?.path();
        if is_weights(&path) {
            total = Some(u64::saturating_add(total.unwrap_or(0), path.metadata().ok()?.len()));
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_folder_is_known_without_opening_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().to_str().unwrap();
        assert_eq!(bytes_of(place), None);
        fs::write(folder.path().join("a.safetensors"), [0; 5]).unwrap();
        fs::write(folder.path().join("b.bin"), [0; 7]).unwrap();
        fs::write(folder.path().join("config.json"), "{}").unwrap();
        assert_eq!(bytes_of(place), Some(12));
        let file = folder.path().join("c.gguf");
        fs::write(&file, [0; 9]).unwrap();
        assert_eq!(bytes_of(file.to_str().unwrap()), None);
        assert_eq!((bytes_of("pocket/scorer"), bytes_of("org/name")), (Some(0), None));
    }

    #[test]
    fn eight_bits_are_for_small_networks_whose_weights_are_packed() {
        let of = |dtypes: &[Dtype], networks: &[&str]| {
            precision(Some("auto"), dtypes, networks.iter().copied()).unwrap()
        };
        let (small, floats) = ["pocket", "nobody/has-this"]
            .map(|model| of(&[Dtype::Auto; 2], &["pocket/scorer", model]))
            .into();
        assert_eq!(small, Precision::chosen("auto", Some(0)).unwrap());
        assert_eq!(floats, Precision::chosen("auto", None).unwrap());
        assert_eq!(of(&[Dtype::File, Dtype::Auto], &["pocket"]), floats);
        assert_eq!(of(&[Dtype::Auto, Dtype::F16], &["pocket"]), Precision::F32);
    }
}
