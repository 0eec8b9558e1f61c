// Loading a file: its exports become the tools, and what they say of themselves the manifest.

const declarations = new WeakMap();

const isMap = (value) => kindOf(value) === "an object";
const isBoolean = (value) => typeof value === "boolean";
const KEYS = {
  description: [(value) => typeof value === "string", "text"],
  input: [isMap, "a JSON Schema, which is an object"],
  output: [isMap, "a JSON Schema, which is an object"],
  examples: [Array.isArray, "an array"],
  timeout_ms: [Number.isInteger, "a whole number"],
  read_only: [isBoolean, "true or false"],
  destructive: [isBoolean, "true or false"],
  idempotent: [isBoolean, "true or false"],
  metadata: [isMap, "an object"],
};
const CAPABILITIES = 'export const capabilities = ["kv.get"]';

/** Declares a tool with schemas of its own: `export const f = tool({ description, input }, (args, ctx) => ...)`. */
export function tool(declaration, run) {
  if (typeof run !== "function") {
    throw new TypeError(`rho: tool(declaration, function): the function is ${kindOf(run)}`);
  }
  if (isMap(declaration) && Object.keys(declaration).some((key) => NEARLY.test(key))) {
    throw new TypeError(`rho: capabilities are of the whole file: ${CAPABILITIES}`);
  }
  for (const [key, value] of Object.entries(options(declaration, KEYS, "tool"))) {
    const [fits, what] = KEYS[key];
    if (value === undefined || value === null || fits(value)) continue;
    throw new TypeError(`rho: ${key} of tool must be ${what}, not ${kindOf(value)}`);
  }
  if (!(declaration?.examples ?? []).every((each) => isMap(each) && isMap(each.arguments) && isMap(each.answer))) {
    throw new TypeError("rho: each of the examples of tool must be { arguments: { n: 1 }, answer: { ok: 2 } }");
  }
  if ((declaration?.description ?? "").trim() === "") {
    throw new TypeError("rho: tool({ description, input }, function) needs a description");
  }
  declarations.set(run, declaration);
  return run;
}

function declared(name, run) {
  const declaration = declarations.get(run);
  if (declaration === undefined) return documented(name, run);
  oneObject(name, run, [], false);
  const { description, input, output, ...others } = declaration;
  const input_schema = input === undefined ? record({}, []) : { type: "object", ...input };
  return { name, description, input_schema, output_schema: output, ...others };
}

/** The tool's entry; what is wrong with it has the line of its function. */
function placed(name, run) {
  try {
    if (name === "default") {
      throw new WrongDeclaration("export default has no name to call it by: write export function NAME(args)");
    }
    return declared(name, run);
  } catch (error) {
    const at = loaded.source.indexOf(Function.prototype.toString.call(run));
    if (error instanceof WrongDeclaration && at >= 0) error.line = lineAt(at);
    throw error;
  }
}

const NEARLY = /^capabilit(?:y|ies)$/i;

/** What the file may ask the host for: its export `capabilities`. */
function wanted(name, found) {
  const list = 'capabilities is a list of names, like ["kv.get"]';
  let why;
  if (name !== "capabilities") why = `${name} is not looked at: write ${CAPABILITIES}`;
  else if (!Array.isArray(found)) why = `${list}, not ${kindOf(found)}`;
  else {
    const odd = found.findIndex((each) => typeof each !== "string" || !/^[^\s,]+$/.test(each));
    if (odd < 0) return [...new Set(found)];
    why = `${list}, and ${typeof found[odd] === "string" ? json(found[odd].slice(0, 80)) : kindOf(found[odd])} is no name`;
  }
  const error = new WrongDeclaration(why);
  const exported = new RegExp(`\\bexport\\s+(?:(?:const|let|var|class)\\s+|\\{[^}]*\\b)${name}\\b`).exec(loaded.source);
  if (exported !== null) error.line = lineAt(exported.index + exported[0].length);
  throw error;
}

