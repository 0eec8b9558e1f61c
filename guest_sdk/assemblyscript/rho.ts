/**
 * rho: tools for rho_wasm in AssemblyScript. A source declares its tools where it stands, see README.md beside this:
 *
 *   import { failed, map, ok, tool } from "rho";
 *
 *   tool("greet", "Greets somebody.")
 *     .text("name", "whom to greet")
 *     .handle((call) => {
 *       const name = call.text("name");
 *       if (name == "") return failed("the name is empty: whom shall I greet?");
 *       return ok(map().set("hello", name));
 *     });
 *
 * Declarations run once, when the guest is built; every call begins with what they left in memory, and keeps nothing
 * for the next. There are no exceptions to catch: `throw`, a failed assertion or an index out of range writes its
 * message, file and line to the call's log and ends the call, as a crash of the tool.
 */

/** Nesting of plain data that a host sends and takes. */
const MAX_DEPTH: i32 = 64;

// ---- plain data ----

export enum Kind {
  Null,
  Bool,
  Int,
  Float,
  Text,
  Bytes,
  List,
  Map,
}

/**
 * One value of plain data. Make them with `Value.of(anything)`, `map()` and `list()`, look into them with the getters.
 * Whole numbers go from -2^64 to 2^64-1: `negative` ones are -1 less `bits`, so that both ends fit.
 */
export class Value {
  negative: bool = false;
  /** Of a whole number its size, of a float its bits, of a truth value 0 or 1. */
  bits: u64 = 0;
  private held: string | null = null;
  private data: Uint8Array | null = null;
  private items: Array<Value> | null = null;
  private pairs: Map<string, Value> | null = null;

  constructor(public kind: Kind) {}

  /** Of a truth value, a number, a string, a Uint8Array, a Value, and of Arrays and Maps (keys are strings) of them. */
  static of<T>(value: T): Value {
    if (isBoolean<T>()) return Value.ofBits(Kind.Bool, value ? 1 : 0);
    if (isInteger<T>()) {
      if (isSigned<T>() && value < 0) return Value.below(~(<u64>(<i64>value)));
      return Value.ofBits(Kind.Int, <u64>value);
    }
    if (isFloat<T>()) return Value.ofBits(Kind.Float, reinterpret<u64>(<f64>value));
    if (isNullable<T>()) {
      if (value === null) return new Value(Kind.Null);
      return Value.of<NonNullable<T>>(value!);
    }
    if (isString<T>()) {
      const made = new Value(Kind.Text);
      made.held = <string>value;
      return made;
    }
    if (isArray<T>()) {
      const made = list();
      for (let at = 0; at < value.length; at++) made.add(value[at]);
      return made;
    }
    if (value instanceof Value) return value;
    if (value instanceof Uint8Array) {
      const made = new Value(Kind.Bytes);
      made.data = value;
      return made;
    }
    return Value.ofMap(value);
  }

  private static ofMap<T>(value: T): Value {
    const made = map();
    const keys = value.keys();
    for (let at = 0; at < keys.length; at++) made.set(keys[at], value.get(keys[at]));
    return made;
  }

  static ofBits(kind: Kind, bits: u64): Value {
    const made = new Value(kind);
    made.bits = bits;
    return made;
  }

  /** The whole number -1 - `bits`. */
  static below(bits: u64): Value {
    const made = Value.ofBits(Kind.Int, bits);
    made.negative = true;
    return made;
  }

  static empty(kind: Kind): Value {
    const made = new Value(kind);
    if (kind == Kind.List) made.items = [];
    if (kind == Kind.Map) made.pairs = new Map();
    return made;
  }

  /** Adds to a list. */
  add<T>(value: T): Value {
    this.list.push(Value.of<T>(value));
    return this;
  }

  /** Sets a key of a map. */
  set<T>(key: string, value: T): Value {
    this.entries.set(key, Value.of<T>(value));
    return this;
  }

  // The getters end the call where the value is of another kind.

  get bool(): bool {
    this.expect(Kind.Bool);
    return this.bits != 0;
  }

  /** A float without a fraction is a fine whole number. Ends the call beyond the range of i64. */
  get i64(): i64 {
    const whole = this.whole();
    assert(whole.bits <= <u64>i64.MAX_VALUE, "a whole number beyond i64");
    return whole.negative ? ~(<i64>whole.bits) : <i64>whole.bits;
  }

  get u64(): u64 {
    const whole = this.whole();
    assert(!whole.negative, "a whole number below 0");
    return whole.bits;
  }

