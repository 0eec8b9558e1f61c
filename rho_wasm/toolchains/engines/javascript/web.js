// Of the web's objects those that compute and reach nothing: texts as UTF-8, and copies of structures.

{
  const utf8Of = (text) => {
    const bytes = new Uint8Array(text.length * 3);
    let size = 0;
    for (let at = 0; at < text.length; at++) {
      let code = text.charCodeAt(at);
      if (code < 0x80) {
        bytes[size++] = code;
        continue;
      }
      if (code < 0x800) {
        bytes[size++] = 0xc0 | (code >> 6);
      } else {
        if ((code & 0xf800) === 0xd800) {
          code = text.codePointAt(at);
          if (code > 0xffff) at++;
          else code = 0xfffd;
        }
        if (code > 0xffff) {
          bytes[size++] = 0xf0 | (code >> 18);
          bytes[size++] = 0x80 | ((code >> 12) & 0x3f);
        } else {
          bytes[size++] = 0xe0 | (code >> 12);
        }
        bytes[size++] = 0x80 | ((code >> 6) & 0x3f);
      }
      bytes[size++] = 0x80 | (code & 0x3f);
    }
    return bytes.slice(0, size);
  };

  globalThis.TextEncoder = class TextEncoder {
    get encoding() {
      return "utf-8";
    }

    encode(text = "") {
      return utf8Of(`${text}`);
    }

    encodeInto(text, into) {
      let read = 0;
      let written = 0;
      for (const each of `${text}`) {
        const bytes = utf8Of(each);
        if (written + bytes.length > into.length) break;
        into.set(bytes, written);
        written += bytes.length;
        read += each.length;
      }
      return { read, written };
    }
  };

  // What the first byte of a character says: how many more there are, and between which two the second one is.
  const shapeOf = (first) => {
    if (first < 0x80) return [0, 0, 0];
    if (first >= 0xc2 && first < 0xe0) return [1, 0x80, 0xbf];
    if (first >= 0xe0 && first < 0xf0) return [2, first === 0xe0 ? 0xa0 : 0x80, first === 0xed ? 0x9f : 0xbf];
    if (first >= 0xf0 && first < 0xf5) return [3, first === 0xf0 ? 0x90 : 0x80, first === 0xf4 ? 0x8f : 0xbf];
    return undefined;
  };

  const viewOf = (data) => {
    if (data instanceof ArrayBuffer) return new Uint8Array(data);
    if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    throw new TypeError("decode takes a Uint8Array or another view of bytes");
  };

  globalThis.TextDecoder = class TextDecoder {
    #fatal;
    #keepsMark;
    #rest = [];
    #begun = false;

    constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
      if (!/^\s*(?:utf-?8|unicode-1-1-utf-8)\s*$/i.test(label)) {
        throw new RangeError(`there is no decoder of ${label}: utf-8 is the only one`);
      }
      this.#fatal = Boolean(fatal);
      this.#keepsMark = Boolean(ignoreBOM);
    }

    get encoding() {
      return "utf-8";
    }

    get fatal() {
      return this.#fatal;
    }

    get ignoreBOM() {
      return this.#keepsMark;
    }

    decode(data = new Uint8Array(), { stream = false } = {}) {
      const given = viewOf(data);
      const bytes = this.#rest.length > 0 ? Uint8Array.of(...this.#rest, ...given) : given;
      const parts = [];
      let codes = [];
      let at = 0;
      this.#rest = [];
      while (at < bytes.length) {
        const began = at;
        const first = bytes[at++];
        const [more, low, high] = shapeOf(first) ?? [-1];
        let code = more > 0 ? first & (0x3f >> more) : first;
        let left = more;
        while (left > 0 && at < bytes.length) {
          const second = bytes[at];
          if (second < (left === more ? low : 0x80) || second > (left === more ? high : 0xbf)) break;
          code = (code << 6) | (second & 0x3f);
          at++;
          left--;
        }
        if (left > 0 && at === bytes.length && stream) {
          this.#rest = [...bytes.subarray(began)];
          break;
        }
        if (left !== 0) {
          if (this.#fatal) {
            this.#begun = false;
            throw new TypeError("the bytes are not UTF-8");
          }
          code = 0xfffd;
        }
        if (code !== 0xfeff || this.#begun || this.#keepsMark) codes.push(code);
        this.#begun = true;
        if (codes.length === 4096) {
          parts.push(String.fromCodePoint(...codes));
          codes = [];
        }
      }
      if (!stream) this.#begun = false;
      return parts.join("") + String.fromCodePoint(...codes);
    }
  };

  const uncloned = (what) => {
    const error = new Error(`${kindOf(what)} cannot be cloned`);
    error.name = "DataCloneError";
    return error;
  };

  const cloned = (value, known) => {
    if (typeof value === "function" || typeof value === "symbol") throw uncloned(value);
    if (typeof value !== "object" || value === null) return value;
    if (known.has(value)) return known.get(value);
    const keep = (copy) => {
      known.set(value, copy);
      return copy;
    };
    if (value instanceof Date) return keep(new Date(value));
    if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
    if (value instanceof ArrayBuffer) return keep(value.slice(0));
    if (value instanceof DataView) {
      return keep(new DataView(cloned(value.buffer, known), value.byteOffset, value.byteLength));
    }
    if (ArrayBuffer.isView(value)) {
      return keep(new value.constructor(cloned(value.buffer, known), value.byteOffset, value.length));
    }
    if (value instanceof Number || value instanceof String || value instanceof Boolean) {
      return keep(Object(value.valueOf()));
    }
    if (value instanceof Map) {
      const copy = keep(new Map());
      for (const [key, item] of [...value]) copy.set(cloned(key, known), cloned(item, known));
      return copy;
    }
    if (value instanceof Set) {
      const copy = keep(new Set());
      for (const item of [...value]) copy.add(cloned(item, known));
      return copy;
    }
    if (value instanceof Error) {
      const kind = { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError }[value.name] ?? Error;
      const copy = keep(Object.create(kind.prototype));
      for (const key of ["message", "stack", "cause"]) {
        if (Object.hasOwn(value, key)) {
          const held = { value: cloned(value[key], known), writable: true, configurable: true };
          Object.defineProperty(copy, key, held);
        }
      }
      return copy;
    }
    if (value instanceof Promise || value instanceof WeakMap || value instanceof WeakSet) throw uncloned(value);
    const copy = keep(Array.isArray(value) ? new Array(value.length) : {});
    for (const key of Object.keys(value)) copy[key] = cloned(value[key], known);
    return copy;
  };

  globalThis.structuredClone = function structuredClone(value) {
    return cloned(value, new Map());
  };

  for (const name of ["TextEncoder", "TextDecoder", "structuredClone"]) {
    Object.defineProperty(globalThis, name, { enumerable: false });
  }
}
