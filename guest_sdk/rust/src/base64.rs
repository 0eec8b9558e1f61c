//! The text that bytes are in JSON.

/// The bytes of base64 text in either alphabet, padded or not; None where it is none.
pub(crate) fn read(text: &str) -> Option<Vec<u8>> {
    let digits = match text.len() % 4 {
        0 => text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text),
        _ => text,
    };
    if digits.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    let mut bits = 0u32;
    for (at, digit) in digits.bytes().enumerate() {
        bits = bits << 6 | six_bits(digit)?;
        if at % 4 != 0 {
            bytes.push((bits >> (6 - 2 * (at % 4))) as u8);
        }
    }
    Some(bytes)
}

fn six_bits(digit: u8) -> Option<u32> {
    Some(
        match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        }
        .into(),
    )
}
