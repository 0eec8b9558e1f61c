//! Plain CBOR (RFC 8949, the part that ABI.md allows), both ways.

use crate::{Map, Value};
use std::fmt;

/// Nesting of plain data that the host sends and takes.
pub const MAX_DEPTH: usize = 64;
const INTEGERS: std::ops::RangeInclusive<i128> = -(1 << 64)..=(1 << 64) - 1;

/// Bytes that are no plain CBOR, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "not plain CBOR: {}", self.0)
    }
}
impl std::error::Error for Malformed {}

/// A value that plain CBOR cannot hold, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotPlain(&'static str);

impl fmt::Display for NotPlain {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "not plain data: {}", self.0)
    }
}
impl std::error::Error for NotPlain {}

/// The one item that `data` is.
pub fn decode(data: &[u8]) -> Result<Value, Malformed> {
    let mut rest = data;
    let value = item(&mut rest, 0)?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(Malformed("something follows the one item"))
    }
}

fn take<'a>(rest: &mut &'a [u8], size: u64) -> Result<&'a [u8], Malformed> {
    if size > rest.len() as u64 {
        return Err(Malformed("it ends too early"));
    }
    let (taken, left) = rest.split_at(size as usize);
    *rest = left;
    Ok(taken)
}

fn item(rest: &mut &[u8], depth: usize) -> Result<Value, Malformed> {
    let head = take(rest, 1)?[0];
    let info = head & 31;
    let number = match info {
        0..=23 => u64::from(info),
        24..=27 => take(rest, 1 << (info - 24))?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
        _ => return Err(Malformed("an indefinite length, or a reserved head")),
    };
    Ok(match head >> 5 {
        0 => Value::Int(number.into()),
        1 => Value::Int(-1 - i128::from(number)),
        2 => Value::Bytes(take(rest, number)?.to_vec()),
        3 => Value::Text(text(take(rest, number)?)?),
        4 => {
            let count = count(rest, number, depth)?;
            let mut list = Vec::with_capacity(count);
            for _ in 0..count {
                list.push(item(rest, depth + 1)?);
            }
            Value::List(list)
        }
        5 => {
            let count = count(rest, number, depth)?;
            let mut pairs = Vec::with_capacity(count);
            for _ in 0..count {
                match item(rest, depth + 1)? {
                    Value::Text(key) => pairs.push((key, item(rest, depth + 1)?)),
                    _ => return Err(Malformed("a key that is no text")),
                }
            }
            if has_key_twice(&pairs) {
                return Err(Malformed("a key twice"));
            }
            Value::Map(Map::of_distinct(pairs))
        }
        7 => match info {
            20 | 21 => Value::Bool(info == 21),
            22 => Value::Null,
            25 => Value::Float(half(number as u16)),
            26 => Value::Float(f32::from_bits(number as u32).into()),
            27 => Value::Float(f64::from_bits(number)),
            _ => return Err(Malformed("undefined, or a simple value")),
        },
        _ => return Err(Malformed("a tag")),
    })
}

fn text(data: &[u8]) -> Result<String, Malformed> {
    String::from_utf8(data.to_vec()).map_err(|_| Malformed("text that is not UTF-8"))
}

/// Each item takes a byte at least, so a length over what is left is a lie.
fn count(rest: &[u8], number: u64, depth: usize) -> Result<usize, Malformed> {
    if depth >= MAX_DEPTH {
        return Err(Malformed("nested too deeply"));
    }
    if number > rest.len() as u64 {
        return Err(Malformed("it ends too early"));
    }
    Ok(number as usize)
}

/// A host sends keys in ascending order, shorter ones first; only where they are not does it take a sort to know.
fn has_key_twice(pairs: &[(String, Value)]) -> bool {
    let ascends = |two: &[(String, Value)]| {
        let (left, right) = (&two[0].0, &two[1].0);
        (left.len(), left) < (right.len(), right)
    };
    if pairs.windows(2).all(ascends) {
        return false;
    }
    let mut keys: Vec<_> = pairs.iter().map(|(key, _)| key).collect();
    keys.sort_unstable();
    keys.windows(2).any(|two| two[0] == two[1])
}

fn half(bits: u16) -> f64 {
    let sign = u64::from(bits >> 15) << 63;
    let (exponent, fraction) = (u64::from(bits >> 10 & 0x1F), u64::from(bits & 0x3FF));
    let magnitude = match exponent {
        // Zero and subnormals: fraction * 2^-24 is exact.
        0 => (fraction as f64 / 16_777_216.0).to_bits(),
        31 => 0x7FF << 52 | fraction << 42,
        _ => (exponent + 1023 - 15) << 52 | fraction << 42,
    };
    f64::from_bits(sign | magnitude)
}

/// `value` as plain CBOR. An error for an integer beyond 64 bits and a sign, and for what is nested too deeply.
pub fn encode(value: &Value) -> Result<Vec<u8>, NotPlain> {
    let mut out = Vec::new();
    put(&mut out, value, 0)?;
    Ok(out)
}

fn head(out: &mut Vec<u8>, major: u8, number: u64) {
    let bytes = number.to_be_bytes();
    let (info, size) = match number {
        0..=23 => (number as u8, 0),
        24..=0xFF => (24, 1),
        0x100..=0xFFFF => (25, 2),
        0x1_0000..=0xFFFF_FFFF => (26, 4),
        _ => (27, 8),
    };
    out.push(major << 5 | info);
    out.extend_from_slice(&bytes[8 - size..]);
}

fn put(out: &mut Vec<u8>, value: &Value, depth: usize) -> Result<(), NotPlain> {
    if depth >= MAX_DEPTH && matches!(value, Value::List(_) | Value::Map(_)) {
        return Err(NotPlain("nested too deeply"));
    }
    match value {
        Value::Null => out.push(0xF6),
        Value::Bool(yes) => out.push(if *yes { 0xF5 } else { 0xF4 }),
        Value::Int(number) if !INTEGERS.contains(number) => {
            return Err(NotPlain("an integer beyond 64 bits and a sign"))
        }
        Value::Int(number) if *number < 0 => head(out, 1, (-1 - number) as u64),
        Value::Int(number) => head(out, 0, *number as u64),
        Value::Float(number) => {
            out.push(0xFB);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Value::Text(text) => {
            head(out, 3, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        }
        Value::Bytes(bytes) => {
            head(out, 2, bytes.len() as u64);
            out.extend_from_slice(bytes);
        }
        Value::List(list) => {
            head(out, 4, list.len() as u64);
            for each in list {
                put(out, each, depth + 1)?;
            }
        }
        Value::Map(map) => {
            head(out, 5, map.len() as u64);
            for (key, each) in map.iter() {
                head(out, 3, key.len() as u64);
                out.extend_from_slice(key.as_bytes());
                put(out, each, depth + 1)?;
            }
        }
    }
    Ok(())
}
