// Pure functions of what models write tools for. Each must answer here and in Node alike.

/** JSON in and out, with a reviver. @param {string} args.text */
export function json({ text }) {
  const revived = JSON.parse(text, (key, value) => (key === "drop" ? undefined : value));
  return [revived, JSON.stringify(revived, null, 2), JSON.stringify({ a: [undefined, () => 1, NaN], b: undefined })];
}

/** Words by frequency. @param {string} args.text */
export function words({ text }) {
  const found = text.toLowerCase().match(/\p{L}[\p{L}\p{M}'’-]*/gu) ?? [];
  const counts = new Map();
  for (const word of found) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1)).slice(0, 10);
}

/** A log by level, with named groups. @param {string} args.log */
export function logs({ log }) {
  const pattern = /^(?<at>\d{4}-\d\d-\d\dT\S+) \[(?<level>[A-Z]+)\] (?<rest>.*)$/gm;
  const levels = Object.groupBy(Array.from(log.matchAll(pattern), (match) => ({ ...match.groups })), (each) => each.level);
  return Object.entries(levels).map(([level, all]) => [level, all.length, all.at(-1).rest]);
}

/** CSV with quotes. @param {string} args.csv */
export function csv({ csv }) {
  const rows = [[]];
  csv.replace(/("(?:[^"]|"")*"|[^,\n]*)(,|\n|$)/g, (_, cell, end) => {
    rows.at(-1).push(cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell);
    if (end === "\n") rows.push([]);
    return "";
  });
  return rows.map((row) => row.slice(0, rows[0].length));
}

/** Mean, median, deviation. @param {number[]} args.values */
export function statistics({ values }) {
  const sorted = values.toSorted((a, b) => a - b);
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (values.length - 1);
  const half = sorted.length >> 1;
  return { mean, median: sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2, deviation: Math.sqrt(variance) };
}

/** Dates in UTC. @param {string[]} args.dates */
export function dates({ dates }) {
  return dates.map((text) => {
    const date = new Date(text);
    if (Number.isNaN(date.getTime())) return null;
    const monday = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate() - ((date.getUTCDay() + 6) % 7)));
    return [date.toISOString(), date.getUTCDay(), monday.toISOString().slice(0, 10), date.toUTCString()];
  });
}

/** Numbers as text. @param {number[]} args.values */
export function numbers({ values }) {
  return values.map((x) => [String(x), x.toFixed(3), x.toPrecision(4), x.toExponential(2), x.toString(16), Math.round(x), Math.trunc(x), x | 0, x >>> 3]);
}

/** Text read as numbers. @param {string[]} args.texts */
export function parses({ texts }) {
  return texts.map((text) => [Number(text), parseFloat(text), parseInt(text), parseInt(text, 16)].map((x) => (Number.isNaN(x) ? "NaN" : x)));
}

/** Large integers. @param {number} args.n */
export function factorial({ n }) {
  let product = 1n;
  for (let k = 2n; k <= BigInt(n); k++) product *= k;
  return [product.toString(), (product % 1000007n).toString(), (-product >> 5n).toString(36), fixed(product), fixed(-product), fixed(-1n)];
}

function fixed(value) {
  return [0, 1, 8, 31, 32, 33, 63, 64, 65, 128].map((n) => `${BigInt.asUintN(n, value)} ${BigInt.asIntN(n, value)}`);
}

/** base64 and UTF-8 by hand. @param {string} args.text */
export function base64({ text }) {
  const binary = unescape(encodeURIComponent(text));
  const encoded = btoa(binary);
  return [encoded, decodeURIComponent(escape(atob(encoded))) === text, encodeURIComponent(text)];
}

