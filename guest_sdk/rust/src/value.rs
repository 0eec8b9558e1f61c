//! Plain data: what a request and an answer are made of.

/// One item of plain data.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// -2^64 to 2^64-1; an answer that holds another integer is refused by [`encode`](crate::encode).
    Int(i128),
    /// Any double, NaN and the infinities too.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes, which are no text.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Value>),
    /// A map.
    Map(Map),
}

impl Value {
    /// What a map has under `key`; None where it has not, and of all that is no map.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Map(map) => map.get(key),
            _ => None,
        }
    }
    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Keys and values in the order in which they came; each key once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map(Vec<(String, Value)>);

impl Map {
    /// An empty one.
    pub fn new() -> Self {
        Map(Vec::new())
    }
    /// What stands under `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(found, _)| found == key).map(|(_, value)| value)
    }
    /// Puts `value` under `key`, in place of what stood there.
    pub fn insert(&mut self, key: impl Into<String>, value: impl crate::IntoValue) {
        let (key, value) = (key.into(), value.into_value());
        match self.0.iter_mut().find(|(found, _)| *found == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key, value)),
        }
    }
    /// Takes what stands under `key` out of the map.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let place = self.0.iter().position(|(found, _)| found == key)?;
        Some(self.0.remove(place).1)
    }
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Keys and values, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }
    /// Of keys that are known to differ.
    pub(crate) fn of_distinct(pairs: Vec<(String, Value)>) -> Self {
        Map(pairs)
    }
}

impl IntoIterator for Map {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Of a key that occurs more than once the last value holds.
impl<K: Into<String>, V: crate::IntoValue> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut last = std::collections::HashMap::new();
        let mut map = Vec::new();
        for (key, value) in pairs {
            let (key, value) = (key.into(), value.into_value());
            match last.get(&key) {
                Some(&place) => map[place] = (key, value),
                None => {
                    last.insert(key.clone(), map.len());
                    map.push((key, value));
                }
            }
        }
        Map(map)
    }
}

/// Bytes as an argument or in an answer: a `Vec<u8>` is a list of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

/// Plain data as it is written in JSON: `value!({"name": name, "list": [1, null, {"a": 2.5}]})`. Any expression whose
/// type is [`IntoValue`](crate::IntoValue) may stand for a value.
#[macro_export]
macro_rules! value {
    (@map $map:ident) => {};
    (@map $map:ident $key:literal : null $(, $($rest:tt)*)?) => {
        $map.insert($key, $crate::Value::Null);
        $crate::value!(@map $map $($($rest)*)?);
    };
    (@map $map:ident $key:literal : [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $map.insert($key, $crate::value!([ $($inner)* ]));
        $crate::value!(@map $map $($($rest)*)?);
    };
    (@map $map:ident $key:literal : { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $map.insert($key, $crate::value!({ $($inner)* }));
        $crate::value!(@map $map $($($rest)*)?);
    };
    (@map $map:ident $key:literal : $value:expr $(, $($rest:tt)*)?) => {
        $map.insert($key, $value);
        $crate::value!(@map $map $($($rest)*)?);
    };
    (@list $list:ident) => {};
    (@list $list:ident null $(, $($rest:tt)*)?) => {
        $list.push($crate::Value::Null);
        $crate::value!(@list $list $($($rest)*)?);
    };
    (@list $list:ident [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $list.push($crate::value!([ $($inner)* ]));
        $crate::value!(@list $list $($($rest)*)?);
    };
    (@list $list:ident { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $list.push($crate::value!({ $($inner)* }));
        $crate::value!(@list $list $($($rest)*)?);
    };
    (@list $list:ident $value:expr $(, $($rest:tt)*)?) => {
        $list.push($crate::IntoValue::into_value($value));
        $crate::value!(@list $list $($($rest)*)?);
    };
    (null) => { $crate::Value::Null };
    ({ $($inner:tt)* }) => {{
        #[allow(unused_mut)]
        let mut map = $crate::Map::new();
        $crate::value!(@map map $($inner)*);
        $crate::Value::Map(map)
    }};
    ([ $($inner:tt)* ]) => {{
        #[allow(unused_mut)]
        let mut list: ::std::vec::Vec<$crate::Value> = ::std::vec::Vec::new();
        $crate::value!(@list list $($inner)*);
        $crate::Value::List(list)
    }};
    ($value:expr) => { $crate::IntoValue::into_value($value) };
}
