// The vector guest in JavaScript: what all SDKs are asked alike (tests/guest_sdk/vectors_guests.py).
import { AskUser, Failed, Halt, HostError, Image, Ok, host, log as logger, tool } from "rho";

export const capabilities = ["clock.now", "kv.get"];

const PNG = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const LEVELS = { 10: "debug", 20: "info", 30: "warning", 40: "error" };

class Broken extends Error {
  name = "Broken";
}

export const echo = tool({ description: "Gives a value back.", input: { type: "object", required: ["value"] } }, ({ value }) => value);

/**
 * Answers in a shape.
 * @param {string} args.shape its name
 */
export function answer({ shape }) {
  switch (shape) {
    case "ok": return Ok(42);
    case "ok_images": return Ok(42, { images: [new Image("image/png", PNG)] });
    case "ok_details": return Ok(42, { details: { n: 1 } });
    case "failed": return Failed("no such user");
    case "failed_details": return Failed("no such user", { details: { n: 1 } });
    case "ask": return AskUser("which one?");
    case "ask_options": return AskUser("which one?", { a: 1 });
    case "halt": return Halt("done", 7);
    default: throw new Broken("broken");
  }
}

/**
 * Asks the host.
 * @param {string} args.capability its name
 * @param {object} args.arguments of the host call
 */
export function ask_host(args) {
  try {
    return { ok: host(args.capability, args.arguments) };
  } catch (error) {
    if (!(error instanceof HostError)) throw error;
    return { error: { kind: error.kind, message: error.message } };
  }
}

/**
 * Logs a text.
 * @param {number} args.level 10 to 40
 * @param {string} args.text the line
 */
export function log({ level, text }) {
  logger[LEVELS[level]](text);
  return null;
}

/**
 * Counts the words, lines and characters of a text.
 * @param {string} args.text the text to count
 * @param {number} [args.top=5] how many words to list
 */
export function word_count({ text, top = 5 }) {
  if (top < 0 || top > 100) return Failed("top is out of range: give 0 to 100");
  const lower = text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
  const counts = new Map();
  let words = 0;
  for (const [word] of lower.matchAll(/[a-z0-9\x80-\u{10ffff}][a-z0-9\x80-\u{10ffff}']*/gu)) {
    counts.set(word, (counts.get(word) ?? 0) + 1);
    words++;
  }
  const lines = text.split("\n").length - (text === "" || text.endsWith("\n") ? 1 : 0);
  const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, top);
  return {
    words,
    lines,
    characters: [...text].length,
    distinct: counts.size,
    top: most.map(([word, count]) => ({ word, count })),
  };
}

const primes = [];
for (let n = 2; primes.length < 64; n++) if (primes.every((prime) => n % prime)) primes.push(n);
const fraction = (root) => ((root - Math.floor(root)) * 2 ** 32) | 0;
const K = Int32Array.from(primes, (prime) => fraction(Math.cbrt(prime)));
const turned = (word, by) => (word >>> by) | (word << (32 - by));

/** The bytes of text in UTF-8. */
function utf8(text) {
  return Uint8Array.from(unescape(encodeURIComponent(text)), (character) => character.charCodeAt(0));
}

/**
 * The SHA-256 of a text, in hex.
 * @param {string} args.text any text
 */
export function sha256({ text }) {
  const data = utf8(text);
  const padded = new Uint8Array(((data.length + 72) >> 6) << 6);
  padded.set(data);
  padded[data.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(data.length / 2 ** 29));
  view.setUint32(padded.length - 4, data.length << 3);
  const state = Int32Array.from(primes.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));
  const w = new Int32Array(64);
  for (let start = 0; start < padded.length; start += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getInt32(start + 4 * i);
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15];
      const y = w[i - 2];
      w[i] = w[i - 16] + (turned(x, 7) ^ turned(x, 18) ^ (x >>> 3)) + w[i - 7] + (turned(y, 17) ^ turned(y, 19) ^ (y >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const one = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
      const two = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((value, i) => (state[i] += value));
  }
  return [...state].map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}
