// URLSearchParams: the query of a URL, or of a form, as names and values.

const formEncoded = (text) =>
  encodeURIComponent(text.toWellFormed())
    .replace(/%20/g, "+")
    .replace(/[!'()~]/g, (each) => `%${each.charCodeAt(0).toString(16).toUpperCase()}`);
const formPairs = (text) =>
  text
    .split("&")
    .filter((part) => part !== "")
    .map((part) => {
      const [, name, value = ""] = /^([^=]*)(?:=(.*))?$/s.exec(part.replace(/\+/g, " "));
      return [percentDecoded(name), percentDecoded(value)];
    });
/** Told of each change; set by the URL that the parameters are of. */
const CHANGED = Symbol("changed");
const REPLACED = Symbol("replaced");

globalThis.URLSearchParams = class URLSearchParams {
  #pairs = [];
  [CHANGED] = undefined;

  constructor(from = "") {
    if (typeof from === "object" && from !== null) {
      const pairs = typeof from[Symbol.iterator] === "function" ? [...from] : Object.entries(from);
      this.#pairs = pairs.map((pair) => {
        const [name, value, ...more] = pair;
        if (value === undefined || more.length > 0) throw new TypeError("each of the parameters is a name and a value");
        return [`${name}`, `${value}`];
      });
    } else {
      this.#pairs = formPairs(`${from}`.replace(/^\?/, ""));
    }
  }

  [REPLACED](query) {
    this.#pairs = formPairs(query);
  }

  #set(pairs) {
    this.#pairs = pairs;
    this[CHANGED]?.(this.toString());
  }

  get size() {
    return this.#pairs.length;
  }

  append(name, value) {
    this.#set([...this.#pairs, [`${name}`, `${value}`]]);
  }

  delete(name, value) {
    this.#set(this.#pairs.filter((pair) => pair[0] !== `${name}` || (value !== undefined && pair[1] !== `${value}`)));
  }

  get(name) {
    return this.#pairs.find((pair) => pair[0] === `${name}`)?.[1] ?? null;
  }

  getAll(name) {
    return this.#pairs.filter((pair) => pair[0] === `${name}`).map((pair) => pair[1]);
  }

  has(name, value) {
    return this.#pairs.some((pair) => pair[0] === `${name}` && (value === undefined || pair[1] === `${value}`));
  }

  set(name, value) {
    const place = this.#pairs.findIndex((pair) => pair[0] === `${name}`);
    if (place < 0) return this.append(name, value);
    const rest = this.#pairs.filter((pair, at) => at <= place || pair[0] !== `${name}`);
    return this.#set(rest.with(place, [`${name}`, `${value}`]));
  }

  sort() {
    this.#set(this.#pairs.toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
  }

  forEach(each, self) {
    for (const [name, value] of this) each.call(self, value, name, this);
  }

  *entries() {
    for (const [name, value] of this.#pairs) yield [name, value];
  }

  *keys() {
    for (const [name] of this.#pairs) yield name;
  }

  *values() {
    for (const [, value] of this.#pairs) yield value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  toString() {
    return this.#pairs.map(([name, value]) => `${formEncoded(name)}=${formEncoded(value)}`).join("&");
  }
};