  /** A whole number is a fine float. */
  get f64(): f64 {
    if (this.kind == Kind.Float) return reinterpret<f64>(this.bits);
    this.expect(Kind.Int);
    return this.negative ? -1.0 - <f64>this.bits : <f64>this.bits;
  }

  get text(): string {
    this.expect(Kind.Text);
    return this.held!;
  }

  get bytes(): Uint8Array {
    this.expect(Kind.Bytes);
    return this.data!;
  }

  get list(): Array<Value> {
    this.expect(Kind.List);
    return this.items!;
  }

  get entries(): Map<string, Value> {
    this.expect(Kind.Map);
    return this.pairs!;
  }

  get isNull(): bool {
    return this.kind == Kind.Null;
  }

  /** Of a map; null where it has no such key. */
  find(key: string): Value | null {
    const entries = this.entries;
    return entries.has(key) ? entries.get(key) : null;
  }

  get(key: string): Value {
    const found = this.find(key);
    if (found === null) throw new Error("there is no " + key);
    return found;
  }

  has(key: string): bool {
    return this.entries.has(key);
  }

  private whole(): Value {
    if (this.kind != Kind.Float) {
      this.expect(Kind.Int);
      return this;
    }
    const float = this.f64;
    assert(trunc(float) == float && abs(float) < 9223372036854775808.0, "a number with a fraction, or too large");
    return Value.of<i64>(<i64>float);
  }

  private expect(kind: Kind): void {
    if (this.kind != kind) throw new Error("a value is " + nameOf(this.kind) + " where " + nameOf(kind) + " is wanted");
  }
}

export function map(): Value {
  return Value.empty(Kind.Map);
}

export function list(): Value {
  return Value.empty(Kind.List);
}

function nameOf(kind: Kind): string {
  const names: StaticArray<string> = ["null", "a bool", "a whole number", "a number", "a text", "bytes", "a list", "a map"];
  return names[kind];
}

// ---- reading plain CBOR (RFC 8949, the part that ABI.md allows) ----

/** Reads one item and nothing after it; null for what is not plain CBOR. */
function decode(begin: usize, size: usize): Value | null {
  const reader = new Reader(begin, begin + size);
  const value = reader.item(0);
  return reader.bad || reader.at != reader.end ? null : value;
}

class Reader {
  bad: bool = false;
  private info: u8 = 0;

  constructor(
    public at: usize,
    public end: usize,
  ) {}

  private fail(): Value {
    this.bad = true;
    this.at = this.end;
    return new Value(Kind.Null);
  }

  /** The number of an item's head. `bad` is set for what plain data does not have, or past the end. */
  private head(info: u8): u64 {
    if (info < 24) return info;
    const size: usize = (<usize>1) << (info - 24);
    if (info > 27 || this.end - this.at < size) {
      this.fail();
      return 0;
    }
    let number: u64 = 0;
    for (let end = this.at + size; this.at < end; this.at++) number = (number << 8) | load<u8>(this.at);
    return number;
  }

  item(depth: i32): Value {
    if (this.at >= this.end) return this.fail();
    const first = load<u8>(this.at++);
    const info: u8 = first & 31;
    const number = this.head(info);
    if (this.bad) return this.fail();
    switch (first >> 5) {
      case 0:
        return Value.ofBits(Kind.Int, number);
      case 1:
        return Value.below(number);
      case 2:
        return this.bytes(number);
      case 3:
        return this.text(number);
      case 4:
        return this.list(number, depth);
      case 5:
        return this.map(number, depth);
      case 7:
        return this.simple(info, number);
      default:
        return this.fail(); // a tag
    }
  }

  /** Each item takes a byte at least, so a length over what is left is a lie. */
  private fits(number: u64): bool {
    return number <= <u64>(this.end - this.at);
  }

  private bytes(number: u64): Value {
    if (!this.fits(number)) return this.fail();
    const data = new Uint8Array(<i32>number);
    memory.copy(data.dataStart, this.at, <usize>number);
    this.at += <usize>number;
    return Value.of(data);
  }

  private text(number: u64): Value {
    if (!this.fits(number)) return this.fail();
    const begin = this.at;
    this.at += <usize>number;
    if (!isUtf8(begin, this.at)) return this.fail();
    return Value.of(String.UTF8.decodeUnsafe(begin, <usize>number));
  }

  private list(number: u64, depth: i32): Value {
    if (!this.fits(number) || depth >= MAX_DEPTH) return this.fail();
    const made = list();
    for (; number > 0 && !this.bad; number--) made.list.push(this.item(depth + 1));
    return made;
  }

