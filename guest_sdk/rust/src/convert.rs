//! Between types and plain values, and the JSON Schema of a type.

use crate::{base64, value, Bytes, Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// A value that is not of the type that is wanted, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    path: String,
    why: String,
}

impl Mismatch {
    /// `why` follows the path: "must be a number".
    pub fn new(why: impl Into<String>) -> Self {
        Mismatch { path: String::new(), why: why.into() }
    }
    /// The same, one level further out.
    #[must_use]
    pub fn inside(mut self, key: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{key}{dot}{}", self.path);
        self
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} {}", if self.path.is_empty() { "the value" } else { &self.path }, self.why)
    }
}
impl std::error::Error for Mismatch {}

/// What an argument can be. [`record!`](crate::record) and [`choice!`](crate::choice) write it for structs and enums.
pub trait FromValue: Sized {
    /// The value as this type.
    fn from_value(value: Value) -> Result<Self, Mismatch>;
    /// What stands for a value that is not there; None where it must be.
    fn absent() -> Option<Self> {
        None
    }
}

/// What can stand in an answer.
pub trait IntoValue {
    /// This as plain data.
    fn into_value(self) -> Value;
}

/// A type that a JSON Schema describes.
pub trait Schema {
    /// A map of the words of JSON Schema; empty where any value will do.
    fn schema() -> Value;
}

macro_rules! plain {
    ($($type:ty, $name:literal, $schema:tt, $pattern:pat => $made:expr, $from:ident => $to:expr;)*) => {$(
        impl FromValue for $type {
            fn from_value(value: Value) -> Result<Self, Mismatch> {
                match value {
                    $pattern => Ok($made),
                    _ => Err(Mismatch::new(concat!("must be ", $name))),
                }
            }
        }
        impl IntoValue for $type {
            fn into_value(self) -> Value {
                let $from = self;
                $to
            }
        }
        impl Schema for $type {
            fn schema() -> Value {
                value!($schema)
            }
        }
    )*};
}

plain! {
    bool, "true or false", {"type": "boolean"}, Value::Bool(yes) => yes, from => Value::Bool(from);
    String, "text", {"type": "string"}, Value::Text(text) => text, from => Value::Text(from);
    Map, "an object", {"type": "object"}, Value::Map(map) => map, from => Value::Map(from);
    (), "null", {"type": "null"}, Value::Null => (), _from => Value::Null;
}

