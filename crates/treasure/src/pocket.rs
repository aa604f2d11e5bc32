//! The models in the binary: their names, and what is said where they are not.

use treasure_models::Resolver;
use treasure_rewards::spec::Leaf;

use crate::{Error, ErrorKind, Result};

/// The name of the default denoiser.
const POCKET: &str = "pocket";

/// A resolver that knows the models in the binary: `pocket` is the denoiser, `pocket/NAME` any of them.
pub(crate) fn pocket_resolver() -> Resolver {
    let mut resolver = Resolver::new();
    for model in treasure_pocket::MODELS {
        resolver = resolver.with_packed(format!("{POCKET}/{}", model.name), || model.open());
        if model.name == "denoiser" {
            resolver = resolver.with_packed(POCKET, || model.open());
        }
    }
    resolver
}

/// The error for a pocket model that this build does not carry.
fn no_pocket(name: &str) -> Error {
    let message = match treasure_pocket::MODELS.is_empty() {
        true => format!("{name}: this build carries no pocket models"),
        false => format!("{name}: this build carries no judges (feature `pocket-permissive`)"),
    };
    Error::new(ErrorKind::Model, message).with_hint(
        "name a model and a reward by directory (hf:DIR#LABEL, ppl:DIR, regex:…), or build with the \
         feature `pocket` from a full clone",
    )
}

/// Refuses a pocket model that this build does not carry.
pub(crate) fn check_pocket(name: &str) -> Result<()> {
    let own = match name.strip_prefix(POCKET) {
        Some("") => "denoiser",
        Some(rest) if rest.starts_with('/') => &rest[1..],
        _ => return Ok(()),
    };
    if treasure_pocket::model(own).is_some() {
        return Ok(());
    }
    if treasure_pocket::MODELS.is_empty() {
        return Err(no_pocket(name));
    }
    let names: Vec<_> = treasure_pocket::MODELS.iter().map(|model| model.name).collect();
    let message = format!("{name}: expected one of {}, got {own:?}", names.join(", "));
    Err(Error::new(ErrorKind::Model, message)
        .with_hint(format!("write {POCKET}, or {POCKET}/ and one of these names")))
}

/// Refuses a reward whose shipped judge is not there.
pub(crate) fn check_shipped(written: &str, leaf: &Leaf) -> Result<()> {
    let shipped = match leaf {
        Leaf::Judge(judge, _) => judge.model(),
        Leaf::Perplexity => "scorer",
        Leaf::Classifier { model, .. } | Leaf::Scorer { model } | Leaf::Nelbo { model } => {
            return check_pocket(model).map_err(|error| error.context(format!("reward {written}")));
        }
        _ => return Ok(()),
    };
    match treasure_pocket::model(shipped) {
        Some(_) => Ok(()),
        None => Err(no_pocket(&format!("reward {written}"))),
    }
}
