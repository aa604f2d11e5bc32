//! `config.json` in the spellings of transformers 4 and 5, with every number checked before use.

use serde_json::{Map, Value};

use treasure_text::printable;

use crate::{
    Blob, Error, Result,
    stack::{Activation, Llama3Scaling, Rotary},
};

const MAX_CONFIG: u64 = 8 << 20;
/// No dimension of a published model comes near this; a larger one is a mistake or an attack.
const MAX_SIZE: u64 = 1 << 24;

/// A parsed configuration.
#[derive(Clone, Debug)]
pub struct Config {
    place: String,
    values: Map<String, Value>,
}

impl Config {
    /// Reads a `config.json`.
    pub fn read(blob: &Blob) -> Result<Self> {
        Self::parse(&blob.text(MAX_CONFIG)?, blob.name())
    }

    /// Parses the text of a `config.json`; `place` is its name for messages.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        let parsed = match serde_json::from_str(text) {
            Ok(Value::Object(values)) => Ok(Self { place: place.to_owned(), values }),
            Ok(_) => Err(Error::expected(place, "a JSON object", "another JSON value")),
            Err(source) => Err(Error::new(format!("{place}: is not JSON")).with_source(source)),
        };
        parsed.map_err(Error::of_file)
    }

    fn wrong(&self, key: &str, expected: &str, got: &Value) -> Error {
        Error::expected(format!("{}: {key}", self.place), expected, got)
    }

    /// The value of a key that is there and not null.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    /// All keys with their values.
    pub fn entries(&self) -> &Map<String, Value> {
        &self.values
    }

    /// The `model_type`.
    pub fn model_type(&self) -> Result<&str> {
        self.text("model_type")?.ok_or_else(|| {
            Error::new(format!("{}: has no model_type", self.place))
                .with_hint("name the architecture")
        })
    }

    /// The class names under `architectures`.
    pub fn architectures(&self) -> Vec<&str> {
        self.get("architectures")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default()
    }

    /// A text, if the key is there.
    pub fn text(&self, key: &str) -> Result<Option<&str>> {
        self.get(key)
            .map(|value| value.as_str().ok_or_else(|| self.wrong(key, "text", value)))
            .transpose()
    }

    /// A positive size, if the key is there.
    pub fn size_if(&self, key: &str) -> Result<Option<usize>> {
        self.get(key)
            .map(|value| match value.as_u64() {
                Some(n) if n > 0 && n <= MAX_SIZE => Ok(n as usize),
                _ => Err(self.wrong(key, &format!("an integer from 1 to {MAX_SIZE}"), value)),
            })
            .transpose()
    }

    /// A positive size that must be there.
    pub fn size(&self, key: &str) -> Result<usize> {
        self.size_if(key)?.ok_or_else(|| Error::new(format!("{}: has no {key}", self.place)))
    }

    /// A number of layers that must be there.
    pub fn layers(&self, key: &str) -> Result<usize> {
        let n = self.size(key)?;
        if n > 4096 {
            return Err(Error::expected(
                format!("{}: {key}", self.place),
                "at most 4096 layers",
                n,
            ));
        }
        Ok(n)
    }

    /// A width that a number of heads divides; returns the width of one head.
    pub fn head_dim(&self, width: usize, heads: usize) -> Result<usize> {
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(Error::expected(
                format!("{}: width {width}", self.place),
                format!("a multiple of {heads} heads"),
                width,
            ));
        }
        Ok(width / heads)
    }

    /// A finite number, or the default where the key is absent.
    pub fn number(&self, key: &str, default: f64) -> Result<f64> {
        self.get(key).map_or(Ok(default), |value| {
            value
                .as_f64()
                .filter(|x| x.is_finite())
                .ok_or_else(|| self.wrong(key, "a finite number", value))
        })
    }

    /// A non-negative number below 1 for norms, or the default.
    pub fn epsilon(&self, key: &str, default: f64) -> Result<f32> {
        let eps = self.number(key, default)?;
        if !(0.0..1.0).contains(&eps) {
            return Err(Error::expected(
                format!("{}: {key}", self.place),
                "a small number, not negative",
                eps,
            ));
        }
        Ok(eps as f32)
    }

    /// A truth value, or the default where the key is absent.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool> {
        self.get(key).map_or(Ok(default), |value| {
            value.as_bool().ok_or_else(|| self.wrong(key, "true or false", value))
        })
    }

    /// A token id, if the key is there; of a list of ids the first.
    pub fn token(&self, key: &str) -> Result<Option<u32>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let first = value.as_array().and_then(|ids| ids.first()).unwrap_or(value);
        match first.as_i64() {
            Some(-1) => Ok(None),
            Some(id) if (0..i64::from(u32::MAX)).contains(&id) => Ok(Some(id as u32)),
            _ => Err(self.wrong(key, "a token id", value)),
        }
    }

    /// Token ids, one or a list of them.
    pub fn tokens(&self, key: &str) -> Result<Vec<u32>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let id = |value: &Value| match value.as_u64().map(u32::try_from) {
            Some(Ok(id)) => Ok(id),
            _ => Err(self.wrong(key, "token ids", value)),
        };
        match value {
            Value::Array(ids) => ids.iter().map(id).collect(),
            Value::Null => Ok(Vec::new()),
            one => Ok(vec![id(one)?]),
        }
    }

    /// Fails unless a key that would change the network has the one value we implement.
    pub fn only(&self, key: &str, supported: &Value) -> Result<()> {
        match self.get(key) {
            Some(value) if value != supported => {
                Err(Error::unsupported(format!("{}: {key}", self.place), supported, value)
                    .with_hint("no published checkpoint of this family uses another value"))
            }
            _ => Ok(()),
        }
    }

    /// An activation by its transformers name, or the default.
    pub fn activation(&self, key: &str, default: Activation) -> Result<Activation> {
        let Some(name) = self.text(key)? else { return Ok(default) };
        Ok(match name {
            "gelu" | "gelu_python" => Activation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" | "gelu_accurate" => {
                Activation::GeluTanh
            }
            "silu" | "swish" => Activation::Silu,
            "relu" => Activation::Relu,
            "tanh" => Activation::Tanh,
            _ => {
                return Err(Error::unsupported(
                    format!("{}: {key}", self.place),
                    "gelu, gelu_new, silu, relu or tanh",
                    name,
                ));
            }
        })
    }

    /// Label names in order, from `id2label`; control characters are escaped.
    pub fn labels(&self) -> Result<Option<Vec<String>>> {
        let shown = |name: &str| printable(name).into_owned();
        let Some(value) = self.get("id2label") else { return Ok(None) };
        let object = value.as_object().ok_or_else(|| self.wrong("id2label", "an object", value))?;
        (0..object.len())
            .map(|id| {
                object.get(&id.to_string()).and_then(Value::as_str).map(shown).ok_or_else(|| {
                    self.wrong("id2label", &format!("a name for each id, {id} among them"), value)
                })
            })
            .collect::<Result<_>>()
            .map(Some)
    }

    /// The rotation of a head, from `rope_parameters` (transformers 5) or `rope_theta` and
    /// `rope_scaling` (transformers 4).
    pub fn rotary(&self, head_dim: usize, default_theta: f64) -> Result<Rotary> {
        let nested = self.get("rope_parameters").and_then(Value::as_object);
        let scaling = nested.or_else(|| self.get("rope_scaling").and_then(Value::as_object));
        let theta = match nested.and_then(|rope| rope.get("rope_theta")) {
            Some(theta) => self.positive("rope_theta", theta)?,
            None => self.number("rope_theta", default_theta)?,
        };
        self.rotary_from(head_dim, theta, scaling)
    }

    /// The rotation of one kind of layer where kinds differ.
    pub fn rotary_of_kind(
        &self,
        head_dim: usize,
        kind: &str,
        old_key: &str,
        default_theta: f64,
    ) -> Result<Rotary> {
        let nested =
            self.get("rope_parameters").and_then(|rope| rope.get(kind)).and_then(Value::as_object);
        let theta = match nested.and_then(|rope| rope.get("rope_theta")) {
            Some(theta) => self.positive("rope_theta", theta)?,
            None => self.number(old_key, default_theta)?,
        };
        self.rotary_from(head_dim, theta, nested)
    }

    fn positive(&self, key: &str, value: &Value) -> Result<f64> {
        value
            .as_f64()
            .filter(|x| x.is_finite() && *x > 0.0)
            .ok_or_else(|| self.wrong(key, "a positive number", value))
    }

    fn rotary_from(
        &self,
        head_dim: usize,
        theta: f64,
        scaling: Option<&Map<String, Value>>,
    ) -> Result<Rotary> {
        if !(theta.is_finite() && theta > 0.0) {
            return Err(Error::expected(format!("{}: rope_theta", self.place), "positive", theta));
        }
        let factor = |key: &str| match scaling.and_then(|scaling| scaling.get(key)) {
            Some(value) => self.positive(key, value),
            None => Err(Error::new(format!("{}: rope scaling has no {key}", self.place))),
        };
        let partial = scaling
            .and_then(|scaling| scaling.get("partial_rotary_factor"))
            .or_else(|| self.get("partial_rotary_factor"));
        let dim = match partial {
            None => head_dim,
            Some(value) => {
                let share = self.positive("partial_rotary_factor", value)?;
                if share > 1.0 {
                    return Err(self.wrong("partial_rotary_factor", "at most 1", value));
                }
                (head_dim as f64 * share) as usize
            }
        };
        let kind = scaling
            .and_then(|scaling| scaling.get("rope_type").or_else(|| scaling.get("type")))
            .and_then(Value::as_str)
            .unwrap_or("default");
        Ok(match kind {
            "default" => Rotary::new(dim, theta),
            "linear" => {
                let factor = factor("factor")? as f32;
                let plain = Rotary::new(dim, theta);
                let slowed = plain.inverse_frequencies().iter().map(|f| f / factor).collect();
                Rotary::from_inverse_frequencies(slowed)
            }
            "llama3" => Rotary::llama3(
                dim,
                theta,
                Llama3Scaling {
                    factor: factor("factor")? as f32,
                    low_freq_factor: factor("low_freq_factor")? as f32,
                    high_freq_factor: factor("high_freq_factor")? as f32,
                    original_max_positions: factor("original_max_position_embeddings")? as f32,
                },
            ),
            other => {
                return Err(Error::unsupported(
                    format!("{}: rope type", self.place),
                    "default, linear or llama3",
                    other,
                ));
            }
        })
    }
}