/// JSON has no bytes: there they are base64 text.
impl FromValue for Bytes {
    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let read = match value {
            Value::Bytes(bytes) => Some(bytes),
            Value::Text(text) => base64::read(&text),
            _ => None,
        };
        read.map(Bytes).ok_or_else(|| Mismatch::new("must be bytes, or base64 text"))
    }
}
impl IntoValue for Bytes {
    fn into_value(self) -> Value {
        Value::Bytes(self.0)
    }
}
impl Schema for Bytes {
    fn schema() -> Value {
        value!({"type": "string", "contentEncoding": "base64"})
    }
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl FromValue for $type {
            fn from_value(value: Value) -> Result<Self, Mismatch> {
                let wanted = || Mismatch::new(format!("must be an integer of {} to {}", <$type>::MIN, <$type>::MAX));
                let number = match value {
                    Value::Int(number) => number,
                    // JSON has one kind of number: 3.0 is an integer. What is too large for an i128 is its end.
                    Value::Float(number) if number.fract() == 0.0 => number as i128,
                    _ => return Err(wanted()),
                };
                <$type>::try_from(number).map_err(|_| wanted())
            }
        }
        impl IntoValue for $type {
            fn into_value(self) -> Value {
                Value::Int(self as i128)
            }
        }
        impl Schema for $type {
            fn schema() -> Value {
                value!({"type": "integer", "minimum": <$type>::MIN, "maximum": <$type>::MAX})
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

macro_rules! floats {
    ($($type:ty),*) => {$(
        impl FromValue for $type {
            fn from_value(value: Value) -> Result<Self, Mismatch> {
                match value {
                    Value::Float(number) => Ok(number as $type),
                    Value::Int(number) => Ok(number as $type), // A JSON 3 is a fine 3.0.
                    _ => Err(Mismatch::new("must be a number")),
                }
            }
        }
        impl IntoValue for $type {
            fn into_value(self) -> Value {
                Value::Float(self.into())
            }
        }
        impl Schema for $type {
            fn schema() -> Value {
                value!({"type": "number"})
            }
        }
    )*};
}
floats!(f32, f64);

impl FromValue for Value {
    fn from_value(value: Value) -> Result<Self, Mismatch> {
        Ok(value)
    }
}
impl IntoValue for Value {
    fn into_value(self) -> Value {
        self
    }
}
impl Schema for Value {
    fn schema() -> Value {
        value!({})
    }
}

impl IntoValue for &str {
    fn into_value(self) -> Value {
        Value::Text(self.to_owned())
    }
}
impl Schema for &str {
    fn schema() -> Value {
        String::schema()
    }
}
impl IntoValue for &String {
    fn into_value(self) -> Value {
        Value::Text(self.clone())
    }
}
impl IntoValue for &Value {
    fn into_value(self) -> Value {
        self.clone()
    }
}
/// An integer beyond -2^64 to 2^64-1 is refused when the answer is written.
impl IntoValue for i128 {
    fn into_value(self) -> Value {
        Value::Int(self)
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            Value::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
    fn absent() -> Option<Self> {
        Some(None)
    }
}
impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Value {
        self.map_or(Value::Null, T::into_value)
    }
}
impl<T: Schema> Schema for Option<T> {
    fn schema() -> Value {
        value!({"anyOf": [T::schema(), {"type": "null"}]})
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            Value::List(list) => list
                .into_iter()
                .enumerate()
                .map(|(at, each)| T::from_value(each).map_err(|wrong| wrong.inside(&format!("[{at}]"))))
                .collect(),
            _ => Err(Mismatch::new("must be a list")),
        }
    }
}
impl<T: IntoValue> IntoValue for Vec<T> {
    fn into_value(self) -> Value {
        Value::List(self.into_iter().map(T::into_value).collect())
    }
}
impl<T: Schema> Schema for Vec<T> {
    fn schema() -> Value {
        value!({"type": "array", "items": T::schema()})
    }
}

macro_rules! maps {
    ($($type:ident),*) => {$(
        impl<T: FromValue> FromValue for $type<String, T> {
            fn from_value(value: Value) -> Result<Self, Mismatch> {
                Map::from_value(value)?
                    .into_iter()
                    .map(|(key, each)| match T::from_value(each) {
                        Ok(each) => Ok((key, each)),
                        Err(wrong) => Err(wrong.inside(&key)),
                    })
                    .collect()
            }
        }
        impl<T: IntoValue> IntoValue for $type<String, T> {
            fn into_value(self) -> Value {
                Value::Map(Map::of_distinct(self.into_iter().map(|(key, each)| (key, each.into_value())).collect()))
            }
        }
        impl<T: Schema> Schema for $type<String, T> {
            fn schema() -> Value {
                value!({"type": "object", "additionalProperties": T::schema()})
            }
        }
    )*};
}
maps!(BTreeMap, HashMap);

macro_rules! tuples {
    ($($name:ident),*) => {
        impl<$($name: IntoValue),*> IntoValue for ($($name,)*) {
            #[allow(non_snake_case)]
            fn into_value(self) -> Value {
                let ($($name,)*) = self;
                Value::List(vec![$($name.into_value()),*])
            }
        }
        impl<$($name: Schema),*> Schema for ($($name,)*) {
            fn schema() -> Value {
                let items = vec![$($name::schema()),*];
                value!({"type": "array", "minItems": items.len(), "maxItems": items.len(), "prefixItems": items})
            }
        }
    };
}
tuples!(A, B);
tuples!(A, B, C);
tuples!(A, B, C, D);
