//! The method inside a refinement, as data: its name alone where it has the options of its paper, else
//! the whole method.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value};

use crate::methods::Method;

/// A method inside another.
#[derive(Clone, Debug, PartialEq)]
pub struct Inner(pub Box<Method>);

impl From<Method> for Inner {
    fn from(method: Method) -> Self {
        Self(Box::new(method))
    }
}

impl Serialize for Inner {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let name = self.0.name();
        match Method::named(name).as_ref() == Some(&*self.0) {
            true => to.serialize_str(name),
            false => self.0.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Inner {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (name, options) = match Value::deserialize(from)? {
            Value::Object(mut options) => (options.remove("method").unwrap_or_default(), options),
            name => (name, Map::new()),
        };
        let Value::String(name) = name else {
            let names = Method::NAMES.join(", ");
            return Err(D::Error::custom(format!("expected one of {names}, or one with options")));
        };
        let method = Method::from_options(&name, &Map::new(), &options);
        method.map(Self::from).map_err(D::Error::custom)
    }
}
