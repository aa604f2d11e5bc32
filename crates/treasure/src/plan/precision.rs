//! What products are computed in, known before any weights are read.

use treasure_models::{Dtype, exec::Precision};

use crate::{Result, pocket::pocket_resolver};

/// The precision of this name; f32 without one. What `auto` is depends on the machine, on how large the networks are
/// on disk, and on how their weights are to be held.
pub fn precision(
    name: Option<&str>,
    dtypes: &[Dtype],
    networks: impl IntoIterator<Item = String>,
) -> Result<Precision> {
    let name = name.unwrap_or("f32");
    if name != "auto" {
        return Ok(Precision::chosen(name, None)?);
    }
    let only = |kept: &[Dtype]| dtypes.iter().all(|dtype| kept.contains(dtype));
    if !only(&[Dtype::Auto, Dtype::File]) {
        return Ok(Precision::F32);
    }
    let resolver = pocket_resolver();
    let sizes = networks.into_iter().map(|network| resolver.bytes_on_disk(&network));
    let largest = sizes.into_iter().try_fold(0, |most, size| Some(size?.max(most)));
    Ok(Precision::chosen(name, largest.filter(|_| only(&[Dtype::Auto])))?)
}