  private map(number: u64, depth: i32): Value {
    if (!this.fits(number) || depth >= MAX_DEPTH) return this.fail();
    const made = map();
    for (; number > 0 && !this.bad; number--) {
      const key = this.item(MAX_DEPTH);
      if (this.bad || key.kind != Kind.Text || made.has(key.text)) return this.fail();
      made.entries.set(key.text, this.item(depth + 1));
    }
    return made;
  }

  private simple(info: u8, number: u64): Value {
    switch (info) {
      case 20:
      case 21:
        return Value.of<bool>(info == 21);
      case 22:
        return new Value(Kind.Null);
      case 25:
        return Value.of<f64>(half(<u16>number));
      case 26:
        return Value.of<f64>(reinterpret<f32>(<u32>number));
      case 27:
        return Value.ofBits(Kind.Float, number);
      default:
        return this.fail();
    }
  }
}

function half(bits: u16): f64 {
  const sign = (<u64>(bits >> 15)) << 63;
  const fraction = <u64>(bits & 0x3ff);
  let exponent = <u64>((bits >> 10) & 0x1f);
  // Zero and subnormals: fraction * 2^-24 is exact.
  if (exponent == 0) return reinterpret<f64>(sign | reinterpret<u64>(<f64>fraction / 16777216.0));
  exponent = exponent == 31 ? 0x7ff : exponent - 15 + 1023;
  return reinterpret<f64>(sign | (exponent << 52) | (fraction << 42));
}

function isUtf8(at: usize, end: usize): bool {
  while (at < end) {
    while (at + 8 <= end && (load<u64>(at) & 0x8080808080808080) == 0) at += 8;
    if (at == end) break;
    const first = load<u8>(at++);
    if (first < 0x80) continue;
    if (first < 0xc2 || first > 0xf4) return false;
    const more: usize = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    if (end - at < more) return false;
    const second = load<u8>(at);
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return false; // overlong, surrogate
    if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return false; // overlong, over U+10FFFF
    for (const next = at + more; at < next; at++) if ((load<u8>(at) & 0xc0) != 0x80) return false;
  }
  return true;
}

// ---- writing plain CBOR ----

/** Ends the call where a value is nested too deeply, has itself inside, or has text with half a surrogate pair. */
function encode(value: Value): Uint8Array {
  const writer = new Writer();
  writer.item(value, 0);
  return writer.data.subarray(0, writer.size);
}

class Writer {
  data: Uint8Array = new Uint8Array(256);
  size: i32 = 0;

  private room(size: i32): usize {
    const wanted = this.size + size;
    if (wanted > this.data.length) {
      const data = new Uint8Array(wanted + (this.size >> 1) + 256);
      memory.copy(data.dataStart, this.data.dataStart, this.size);
      this.data = data;
    }
    const place = this.data.dataStart + this.size;
    this.size = wanted;
    return place;
  }

  private head(major: u8, number: u64): void {
    if (number < 24) {
      store<u8>(this.room(1), (major << 5) | <u8>number);
    } else if (number <= u8.MAX_VALUE) {
      this.long(major, 24, number, 1);
    } else if (number <= u16.MAX_VALUE) {
      this.long(major, 25, number, 2);
    } else if (number <= u32.MAX_VALUE) {
      this.long(major, 26, number, 4);
    } else {
      this.long(major, 27, number, 8);
    }
  }

  private long(major: u8, info: u8, number: u64, size: i32): void {
    const place = this.room(1 + size);
    store<u8>(place, (major << 5) | info);
    for (let at = size; at > 0; at--, number >>= 8) store<u8>(place + at, <u8>number);
  }

  private text(text: string): void {
    const size = String.UTF8.byteLength(text);
    this.head(3, size);
    String.UTF8.encodeUnsafe(changetype<usize>(text), text.length, this.room(size), false, String.UTF8.ErrorMode.ERROR);
  }

  item(value: Value, depth: i32): void {
    switch (value.kind) {
      case Kind.Null:
        return this.head(7, 22);
      case Kind.Bool:
        return this.head(7, value.bool ? 21 : 20);
      case Kind.Int:
        return this.head(value.negative ? 1 : 0, value.bits);
      case Kind.Float:
        return this.long(7, 27, value.bits, 8);
      case Kind.Text:
        return this.text(value.text);
      case Kind.Bytes:
        return this.bytes(value.bytes);
      case Kind.List:
        return this.list(value.list, depth);
      default:
        return this.map(value.entries, depth);
    }
  }

  private bytes(data: Uint8Array): void {
    this.head(2, data.length);
    memory.copy(this.room(data.length), data.dataStart, data.length);
  }