const lineAt = (place) => loaded.source.slice(0, place).split("\n").length;

const MOST_ERRORS = 16;
const HELP = 'export function shout(args) { return args.text.toUpperCase(); }';

/** The tools of a module: fills `tools` (tools.js) and answers the manifest's part. */
function toolsOf(exports) {
  const declaredTools = [];
  const wrong = [];
  let capabilities;
  const gather = (what) => {
    try {
      return what();
    } catch (error) {
      if (!(error instanceof WrongDeclaration)) throw error;
      wrong.push(error);
    }
  };
  for (const name of Object.keys(exports)) {
    const found = exports[name];
    if (typeof found === "function") {
      gather(() => declaredTools.push(placed(name, found)));
      tools[name] = found;
    } else if (NEARLY.test(name)) {
      capabilities = gather(() => wanted(name, found));
    }
  }
  if (wrong.length > 0) {
    wrong[0].others = wrong.slice(1, MOST_ERRORS);
    throw wrong[0];
  }
  if (declaredTools.length === 0) {
    throw new WrongDeclaration(`the file exports no function, so it has no tool: ${HELP}`);
  }
  reports = capabilities !== undefined && capabilities.includes(REPORT);
  return { tools: declaredTools, capabilities };
}

/** The answer to rho_load. */
function load({ source, file }) {
  loaded.source = source;
  loaded.file = file;
  try {
    const promise = evaluate(source, file);
    runJobs();
    const state = promiseState(promise);
    if (state === 0) throw new WrongDeclaration("the file awaits, at its top level, something that never settles");
    if (state === 2) throw promiseResult(promise);
    const found = { ok: toolsOf(namespace()) };
    const why = fault(found, "", 0);
    if (why !== undefined) throw new WrongDeclaration(`a declaration is no plain data: ${why}`);
    return found;
  } catch (error) {
    return { error: explained(error) };
  }
}

const HINTS = [
  [/could not load module/i, 'a tool imports nothing but "rho"; what it needs beside that is in its own file'],
  [/could not find export/i, () => `"rho" exports ${EXPORTS.join(", ")}`],
  [
    /(require|module|exports) is not defined/,
    'write ES modules: import { Ok } from "rho"; export function NAME(args) { ... }',
  ],
  [
    /(setTimeout|setInterval|fetch|process|Buffer|window|document) is not defined/,
    'tools have the language itself, and what "rho" exports',
  ],
];
const EXPORTS = ["AskUser", "Failed", "Halt", "HostError", "Image", "Ok", "host", "log", "progress", "tool"];

function explained(error) {
  if (error instanceof WrongDeclaration) {
    const told = ({ message, line }) => ({ message, line, text: line === undefined ? undefined : lineOf(line) });
    const others = error.others ?? [];
    return { ...told(error), others: others.length > 0 ? others.map(told) : undefined };
  }
  const told = thrown(error).raised ?? { message: "the file threw an answer while it was loaded" };
  const message = told.type === undefined ? told.message : `${told.type}: ${told.message}`;
  const first = placesOf(error)[0] ?? importAt(message) ?? expressionAt(message);
  const at = first?.unsure ? undefined : first;
  const hint = HINTS.find(([pattern]) => pattern.test(message))?.[1];
  return {
    message,
    line: at?.line,
    column: at === undefined ? undefined : (at.column ?? columnOf(message, lineOf(at.line))),
    text: at === undefined ? undefined : lineOf(at.line),
    trace: message.startsWith("SyntaxError") ? undefined : told.trace,
    hint: typeof hint === "function" ? hint() : hint,
  };
}

/** Where the file imports what could not be found: the engine names the module, and no line. */
function importAt(message) {
  const name = /module '([^']*)'/.exec(message)?.[1];
  if (name === undefined) return undefined;
  const line = loaded.source.split("\n").findIndex((each) => /\b(import|from)\b/.test(each) && each.includes(name));
  return line < 0 ? undefined : { line: line + 1 };
}
