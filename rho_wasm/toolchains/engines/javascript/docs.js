// A function's JSDoc as a tool's description and schemas.

const PARAMETER = new Set(["param", "arg", "argument"]);
const TAG = /^@(\w+)\s*([^]*)$/;

/** The lines of the comment right before a function of the source, without stars. Undefined if there is none. */
function commentOf(name, run) {
  const at = loaded.source.indexOf(Function.prototype.toString.call(run));
  if (at < 0) return undefined;
  const named = `(?:export\\s+)?(?:const|let|var)\\s+${name.replace(/\$/g, "\\$&")}\\s*=\\s*$`;
  const declaring = new RegExp(`${named}|export\\s+(?:default\\s+)?$`);
  const before = loaded.source.slice(0, at).replace(declaring, "").trimEnd();
  const from = before.lastIndexOf("/**");
  if (!before.endsWith("*/") || from < 0 || before.indexOf("*/", from) !== before.length - 2) return undefined;
  return before
    .slice(from + 3, -2)
    .replace(/[ \t]+@(?=(?:param|arg|argument|returns?)\b)/g, "\n@")
    .split("\n")
    .map((each) => each.replace(/^\s*\*? ?/, "").trimEnd());
}

/** A comment's lines as `{ description, tags: [[name, text]] }`; the description is its first paragraph. */
function paragraphs(lines) {
  const tags = [];
  const description = [];
  let ended = false;
  for (const each of lines) {
    const tag = TAG.exec(each.trim());
    if (tag !== null) tags.push([tag[1], tag[2]]);
    else if (tags.length) tags[tags.length - 1][1] += `\n${each}`;
    else if (each.trim() !== "" && !ended) description.push(each.trim());
    else ended = description.length > 0;
  }
  return { description: description.join(" "), tags };
}

/** `{type} rest` as [type, rest]; no type is undefined. */
function typed(words) {
  const whole = words.trim();
  if (!whole.startsWith("{")) return [undefined, whole];
  let depth = 0;
  for (let place = 0; place < whole.length; place++) {
    if (whole[place] === "{") depth += 1;
    else if (whole[place] === "}" && --depth === 0) return [whole.slice(1, place), whole.slice(place + 1).trim()];
  }
  throw new WrongDeclaration(`a type's "{" is never closed: ${whole.split("\n")[0]}`);
}

const oneLine = (words) => words.split(/\s+/).filter(Boolean).join(" ").replace(/^-\s*/, "");

/** One `@param`: its path (`args.user.name` is ["args", "user", "name"]), its schema, whether it may be absent. */
function parameter(words) {
  const [type, rest] = typed(words);
  const found = /^(?:\[\s*([\w$.[\]]+?)\s*(?:=\s*([^]*?))?\s*\](?!\s*[.\]])|([\w$.[\]]+))\s*([^]*)$/.exec(rest);
  if (found === null) throw new WrongDeclaration(`@param has no name: ${oneLine(words)}`);
  const [, maybe, initial, certain, description] = found;
  const optional = maybe !== undefined || /=$/.test((type ?? "").trim());
  const schema = type === undefined ? {} : schemaOf(type.trim().replace(/=$/, ""));
  const path = (maybe ?? certain).replace(/\[\]/g, ".[]").split(".");
  const node = { schema, optional, children: new Map(), typed: type !== undefined };
  if (oneLine(description)) node.description = oneLine(description);
  if (initial !== undefined) node.initial = literal(initial.trim());
  return { path, node };
}

function literal(words) {
  try {
    return JSON.parse(words);
  } catch {
    return words.replace(/^(['"`])([^]*)\1$/, "$2");
  }
}

function place(root, path, node) {
  let parent = root;
  for (const step of path.slice(1, -1)) {
    if (!parent.children.has(step)) parent.children.set(step, { schema: {}, optional: false, children: new Map() });
    parent = parent.children.get(step);
  }
  parent.children.set(path[path.length - 1], node);
}

function built(node) {
  const schema = filled(node);
  if (node.description !== undefined) schema.description = node.description;
  if (node.initial !== undefined) schema.default = node.initial;
  return schema;
}

function filled(node) {
  if (node.children.size === 0) return { ...node.schema };
  if (node.children.has("[]")) return { type: "array", items: built(node.children.get("[]")) };
  if (node.schema.type === "array") return { ...node.schema, items: record(...members(node)) };
  const [properties, required] = members(node);
  return record({ ...node.schema.properties, ...properties }, [...(node.schema.required ?? []), ...required]);
}

function members(node) {
  const properties = {};
  const required = [];
  for (const [key, child] of node.children) {
    define(properties, key, built(child));
    if (!child.optional) required.push(key);
  }
  return [properties, required];
}

/** The schema of the arguments, of all `@param` of a function. */
function inputOf(name, run, tags) {
  const given = tags.filter(([tag]) => PARAMETER.has(tag)).map(([, words]) => parameter(words));
  const untyped = given.filter(({ path, node }) => path.length === 1 && !node.typed).map(({ path }) => path[0]);
  oneObject(name, run, untyped, given.some(({ path }) => path.length > 1));
  if (given.length === 0) {
    if (run.length === 0) return record({}, []);
    throw new WrongDeclaration(`${name} takes arguments, but its comment has no @param {type} args.NAME description`);
  }
  const first = given[0].path[0];
  const root = { schema: { type: "object" }, optional: false, children: new Map() };
  for (const { path, node } of given) {
    if (path[0] !== first) continue;
    if (path.length > 1) place(root, path, node);
    else if (node.schema.type === undefined && Object.keys(node.schema).length === 0) continue;
    else if (node.schema.type === "object") root.schema = node.schema;
    else {
      const how = `write @param {type} args.${first}, and ${name}(args)`;
      throw new WrongDeclaration(`${name} gets all its arguments in one object: ${how}`);
    }
  }
  return filled(root);
}

/** The schema of what a function answers, of its `@returns`. What is no type known here says nothing. */
function outputOf(tags) {
  const returns = tags.find(([tag]) => tag === "returns" || tag === "return");
  if (returns === undefined) return undefined;
  try {
    const [type, words] = typed(returns[1]);
    const schema = type === undefined ? {} : open(schemaOf(type));
    if (Object.keys(schema).length === 0) return undefined;
    return oneLine(words) ? { ...schema, description: oneLine(words) } : schema;
  } catch {
    return undefined;
  }
}

/** A tool may answer more than it says. */
function open(schema) {
  if (Array.isArray(schema)) return schema.map(open);
  if (schema === null || typeof schema !== "object") return schema;
  const entries = Object.entries(schema).filter(([key, value]) => key !== "additionalProperties" || value !== false);
  return Object.fromEntries(entries.map(([key, value]) => [key, open(value)]));
}

/** A tool's entry in the manifest, of its comment. Throws WrongDeclaration. */
function documented(name, run) {
  const lines = commentOf(name, run);
  const { description, tags } = paragraphs(lines ?? []);
  if (description === "") {
    throw new WrongDeclaration(`${name} has no description: write /** what it does */ right before it`);
  }
  return { name, description, input_schema: inputOf(name, run, tags), output_schema: outputOf(tags) };
}