  private list(items: Array<Value>, depth: i32): void {
    this.head(4, items.length);
    this.deeper(depth);
    for (let at = 0; at < items.length; at++) this.item(items[at], depth + 1);
  }

  private map(entries: Map<string, Value>, depth: i32): void {
    const keys = entries.keys();
    this.head(5, keys.length);
    this.deeper(depth);
    for (let at = 0; at < keys.length; at++) {
      this.text(keys[at]);
      this.item(entries.get(keys[at]), depth + 1);
    }
  }

  private deeper(depth: i32): void {
    if (depth >= MAX_DEPTH) throw new Error("a value is nested more than 64 deep, or has itself inside");
  }
}

// ---- answers ----

export class Answer {
  private pictures: Value | null = null;
  private extra: Value | null = null;

  /** Use `ok`, `failed`, `askUser`, `halt` and `raised`. */
  constructor(
    private shape: string,
    private value: Value,
    private more: string = "",
    private also: Value | null = null,
  ) {}

  /** A png, jpeg, webp or gif for the model, at most 16 of them, on `ok`. */
  image(mimeType: string, data: Uint8Array): Answer {
    assert(this.shape == "ok", "images go with ok only");
    let pictures = this.pictures;
    if (pictures === null) this.pictures = pictures = list();
    pictures.add(map().set("mime_type", mimeType).set("data", data));
    return this;
  }

  /** What goes to the host's screens, never to the model, on `ok` and `failed`. */
  details<T>(details: T): Answer {
    assert(this.shape == "ok" || this.shape == "error", "details go with ok and failed only");
    this.extra = Value.of<T>(details);
    return this;
  }

  /** As it is sent. */
  asValue(): Value {
    const made = map().set(this.shape, this.value);
    if (this.also !== null) made.set(this.more, this.also!);
    if (this.pictures !== null) made.set("images", this.pictures!);
    if (this.extra !== null) made.set("details", this.extra!);
    return made;
  }
}

export function ok<T>(value: T): Answer {
  return new Answer("ok", Value.of<T>(value));
}

/** The tool could not do what was asked: say what the model should do. It is no crash. */
export function failed<T>(reason: T): Answer {
  return new Answer("error", Value.of<T>(reason));
}

/** The tool itself is at fault: counts as a crash. */
export function raised(message: string, type: string = "", trace: Array<string> = []): Answer {
  const told = map().set("message", message);
  if (type != "") told.set("type", type);
  if (trace.length > 0) told.set("trace", trace);
  return new Answer("raised", told);
}

/** Stops and asks a person, whose answer becomes the call's result. `options` is a map. */
export function askUser(question: string, options: Value | null = null): Answer {
  return new Answer("ask_user", Value.of(question), "options", options);
}

/** Ends the model's loop, with `reason` for the caller and `value` as the outcome. */
export function halt<T>(reason: string, value: T): Answer {
  return new Answer("halt", Value.of(reason), "value", Value.of<T>(value));
}

// ---- what a handler is given ----

export class Call {
  constructor(
    public tool: string,
    public arguments: Value,
    private context: Value,
  ) {}

  has(name: string): bool {
    return this.arguments.has(name);
  }

  /** Any argument. Ends the call where it is missing, as the getters below do. */
  value(name: string): Value {
    return this.arguments.get(name);
  }

  text(name: string): string {
    return this.value(name).text;
  }

  integer(name: string): i64 {
    return this.value(name).i64;
  }

  number(name: string): f64 {
    return this.value(name).f64;
  }

  flag(name: string): bool {
    return this.value(name).bool;
  }

  /** Of an argument that `.bytes` declares. */
  bytes(name: string): Uint8Array {
    return this.value(name).bytes;
  }

  list(name: string): Array<Value> {
    return this.value(name).list;
  }

  /** Empty where the host did not tell. */
  get id(): string {
    return this.told("call_id");
  }

  get sessionId(): string {
    return this.told("session_id");
  }

  get requestId(): string {
    return this.told("request_id");
  }

  /** A map of what the host gives beside the arguments. */
  get values(): Value {
    const values = this.context.find("values");
    return values === null ? map() : values;
  }

  private told(key: string): string {
    const told = this.context.find(key);
    return told === null || told.kind != Kind.Text ? "" : told.text;
  }
}

// ---- JSON that another wrote (RFC 8259), which may be wrong ----

/**
 * One value of JSON; null for what is none, or nested deeper than plain data is. Of a key that occurs twice the last value
 * holds; half a surrogate pair is U+FFFD; whole numbers beyond 64 bits become floats. For a part of a URL there is
 * `encodeURIComponent`.
 */
