//! What a tool needs to talk to the web by `http.fetch`: JSON that another wrote (RFC 8259), and parts of URLs.

use crate::{Map, Value, MAX_DEPTH};
use std::collections::BTreeMap;

/// One value of JSON, which may be wrong: None for what is none, or nested deeper than plain data is. Of a key that
/// occurs twice the last value holds; half a surrogate pair is U+FFFD; whole numbers beyond 64 bits become floats.
pub fn read_json(text: &str) -> Option<Value> {
    let mut reader = Reader { rest: text };
    let value = reader.value(0)?;
    reader.token("");
    reader.rest.is_empty().then(|| value)
}

/// For a part of a URL, as the value in a query: all but A-Z a-z 0-9 - . _ ~ is percent-encoded (RFC 3986, 2.1).
pub fn url_part(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            made.push(byte.into());
        } else {
            made.push_str(&format!("%{byte:02X}"));
        }
    }
    made
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn next(&mut self, word: &str) -> bool {
        let rest = self.rest.strip_prefix(word);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
    /// Whether that comes next, blanks aside.
    fn token(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start_matches(&[' ', '\t', '\n', '\r'][..]);
        self.next(token)
    }
    fn value(&mut self, depth: usize) -> Option<Value> {
        if self.token("{") {
            self.map(depth + 1)
        } else if self.next("[") {
            self.list(depth + 1)
        } else if self.next("\"") {
            self.text().map(Value::Text)
        } else if self.next("true") {
            Some(Value::Bool(true))
        } else if self.next("false") {
            Some(Value::Bool(false))
        } else if self.next("null") {
            Some(Value::Null)
        } else {
            self.number()
        }
    }
    fn list(&mut self, depth: usize) -> Option<Value> {
        let mut items = Vec::new();
        while !self.token("]") {
            if depth > MAX_DEPTH || (!items.is_empty() && !self.next(",")) {
                return None;
            }
            items.push(self.value(depth)?);
        }
        (depth <= MAX_DEPTH).then(|| Value::List(items))
    }
    fn map(&mut self, depth: usize) -> Option<Value> {
        let mut pairs: Vec<(String, Value)> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        while !self.token("}") {
            if depth > MAX_DEPTH || (!pairs.is_empty() && !self.next(",")) || !self.token("\"") {
                return None;
            }
            let key = self.text()?;
            if !self.token(":") {
                return None;
            }
            let value = self.value(depth)?;
            match places.get(&key) {
                Some(&place) => pairs[place].1 = value,
                None => {
                    places.insert(key.clone(), pairs.len());
                    pairs.push((key, value));
                }
            }
        }
        (depth <= MAX_DEPTH).then(|| Value::Map(Map::of_distinct(pairs)))
    }
    /// The rest of a text of which the opening quote was read.
    fn text(&mut self) -> Option<String> {
        let mut made = String::new();
        loop {
            let stop = self.rest.find(|c: char| c == '"' || c == '\\' || c < ' ')?;
            made.push_str(&self.rest[..stop]);
            let mut ahead = self.rest[stop..].chars();
            let found = ahead.next()?;
            self.rest = ahead.as_str();
            match found {
                '"' => return Some(made),
                '\\' => made.push(self.escape()?),
                _ => return None,
            }
        }
    }
    fn escape(&mut self) -> Option<char> {
        let mut ahead = self.rest.chars();
        let escape = ahead.next()?;
        self.rest = ahead.as_str();
        Some(match escape {
            '"' | '\\' | '/' => escape,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode(),
            _ => return None,
        })
    }
    fn unicode(&mut self) -> Option<char> {
        let unit = self.unit()?;
        if (0xD800..0xDC00).contains(&unit) && self.rest.starts_with("\\u") {
            let mut ahead = Reader { rest: &self.rest[2..] };
            if let Some(low @ 0xDC00..=0xDFFF) = ahead.unit() {
                self.rest = &self.rest[6..];
                return char::from_u32(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
            }
        }
        Some(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
    fn unit(&mut self) -> Option<u32> {
        let digits = self.rest.get(..4)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        self.rest = &self.rest[4..];
        u32::from_str_radix(digits, 16).ok()
    }
    fn number(&mut self) -> Option<Value> {
        let of_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
        let end = self.rest.find(|c| !of_number(c)).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        let digits = text.strip_prefix('-').unwrap_or(text);
        let after = past_digits(digits)?;
        if digits.starts_with('0') && digits.len() - after.len() > 1 {
            return None;
        }
        if after.is_empty() {
            if let Ok(whole @ WHOLE_LEAST..=WHOLE_MOST) = text.parse() {
                return Some(Value::Int(whole));
            }
        }
        let after = match after.strip_prefix('.') {
            Some(fraction) => past_digits(fraction)?,
            None => after,
        };
        let after = match after.strip_prefix(&['e', 'E'][..]) {
            Some(power) => past_digits(power.strip_prefix(&['+', '-'][..]).unwrap_or(power))?,
            None => after,
        };
        if after.is_empty() {
            text.parse().ok().map(Value::Float)
        } else {
            None
        }
    }
}

const WHOLE_LEAST: i128 = -(1 << 64);
const WHOLE_MOST: i128 = (1 << 64) - 1;

/// What follows the digits that `text` begins with; None where there are none.
fn past_digits(text: &str) -> Option<&str> {
    let after = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (after.len() < text.len()).then(|| after)
}
