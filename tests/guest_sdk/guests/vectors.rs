//! The tools that the vector guests of all SDKs share (guest_sdk/vectors/README.md).
use rho::{ask_user, failed, halt, ok, raised, Answer, HostError, Level, Map, Value};
use std::collections::HashMap;

rho::tool! {
    /// Answers the value that it is given.
    fn echo(value: Value) -> Value {
        value
    }
}

rho::choice! {
    enum Shape {
        Ok = "ok",
        OkImages = "ok_images",
        OkDetails = "ok_details",
        Failed = "failed",
        FailedDetails = "failed_details",
        Raised = "raised",
        Ask = "ask",
        AskOptions = "ask_options",
        Halt = "halt",
    }
}

rho::tool! {
    /// Answers in the shape that is asked for.
    fn answer(shape: Shape) -> Answer {
        let details = rho::value!({"n": 1});
        match shape {
            Shape::Ok => ok(42),
            Shape::OkImages => ok(42).image("image/png", *b"\x89PNG\r\n\x1a\n"),
            Shape::OkDetails => ok(42).details(details),
            Shape::Failed => failed("no such user"),
            Shape::FailedDetails => failed("no such user").details(details),
            Shape::Raised => raised("broken").kind("Broken").trace(["line 1".to_owned()]),
            Shape::Ask => ask_user("which one?"),
            Shape::AskOptions => ask_user("which one?").options(rho::value!({"a": 1})),
            Shape::Halt => halt("done", 7),
        }
    }
}

rho::tool! {
    /// Asks for a capability and answers the reply.
    #[example({"capability": "kv.get", "arguments": {"key": "a"}} => {"ok": {"ok": {"value": 1}}},
        host: [[{"capability": "kv.get", "arguments": {"key": "a"}}, {"ok": {"value": 1}}]])]
    fn ask_host(capability: String, arguments: Map) -> Value {
        match rho::host_call(&capability, arguments) {
            Ok(value) => rho::value!({"ok": value}),
            Err(HostError { kind, message }) => rho::value!({"error": {"kind": kind, "message": message}}),
        }
    }
}

rho::tool! {
    /// Writes a line to the log.
    fn log(level: i32, text: String) {
        rho::log(Level::Number(level), &text)
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// The words of a text, which begin with a letter and go on with letters and apostrophes.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_ascii() && !is_letter(c as u8) && c != '\'')
        .map(|word| word.trim_start_matches('\''))
        .filter(|word| !word.is_empty())
}

rho::record! {
    struct Frequent {
        word: String,
        count: u64,
    }
}

rho::record! {
    struct Counts {
        words: u64,
        lines: u64,
        characters: u64,
        distinct: u64,
        top: Vec<Frequent>,
    }
}

rho::tool! {
    /// Counts the words, lines and characters of a text and lists its most frequent words.
    #[read_only]
    #[idempotent]
    fn word_count(
        /// The text to count.
        text: String,
        /// How many of the most frequent words to list.
        #[schema({"minimum": 0, "maximum": 100})]
        top: i64 = 5,
    ) -> Result<Counts, &'static str> {
        if !(0..=100).contains(&top) {
            return Err("top is out of range: give 0 to 100");
        }
        let lower = text.to_ascii_lowercase();
        let mut places = HashMap::new();
        let mut counts: Vec<(&str, u64)> = Vec::new();
        let mut total = 0;
        for word in words(&lower) {
            total += 1;
            let place = *places.entry(word).or_insert_with(|| {
                counts.push((word, 0));
                counts.len() - 1
            });
            counts[place].1 += 1;
        }
        let distinct = counts.len() as u64;
        // Stable: of equals the one that came first.
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts.truncate(top as usize);
        Ok(Counts {
            words: total,
            lines: text.lines().count() as u64,
            characters: text.chars().count() as u64,
            distinct,
            top: counts.into_iter().map(|(word, count)| Frequent { word: word.to_owned(), count }).collect(),
        })
    }
}

/// The first 32 bits of the fractions of the roots of the first primes.
fn constants<const N: usize>(root: fn(f64) -> f64) -> [u32; N] {
    let mut found = [0; N];
    let mut primes = (2u32..).filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0));
    for each in &mut found {
        let value = root(f64::from(primes.next().unwrap_or(2)));
        *each = ((value - value.floor()) * 4_294_967_296.0) as u32;
    }
    found
}

rho::tool! {
    /// The SHA-256 of a text, in hex.
    fn sha256(text: String) -> String {
        let mut state: [u32; 8] = constants(f64::sqrt);
        let rounds: [u32; 64] = constants(f64::cbrt);
        let mut data = text.into_bytes();
        let bits = (data.len() as u64 * 8).to_be_bytes();
        data.push(0x80);
        data.resize((data.len() + 8 + 63) / 64 * 64 - 8, 0);
        data.extend_from_slice(&bits);
        for block in data.chunks_exact(64) {
            let mut w = [0u32; 64];
            for (word, bytes) in w.iter_mut().zip(block.chunks_exact(4)) {
                *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
            for i in 16..64 {
                let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ (w[i - 15] >> 3);
                let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ (w[i - 2] >> 10);
                w[i] = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1);
            }
            let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
            for i in 0..64 {
                let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
                let t1 = h.wrapping_add(s1).wrapping_add((e & f) ^ (!e & g)).wrapping_add(rounds[i]).wrapping_add(w[i]);
                let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
                let t2 = s0.wrapping_add((a & b) ^ (a & c) ^ (b & c));
                (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(t1), c, b, a, t1.wrapping_add(t2));
            }
            for (old, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
                *old = old.wrapping_add(new);
            }
        }
        state.iter().map(|word| format!("{word:08x}")).collect()
    }
}

rho::tools![echo, answer, ask_host, log, word_count, sha256; capabilities: ["clock.now", "kv.get"]];