export function readJson(text: string): Value | null {
  const reader = new JsonReader(text);
  const value = reader.value(0);
  reader.token("");
  return reader.bad || reader.at != text.length ? null : value;
}

class JsonReader {
  at: i32 = 0;
  bad: bool = false;

  constructor(private text: string) {}

  private fail(): Value {
    this.bad = true;
    this.at = this.text.length;
    return new Value(Kind.Null);
  }

  private next(word: string): bool {
    if (!this.text.startsWith(word, this.at)) return false;
    this.at += word.length;
    return true;
  }

  /** Whether that comes next, blanks aside. */
  token(token: string): bool {
    for (; this.at < this.text.length; this.at++) {
      const code = this.text.charCodeAt(this.at);
      if (code != 0x20 && code != 0x09 && code != 0x0a && code != 0x0d) break;
    }
    return this.next(token);
  }

  value(depth: i32): Value {
    if (this.token("{")) return this.map(depth + 1);
    if (this.next("[")) return this.list(depth + 1);
    if (this.next('"')) return Value.of(this.string());
    if (this.next("true")) return Value.of(true);
    if (this.next("false")) return Value.of(false);
    if (this.next("null")) return new Value(Kind.Null);
    return this.number();
  }

  private list(depth: i32): Value {
    const made = list();
    for (let first = true; !this.token("]"); first = false) {
      if (this.bad || depth > MAX_DEPTH || (!first && !this.next(","))) return this.fail();
      made.add(this.value(depth));
    }
    return depth > MAX_DEPTH ? this.fail() : made;
  }

  private map(depth: i32): Value {
    const made = map();
    for (let first = true; !this.token("}"); first = false) {
      if (this.bad || depth > MAX_DEPTH || (!first && !this.next(",")) || !this.token('"')) return this.fail();
      const key = this.string();
      if (!this.token(":")) return this.fail();
      made.set(key, this.value(depth));
    }
    return depth > MAX_DEPTH ? this.fail() : made;
  }

  /** The rest of a text of which the opening quote was read. */
  private string(): string {
    let made = "";
    let from = this.at;
    for (;;) {
      const code = this.text.charCodeAt(this.at);
      if (code < 0x20) break; // -1 is the end
      this.at++;
      if (code == 0x22) return made + this.text.substring(from, this.at - 1);
      if (code != 0x5c) continue;
      made += this.text.substring(from, this.at - 1);
      const escape = this.text.charAt(this.at++);
      const known = 'b\bf\fn\nr\rt\t""\\\\//'.indexOf(escape);
      if (escape == "u") made += this.unicode();
      else if (escape != "" && known >= 0 && known % 2 == 0) made += 'b\bf\fn\nr\rt\t""\\\\//'.charAt(known + 1);
      else break;
      if (this.bad) break;
      from = this.at;
    }
    this.fail();
    return "";
  }

  private unicode(): string {
    const unit = this.unit();
    if (unit < 0xd800 || unit > 0xdfff) return String.fromCharCode(unit);
    const ahead = this.at;
    if (unit < 0xdc00 && this.next("\\u")) {
      const low = this.unit();
      if (low >= 0xdc00 && low <= 0xdfff) return String.fromCharCode(unit, low);
      if (!this.bad) this.at = ahead;
    }
    return "\ufffd";
  }

  private unit(): i32 {
    let unit = 0;
    for (let n = 0; n < 4; n++) {
      const code = this.text.charCodeAt(this.at++);
      const low = code | 0x20;
      if (code >= 0x30 && code <= 0x39) unit = (unit << 4) | (code - 0x30);
      else if (low >= 0x61 && low <= 0x66) unit = (unit << 4) | (low - 0x61 + 10);
      else {
        this.fail();
        return 0;
      }
    }
    return unit;
  }

  /** Past the digits that come; how many there were. */
  private digits(): i32 {
    const from = this.at;
    for (; this.at < this.text.length; this.at++) {
      const code = this.text.charCodeAt(this.at);
      if (code < 0x30 || code > 0x39) break;
    }
    return this.at - from;
  }

