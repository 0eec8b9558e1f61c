// JSDoc's type expressions, and TypeScript's that look the same, as JSON Schema.

/** What is wrong with how a tool is declared, in words for its author. */
class WrongDeclaration extends Error {}

const SIMPLE = {
  string: { type: "string" },
  number: { type: "number" },
  integer: { type: "integer" },
  int: { type: "integer" },
  bigint: { type: "integer" },
  boolean: { type: "boolean" },
  bool: { type: "boolean" },
  null: { type: "null" },
  undefined: { type: "null" },
  void: { type: "null" },
  object: { type: "object" },
  array: { type: "array" },
  any: {},
  unknown: {},
  "*": {},
};
const KNOWN =
  "string, number, integer, boolean, null, object, any, T[], Array<T>, Record<string, T>, {a: T, b?: T}, 'a' | 'b'";
/** A text, a number, a name, a sign. */
const TOKEN =
  /\s*(?:("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(-?\d+(?:\.\d+)?)|([A-Za-z_$][\w$.]*)|(\[\]|[{}<>()[\]|,:;?!*=]))/y;

class TypeReader {
  constructor(source) {
    this.tokens = [];
    this.place = 0;
    TOKEN.lastIndex = 0;
    const whole = source.trim();
    while (TOKEN.lastIndex < whole.length) {
      const from = TOKEN.lastIndex;
      const found = TOKEN.exec(whole);
      if (found === null) {
        throw new WrongDeclaration(`the type {${source}} cannot be read at ${json(whole.slice(from, from + 12))}`);
      }
      const [, quoted, number, name, sign] = found;
      this.tokens.push({ quoted, number, name, sign });
    }
    this.source = source;
  }

  get next() {
    return this.tokens[this.place] ?? {};
  }

  eat(sign) {
    if (this.next.sign !== sign) return false;
    this.place += 1;
    return true;
  }

  expect(sign) {
    if (!this.eat(sign)) throw new WrongDeclaration(`the type {${this.source}} needs a "${sign}"`);
  }

  whole() {
    const schema = this.union();
    if (this.place < this.tokens.length) throw new WrongDeclaration(`the type {${this.source}} goes on after its end`);
    return schema;
  }

  union() {
    this.eat("|");
    const parts = [this.suffixed()];
    while (this.eat("|")) parts.push(this.suffixed());
    return anyOf(parts);
  }

  suffixed() {
    const optional = this.eat("?");
    this.eat("!");
    let schema = this.single();
    while (this.eat("[]")) schema = { type: "array", items: schema };
    return optional ? anyOf([schema, { type: "null" }]) : schema;
  }

  single() {
    const { quoted, number, name, sign } = this.next;
    this.place += 1;
    if (quoted !== undefined) return { const: quoted.slice(1, -1).replace(/\\(.)/g, "$1") };
    if (number !== undefined) return { const: Number(number) };
    if (sign === "*") return {};
    if (sign === "(") {
      const schema = this.union();
      this.expect(")");
      return schema;
    }
    if (sign === "{") return this.record();
    if (name !== undefined) return this.named(name.replace(/\.$/, ""));
    throw new WrongDeclaration(`the type {${this.source}} cannot be read`);
  }

  record() {
    const properties = {};
    const required = [];
    while (!this.eat("}")) {
      const { name, quoted } = this.next;
      const key = name ?? quoted?.slice(1, -1);
      if (key === undefined) throw new WrongDeclaration(`the type {${this.source}} needs the name of a property`);
      this.place += 1;
      const optional = this.eat("?");
      this.expect(":");
      define(properties, key, this.union());
      if (!optional) required.push(key);
      if (!this.eat(",")) this.eat(";");
    }
    return record(properties, required);
  }

  named(name) {
    if (name === "true" || name === "false") return { const: name === "true" };
    const lower = name.toLowerCase();
    const inside = this.arguments();
    if ((lower === "array" || lower === "readonlyarray" || lower === "iterable") && inside.length === 1) {
      return { type: "array", items: inside[0] };
    }
    if ((lower === "object" || lower === "record") && inside.length > 0) {
      return { type: "object", additionalProperties: inside[inside.length - 1] };
    }
    if ((lower === "promise" || lower === "readonly") && inside.length === 1) return inside[0];
    if (inside.length === 0 && hasOwn(SIMPLE, lower)) return { ...SIMPLE[lower] };
    throw new WrongDeclaration(`the type ${name} is not known; a type is one of ${KNOWN}`);
  }

  arguments() {
    if (!this.eat("<")) return [];
    const inside = [];
    while (!this.eat(">")) {
      inside.push(this.union());
      if (!this.eat(",") && this.next.sign !== ">") throw new WrongDeclaration(`the type {${this.source}} needs a ">"`);
    }
    return inside;
  }
}

function define(properties, key, schema) {
  Object.defineProperty(properties, key, { value: schema, enumerable: true, writable: true, configurable: true });
}

function record(properties, required) {
  const schema = { type: "object", properties };
  if (required.length) schema.required = required;
  schema.additionalProperties = false;
  return schema;
}

/** One schema for several: texts and numbers become an `enum`, plain types a list of types. */
function anyOf(parts) {
  if (parts.length === 1) return "const" in parts[0] ? constant([parts[0].const]) : parts[0];
  if (parts.some((part) => Object.keys(part).length === 0)) return {};
  if (parts.every((part) => "const" in part)) return constant(parts.map((part) => part.const));
  const closed = parts.map((part) => ("const" in part ? constant([part.const]) : part));
  const bare = closed.every((part) => typeof part.type === "string" && Object.keys(part).length === 1);
  return bare ? { type: [...new Set(closed.map((part) => part.type))] } : { anyOf: closed };
}

function constant(values) {
  const kinds = new Set(values.map((value) => typeof value));
  return kinds.size === 1 ? { type: [...kinds][0], enum: values } : { enum: values };
}

/** The schema of a type expression. Throws WrongDeclaration. */
function schemaOf(expression) {
  return new TypeReader(expression).whole();
}
