// Loading a file: its exports become the tools, and what they say of themselves the manifest.

const declarations = new WeakMap();
const KEYS = {
  description: 1,
  input: 1,
  output: 1,
  examples: 1,
  timeout_ms: 1,
  read_only: 1,
  destructive: 1,
  idempotent: 1,
  metadata: 1,
};

/** Declares a tool with schemas of its own: `export const f = tool({ description, input }, (args, ctx) => ...)`. */
export function tool(declaration, run) {
  if (typeof run !== "function") {
    throw new TypeError(`rho: tool(declaration, function): the function is ${kindOf(run)}`);
  }
  options(declaration, KEYS, "tool");
  if (typeof declaration?.description !== "string" || declaration.description.trim() === "") {
    throw new TypeError("rho: tool({ description, input }, function) needs a description");
  }
  declarations.set(run, declaration);
  return run;
}

function declared(name, run) {
  const declaration = declarations.get(run);
  if (declaration === undefined) return documented(name, run);
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
    if (error instanceof WrongDeclaration && at >= 0) error.line = loaded.source.slice(0, at).split("\n").length;
    throw error;
  }
}

const MOST_ERRORS = 16;
const HELP = 'export function shout(args) { return args.text.toUpperCase(); }';

/** The tools of a module: fills `tools` (tools.js) and answers the manifest's part. */
function toolsOf(exports) {
  const declaredTools = [];
  const wrong = [];
  let capabilities;
  for (const name of Object.keys(exports)) {
    const found = exports[name];
    if (name === "capabilities" && Array.isArray(found)) {
      capabilities = found;
    } else if (typeof found === "function") {
      try {
        declaredTools.push(placed(name, found));
      } catch (error) {
        if (!(error instanceof WrongDeclaration)) throw error;
        wrong.push(error);
      }
      tools[name] = found;
    }
  }
  if (wrong.length > 0) {
    wrong[0].others = wrong.slice(1, MOST_ERRORS);
    throw wrong[0];
  }
  if (declaredTools.length === 0) {
    throw new WrongDeclaration(`the file exports no function, so it has no tool: ${HELP}`);
  }
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