  private number(): Value {
    const from = this.at;
    const minus = this.next("-");
    const first = this.at;
    const zero = this.text.charAt(first) == "0";
    const count = this.digits();
    if (count == 0 || (zero && count > 1)) return this.fail();
    let whole = true;
    if (this.next(".")) {
      whole = false;
      if (this.digits() == 0) return this.fail();
    }
    if (this.next("e") || this.next("E")) {
      whole = false;
      if (!this.next("-")) this.next("+");
      if (this.digits() == 0) return this.fail();
    }
    let bits: u64 = 0;
    for (let at = first; whole && at < this.at; at++) {
      const digit = <u64>(this.text.charCodeAt(at) - 0x30);
      if (bits > (u64.MAX_VALUE - digit) / 10) whole = false;
      else bits = bits * 10 + digit;
    }
    if (!whole) return Value.of(parseFloat(this.text.substring(from, this.at)));
    return minus && bits > 0 ? Value.below(bits - 1) : Value.of(bits);
  }
}

// ---- declaring tools ----

export type Handler = (call: Call) => Answer;

export class Tool {
  private properties: Value = map();
  private required: Array<string> = [];
  private last: string = "";
  private hints: Value = map();
  private examples: Value = list();
  private defaults: Map<string, Value> = new Map();
  private ofBytes: Array<string> = [];
  handler: Handler | null = null;

  /** Use `tool`. */
  constructor(
    public name: string,
    private description: string,
  ) {}

  // Each of these adds an argument. What follows it, up to the next one, is said of it.

  text(name: string, description: string = ""): Tool {
    return this.argument(name, typed("string"), description);
  }

  integer(name: string, description: string = ""): Tool {
    return this.argument(name, typed("integer"), description);
  }

  number(name: string, description: string = ""): Tool {
    return this.argument(name, typed("number"), description);
  }

  flag(name: string, description: string = ""): Tool {
    return this.argument(name, typed("boolean"), description);
  }

  /** Bytes: base64 text for who calls, as JSON has none, and so in a default. */
  bytes(name: string, description: string = ""): Tool {
    this.ofBytes.push(name);
    return this.argument(name, typed("string").set("contentEncoding", "base64"), description);
  }

  /** A list; `items` is the schema of each: `typed("string")`, say. */
  list(name: string, description: string = "", items: Value = map()): Tool {
    return this.argument(name, typed("array").set("items", items), description);
  }

  /** An argument with a schema of its own: JSON Schema as a map. An empty one takes anything. */
  argument(name: string, schema: Value, description: string = ""): Tool {
    assert(!this.properties.has(name), this.name + ": the argument " + name + " is there twice");
    if (description != "") schema.set("description", description);
    this.properties.set(name, schema);
    this.required.push(name);
    this.last = name;
    return this;
  }

  optional(): Tool {
    const at = this.required.indexOf(this.last);
    if (at >= 0) this.required.splice(at, 1);
    return this;
  }

  /** What it is where a call leaves it out. */
  or<T>(value: T): Tool {
    this.defaults.set(this.last, Value.of<T>(value));
    return this.optional().says("default", value);
  }

  /** Of a number its size, of a text its length. */
  minimum<T>(value: T): Tool {
    return this.says(this.bound("min"), value);
  }

  maximum<T>(value: T): Tool {
    return this.says(this.bound("max"), value);
  }

  oneOf<T>(values: Array<T>): Tool {
    return this.says("enum", values);
  }

  pattern(expression: string): Tool {
    return this.says("pattern", expression);
  }

  /** Anything else that JSON Schema has. */
  says<T>(keyword: string, value: T): Tool {
    assert(this.last != "", this.name + ": there is no argument yet that " + keyword + " could be said of");
    this.properties.get(this.last).set(keyword, value);
    return this;
  }

  private bound(side: string): string {
    const type = this.properties.get(this.last).find("type");
    const name = type === null ? "" : type.text;
    return side + (name == "string" ? "Length" : name == "array" ? "Items" : "imum");
  }

  // And these say something of the tool.

  /** It changes nothing anywhere. */
  readOnly(): Tool {
    return this.hint("read_only", true);
  }

  /** It may overwrite or delete something. */
  destructive(): Tool {
    return this.hint("destructive", true);
  }

  /** A second call with the same arguments changes nothing more. */
  idempotent(): Tool {
    return this.hint("idempotent", true);
  }

  timeoutMs(milliseconds: u32): Tool {
    return this.hint("timeout_ms", milliseconds);
  }

  metadata(metadata: Value): Tool {
    return this.hint("metadata", metadata);
  }

  /** The schema of what it answers. */
  answers(schema: Value): Tool {
    return this.hint("output_schema", schema);
  }

  private hint<T>(name: string, value: T): Tool {
    this.hints.set(name, value);
    return this;
  }

