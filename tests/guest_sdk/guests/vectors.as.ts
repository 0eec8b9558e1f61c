// The tools that the guests of all SDKs share, so that one test drives them all.

import { Answer, Value, askUser, asks, capabilities, failed, halt, host, list, log, map, ok, raised, tool, typed } from "rho";

capabilities(["clock.now", "kv.get"]);

tool("echo", "Answers what it is given.")
  .argument("value", map())
  .handle((call) => ok(call.value("value")));

tool("answer", "Answers in a shape.")
  .text("shape")
  .handle((call) => shaped(call.text("shape")));

function shaped(shape: string): Answer {
  const one = map().set("n", 1);
  if (shape == "ok") return ok(42);
  if (shape == "ok_images") return ok(42).image("image/png", png());
  if (shape == "ok_details") return ok(42).details(one);
  if (shape == "failed") return failed("no such user");
  if (shape == "failed_details") return failed("no such user").details(one);
  if (shape == "raised") return raised("broken", "Broken", ["line 1"]);
  if (shape == "ask") return askUser("which one?");
  if (shape == "ask_options") return askUser("which one?", map().set("a", 1));
  if (shape == "halt") return halt("done", 7);
  return failed("no such shape");
}

function png(): Uint8Array {
  const bytes: StaticArray<u8> = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
  const made = new Uint8Array(bytes.length);
  for (let at = 0; at < bytes.length; at++) made[at] = bytes[at];
  return made;
}

tool("ask_host", "Asks the host for a capability.")
  .text("capability")
  .argument("arguments", typed("object"))
  .example(
    map().set("capability", "kv.get").set("arguments", map().set("key", "a")),
    ok(map().set("ok", map().set("value", 1))),
    list().add(asks("kv.get", map().set("key", "a"), map().set("value", 1))),
  )
  .handle((call) => {
    const reply = host(call.text("capability"), call.value("arguments"));
    if (reply.ok) return ok(map().set("ok", reply.value));
    return ok(map().set("error", map().set("kind", reply.kind).set("message", reply.message)));
  });

tool("log", "Writes to the log.")
  .integer("level")
  .text("text")
  .handle((call) => {
    log(<i32>call.integer("level"), call.text("text"));
    return ok<Value | null>(null);
  });

tool("word_count", "Counts the words of a text.")
  .text("text")
  .integer("top")
  .minimum(0)
  .maximum(100)
  .or(5)
  .readOnly()
  .handle((call) => wordCount(call.text("text"), call.integer("top")));

function isLetter(unit: i32): bool {
  return (unit >= 97 && unit <= 122) || (unit >= 65 && unit <= 90) || (unit >= 48 && unit <= 57) || unit >= 0x80;
}

function lower(text: string): string {
  const units = new Uint16Array(text.length);
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    units[at] = <u16>(unit >= 65 && unit <= 90 ? unit + 32 : unit);
  }
  return String.UTF16.decode(units.buffer);
}

function wordCount(given: string, top: i64): Answer {
  if (top < 0 || top > 100) return failed("top is out of range: give 0 to 100");
  const text = lower(given);
  const counts = new Map<string, i32>();
  let words = 0;
  let lines = text != "" && !text.endsWith("\n") ? 1 : 0;
  let characters = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit == 10) lines++;
    if ((unit & 0xfc00) != 0xdc00) characters++; // the second half of a pair belongs to the first
  }
  for (let at = 0; at < text.length; ) {
    const begin = at;
    while (at < text.length && (isLetter(text.charCodeAt(at)) || (at > begin && text.charCodeAt(at) == 39))) at++;
    if (at == begin) {
      at++;
      continue;
    }
    words++;
    const word = text.substring(begin, at);
    counts.set(word, counts.has(word) ? counts.get(word) + 1 : 1);
  }
  const most = list();
  const all = counts.keys();
  const found = counts.values();
  for (let n: i64 = 0; n < top && n < all.length; n++) {
    let best = 0;
    for (let at = 1; at < all.length; at++) if (found[at] > found[best]) best = at;
    most.add(map().set("word", all[best]).set("count", found[best]));
    found[best] = 0;
  }
  const made = map().set("words", words).set("lines", lines).set("characters", characters);
  return ok(made.set("distinct", all.length).set("top", most));
}

function firstPrimes(): StaticArray<u32> {
  const primes = new StaticArray<u32>(64);
  let count = 0;
  for (let number: u32 = 2; count < 64; number++) {
    let prime = true;
    for (let at = 0; at < count && prime; at++) prime = number % primes[at] != 0;
    if (prime) primes[count++] = number;
  }
  return primes;
}

// The first 32 bits of the fraction of a root.
function fraction(root: f64): u32 {
  return <u32>((root - Math.floor(root)) * 4294967296.0);
}

function roots(count: i32, root: (number: f64) => f64): StaticArray<u32> {
  const made = new StaticArray<u32>(count);
  for (let at = 0; at < count; at++) made[at] = fraction(root(primes[at]));
  return made;
}

const primes = firstPrimes();
const rounds = roots(64, (number) => Math.cbrt(number));
const start = roots(8, (number) => Math.sqrt(number));

function sha256(message: ArrayBuffer): string {
  const size = message.byteLength;
  const padded = new Uint8Array(((size + 8) & ~63) + 64);
  padded.set(Uint8Array.wrap(message));
  padded[size] = 0x80;
  store<u64>(padded.dataStart + padded.length - 8, bswap<u64>((<u64>size) << 3));
  const state = new StaticArray<u32>(8);
  for (let at = 0; at < 8; at++) state[at] = start[at];
  const schedule = new StaticArray<u32>(64);
  for (let block = 0; block < padded.length; block += 64) digest(padded.dataStart + block, state, schedule);
  let made = "";
  for (let at = 0; at < 8; at++) made += state[at].toString(16).padStart(8, "0");
  return made;
}

function digest(block: usize, state: StaticArray<u32>, schedule: StaticArray<u32>): void {
  for (let at = 0; at < 16; at++) schedule[at] = bswap<u32>(load<u32>(block + (at << 2)));
  for (let at = 16; at < 64; at++) {
    const early = schedule[at - 15];
    const late = schedule[at - 2];
    const one = rotr<u32>(early, 7) ^ rotr<u32>(early, 18) ^ (early >> 3);
    const two = rotr<u32>(late, 17) ^ rotr<u32>(late, 19) ^ (late >> 10);
    schedule[at] = schedule[at - 16] + one + schedule[at - 7] + two;
  }
  let a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
  for (let at = 0; at < 64; at++) {
    const mixed = (rotr<u32>(e, 6) ^ rotr<u32>(e, 11) ^ rotr<u32>(e, 25)) + ((e & f) ^ (~e & g));
    const one = h + mixed + rounds[at] + schedule[at];
    const two = (rotr<u32>(a, 2) ^ rotr<u32>(a, 13) ^ rotr<u32>(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + one;
    d = c;
    c = b;
    b = a;
    a = one + two;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}

tool("sha256", "The SHA-256 of a text.")
  .text("text")
  .readOnly()
  .handle((call) => ok(sha256(String.UTF8.encode(call.text("text")))));