/** Text, cut and changed. @param {string} args.text */
export function strings({ text }) {
  return [
    text.toUpperCase(), text.toLowerCase(), "AZaz@[`{09 İΑΣ ß".toLowerCase(), "ﬁß".toUpperCase(), String.prototype.toLowerCase.call(1e300), text.split("").length, [...text], text.at(-1), text.codePointAt(0), text.padStart(20, "ab"), text.replace(/(.)(.)/su, "$2$1[$&]"),
    text.normalize("NFD").length, text.localeCompare("m") > 0, text.isWellFormed(), text.lastIndexOf("a"), text.substring(3, 1), text.trimEnd(),
  ];
}

/** Sorts that keep order. @param {any[]} args.people */
export function sorts({ people }) {
  return [
    people.toSorted((a, b) => a.age - b.age).map((p) => p.name), people.map((p) => p.name).sort().reverse(), [10, 9, 1, 100].sort(),
    [3, undefined, 1].sort(), people.findLast((p) => p.age > 30)?.name, people.flatMap((p) => [p.name, p.age]),
  ].map((each) => each ?? null);
}

/** Typed arrays and bits. @param {number[]} args.values */
export function bits({ values }) {
  const view = new DataView(new ArrayBuffer(16));
  view.setFloat64(0, values[0]);
  view.setInt16(8, values[1], true);
  return [Array.from(new Uint8Array(view.buffer)), Array.from(Int8Array.from(values)), Array.from(new Float32Array(values)), Math.clz32(values[1]), Math.imul(values[1], 31), Math.hypot(...values)];
}

/** Generators and destructuring. @param {number} args.n */
export function primes({ n }) {
  function* sieve() {
    const composite = new Set();
    for (let k = 2; ; k++) {
      if (composite.has(k)) continue;
      yield k;
      for (let m = k * k; m < n * 20; m += k) composite.add(m);
    }
  }
  const [first, , third, ...rest] = sieve().take(n);
  return { first, third, last: rest.at(-1), sum: rest.reduce((a, b) => a + b, 0) };
}

/** Promises in their order. @param {number[]} args.values */
export async function promises({ values }) {
  const order = [];
  const settled = await Promise.allSettled(values.map(async (x) => {
    order.push(x);
    if (x % 2) throw new RangeError(`odd ${x}`);
    await null;
    order.push(-x);
    return x;
  }));
  return [order, settled.map((each) => each.value ?? each.reason.message), await Promise.any([Promise.reject(1), 2])];
}

/** Levenshtein distance. @param {string} args.a @param {string} args.b */
export function distance({ a, b }) {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) next[j] = Math.min(next[j - 1] + 1, row[j] + 1, row[j - 1] + (a[i - 1] !== b[j - 1]));
    row = next;
  }
  return row[b.length];
}

/** A table as Markdown. @param {any[]} args.rows */
export function markdown({ rows }) {
  const keys = [...new Set(rows.flatMap(Object.keys))];
  const width = (key) => Math.max(key.length, ...rows.map((row) => `${row[key] ?? ""}`.length));
  const line = (cells) => `| ${cells.map((cell, i) => `${cell}`.padEnd(width(keys[i]))).join(" | ")} |`;
  return [line(keys), line(keys.map((key) => "-".repeat(width(key)))), ...rows.map((row) => line(keys.map((key) => row[key] ?? "")))].join("\n");
}