  /**
   * The host makes this call before it takes the tool, and takes it only if it answers so. `asked` is what it asks the
   * host and is given: a list of `asks(capability, arguments, reply)`.
   */
  example(args: Value, answer: Answer, asked: Value | null = null): Tool {
    const made = map().set("arguments", args).set("answer", answer.asValue());
    if (asked !== null) made.set("host", asked);
    this.examples.add(made);
    return this;
  }

  /** What answers a call. It comes last. */
  handle(handler: Handler): void {
    this.handler = handler;
  }

  declaration(): Value {
    if (this.handler === null) throw new Error("the tool " + this.name + " has no .handle(...): it ends a declaration");
    const schema = typed("object").set("properties", this.properties).set("additionalProperties", false);
    if (this.required.length > 0) schema.set("required", this.required);
    const made = map().set("name", this.name).set("description", this.description).set("input_schema", schema);
    if (this.examples.list.length > 0) made.set("examples", this.examples);
    const hints = this.hints.entries;
    const names = hints.keys();
    for (let at = 0; at < names.length; at++) made.set(names[at], hints.get(names[at]));
    return made;
  }

  answer(call: Call): Answer {
    const missing = this.missing(call.arguments);
    if (missing != "") return failed("arguments." + missing + " is missing");
    const names = this.defaults.keys();
    for (let at = 0; at < names.length; at++) {
      if (!call.has(names[at])) call.arguments.set(names[at], this.defaults.get(names[at]));
    }
    const misread = this.readBytes(call.arguments);
    if (misread != "") return failed("arguments." + misread + " must be bytes, or base64 text");
    return this.handler!(call);
  }

  /** Makes bytes of base64 text. The name of the argument that is neither, or "". */
  private readBytes(given: Value): string {
    for (let at = 0; at < this.ofBytes.length; at++) {
      const name = this.ofBytes[at];
      const value = given.find(name);
      if (value === null || value.kind == Kind.Bytes) continue;
      const data = value.kind == Kind.Text ? fromBase64(value.text) : null;
      if (data === null) return name;
      given.set(name, data);
    }
    return "";
  }

  private missing(given: Value): string {
    for (let at = 0; at < this.required.length; at++) if (!given.has(this.required[at])) return this.required[at];
    return "";
  }
}

/** Of base64 text in either alphabet, padded or not; null where it is none. */
function fromBase64(text: string): Uint8Array | null {
  let length = text.length;
  if (length % 4 == 0) for (let n = 0; n < 2 && length > 0 && text.charCodeAt(length - 1) == 0x3d; n++) length--;
  const rest = length % 4;
  if (rest == 1) return null;
  const data = new Uint8Array((length >> 2) * 3 + (rest == 0 ? 0 : rest - 1));
  let bits: u32 = 0;
  let size = 0;
  for (let at = 0; at < length; at++) {
    const six = sixBits(text.charCodeAt(at));
    if (six < 0) return null;
    bits = (bits << 6) | six;
    if (at % 4 != 0) data[size++] = <u8>(bits >> (6 - 2 * (at % 4)));
  }
  return data;
}

function sixBits(digit: i32): i32 {
  if (digit >= 0x41 && digit <= 0x5a) return digit - 0x41; // A to Z
  if (digit >= 0x61 && digit <= 0x7a) return digit - 0x61 + 26; // a to z
  if (digit >= 0x30 && digit <= 0x39) return digit - 0x30 + 52; // 0 to 9
  if (digit == 0x2b || digit == 0x2d) return 62; // + and -
  return digit == 0x2f || digit == 0x5f ? 63 : -1; // / and _
}

/** One call of the host in an example, and what it answers there. */
export function asks<T>(capability: string, args: Value, reply: T): Value {
  const request = map().set("capability", capability).set("arguments", args);
  return list().add(request).add(map().set("ok", Value.of<T>(reply)));
}

/** The schema of a JSON type: string, integer, number, boolean, array, object. */
export function typed(type: string): Value {
  return map().set("type", type);
}

const tools: Array<Tool> = [];
const declared: Array<string> = [];

/** Declares a tool; what is called on it says more, and `handle` ends it. */
export function tool(name: string, description: string): Tool {
  assert(find(name) === null, "there are two tools of the name " + name);
  const made = new Tool(name, description);
  tools.push(made);
  return made;
}

/** Declares what the guest may ask its host for with `host`. What is not declared is refused. */
export function capabilities(names: Array<string>): void {
  for (let at = 0; at < names.length; at++) declared.push(names[at]);
}

function find(name: string): Tool | null {
  for (let at = 0; at < tools.length; at++) if (tools[at].name == name) return tools[at];
  return null;
}

// ---- what the host does for a guest ----

// @ts-ignore: decorator
@external("rho", "log")
declare function hostLog(level: i32, text: usize, size: usize): void;
// @ts-ignore: decorator
@external("rho", "host_call")
declare function hostCall(request: usize, size: usize): usize;
// @ts-ignore: decorator
@external("rho", "host_take")
declare function hostTake(reply: usize, size: usize): usize;
// @ts-ignore: decorator
@external("wasi_snapshot_preview1", "random_get")
declare function randomGet(place: usize, size: usize): i32;

/** Writes to the call's log; levels as in Python's logging. */
export function log(level: i32, text: string): void {
  const data = String.UTF8.encode(text, false, String.UTF8.ErrorMode.REPLACE);
  hostLog(level, changetype<usize>(data), data.byteLength);
}

export function debug(text: string): void {
  log(10, text);
}

export function info(text: string): void {
  log(20, text);
}

export function warning(text: string): void {
  log(30, text);
}

export function error(text: string): void {
  log(40, text);
}

/** Says in the log how far the call is. A total of 0 is not known. */
export function progress(done: f64, total: f64 = 0, text: string = ""): void {
  const far = total == 0 ? short(done) : short(done) + " of " + short(total);
  info(text == "" ? "progress: " + far : "progress: " + far + " " + text);
}

function short(number: f64): string {
  return trunc(number) == number && abs(number) < 1e15 ? (<i64>number).toString() : number.toString();
}

/** What the host answered. */
export class Reply {
  constructor(
    public ok: bool,
    public value: Value,
    /** Where not `ok`: denied, undeclared, invalid_arguments, quota or unavailable. */
    public kind: string = "",
    public message: string = "",
  ) {}
}

/** Asks the host for a capability, which `capabilities` must have declared. */
export function host(capability: string, args: Value = map()): Reply {
  const request = encode(map().set("capability", capability).set("arguments", args));
  const size = hostCall(request.dataStart, request.length);
  const data = new Uint8Array(<i32>size);
  const whole = hostTake(data.dataStart, size) == size ? decode(data.dataStart, size) : null;
  assert(whole !== null && whole.kind == Kind.Map && whole.entries.size == 1, "the host's reply is malformed");
  const refused = whole!.find("error");
  if (refused === null) return new Reply(true, whole!.get("ok"));
  return new Reply(false, new Value(Kind.Null), refused.get("kind").text, refused.get("message").text);
}

// ---- what the build joins the guest with; no tool calls these ----

/** Instead of AssemblyScript's own, which would ask the host. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  const why = message === null || message == "" ? "abort" : message;
  const where = file === null ? "" : ", in " + file + "(" + line.toString() + ":" + column.toString() + ")";
  log(40, why + where);
  unreachable();
}

/** Of Math.random. */
export function seed(): f64 {
  const place = memory.data(8, 8);
  randomGet(place, 8);
  return reinterpret<f64>((load<u64>(place) >> 12) | 0x3ff0000000000000) - 1;
}

export function rho_alloc(size: u32): usize {
  return size > 0x3fffffff ? 0 : heap.alloc(size);
}

export function rho_call(request: usize, size: usize): u64 {
  return packed(encode(dispatch(request, size).asValue()));
}

export function rho_manifest(): u64 {
  if (tools.length == 0) {
    throw new Error('no tool is declared: tool(name, description).handle((call) => ok("...")) declares one');
  }
  const made = list();
  for (let at = 0; at < tools.length; at++) made.add(tools[at].declaration());
  const manifest = map().set("abi", 1).set("language", "assemblyscript").set("tools", made);
  if (declared.length > 0) manifest.set("capabilities", declared);
  return packed(encode(manifest));
}

function packed(data: Uint8Array): u64 {
  return ((<u64>data.dataStart) << 32) | data.length;
}

function dispatch(data: usize, size: usize): Answer {
  const request = decode(data, size);
  if (request === null || request.kind != Kind.Map) return raised("the request is not plain CBOR");
  const abi = request.find("abi");
  if (abi === null || abi.kind != Kind.Int || abi.negative || abi.bits != 1) return raised("the request is not of ABI 1");
  const name = request.find("tool");
  if (name === null || name.kind != Kind.Text) return raised("the request names no tool");
  const args = request.find("arguments");
  if (args === null || args.kind != Kind.Map) return raised("the request has no arguments");
  const called = find(name.text);
  if (called === null) return raised("this guest has no tool of that name");
  const context = request.find("context");
  return called.answer(new Call(name.text, args, context === null || context.kind != Kind.Map ? map() : context));
}