/** Paths of a tree that differ. @param {any} args.a @param {any} args.b */
export function differences({ a, b }) {
  const under = (a, b, path) => {
    if (Object.is(a, b)) return [];
    if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return [path];
    return [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap((key) => under(a[key], b[key], `${path}.${key}`));
  };
  return under(a, b, "$");
}

/** CRC-32 and a hash. @param {string} args.text */
export function checksum({ text }) {
  let crc = -1;
  let hash = 5381;
  for (const char of text) {
    crc ^= char.charCodeAt(0) & 255;
    for (let k = 0; k < 8; k++) crc = (crc >>> 1) ^ (0xedb88320 & -(crc & 1));
    hash = (Math.imul(hash, 33) ^ char.charCodeAt(0)) >>> 0;
  }
  return [(~crc >>> 0).toString(16).padStart(8, "0"), hash];
}

/** Errors and what they say of themselves. @param {number} args.n */
export function errors({ n }) {
  class Wrong extends Error {
    constructor(message, options) {
      super(message, options);
      this.name = "Wrong";
    }
  }
  const caught = [];
  for (const run of [() => { throw new Wrong("a", { cause: n }); }, () => new Array(-1), () => BigInt(1.5), () => decodeURIComponent("%"), () => Symbol() + ""]) {
    try {
      run();
    } catch (error) {
      caught.push([error.name, error instanceof Error, error.cause ?? null, error.constructor === Wrong]);
    }
  }
  return caught;
}

/** Regular expressions with all that they have. @param {string} args.text */
export function patterns({ text }) {
  return [
    text.match(/(?<=\$)\d+(?:\.\d\d)?/g), text.replace(/\b(\w)(\w*)\b/g, (_, a, b) => a.toUpperCase() + b), text.split(/\s*([,;])\s*/), text.search(/[^\x00-\x7f]/),
    /(?<y>\d{4})-(?<m>\d\d)/.exec(text)?.groups?.m ?? null, text.split(/(?:)/u).length, text.replace(/(?<!\d)0+(?=\d)/g, ""), /^.*?(\w+)\1/s.exec(text)?.index ?? null,
    Array.from(text.matchAll(/\d/gd), (match) => match.indices[0]), text.split(/\s+/), text.split(/\s+/, 2), " a  b ".split(/\s+/), "".split(/\s+/), "ab".split(/\s*/),
  ];
}

/** The parts of URLs, relative ones too, and what setting some comes to. @param {string[]} args.urls @param {string} [args.base] */
export function urls({ urls, base }) {
  const parts = ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"];
  return urls.map((text) => {
    try {
      const url = new URL(text, base);
      const before = parts.map((part) => url[part]);
      url.hash = "a b";
      url.searchParams.append("n n", "'&");
      url.port = "81";
      url.pathname = "/x/../y z";
      return [...before, url.href, JSON.stringify({ url }), `${url.searchParams}`];
    } catch (error) {
      return [error instanceof TypeError, error.code];
    }
  });
}

/** Parameters of queries. @param {string[]} args.queries */
export function parameters({ queries }) {
  return queries.map((query) => {
    const found = new URLSearchParams(query);
    const before = [[...found], found.getAll("a"), found.get("none"), found.has("b")];
    found.set("a", "new");
    found.append("z", "a b!'()*~é😀");
    found.delete("b");
    found.sort();
    return [...before, `${found}`, `${new URLSearchParams([["x", 1]])}${new URLSearchParams({ y: "é" })}`];
  });
}

/** Texts as UTF-8 and back. @param {string[]} args.texts @param {number[][]} args.bytes */
export function codecs({ texts, bytes }) {
  const encoded = texts.map((text) => [...new TextEncoder().encode(text)]);
  const decoded = bytes.map((each) => [{}, { fatal: true }, { ignoreBOM: true }].map((options) => {
    try {
      return new TextDecoder("utf-8", options).decode(Uint8Array.from(each));
    } catch (error) {
      return error.name;
    }
  }));
  const parts = new TextDecoder();
  return [encoded, decoded, bytes.map((each) => parts.decode(Uint8Array.from(each), { stream: true })), parts.decode()];
}

/** Copies. @param {any} args.value */
export function clones({ value }) {
  const from = { value, date: new Date(5), map: new Map([[1, new Set(["a"])]]), bytes: new Uint8Array([1, 2]).subarray(1), pattern: /x/g, error: new RangeError("no") };
  from.self = from;
  const to = structuredClone(from);
  return [to !== from, to.self === to, to.value, to.date.getTime(), to.map.get(1).has("a"), [...to.bytes], to.pattern.flags, to.error instanceof RangeError, to.error.message];
}
