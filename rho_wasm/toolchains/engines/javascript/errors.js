// What went wrong, in the author's own file, line and text, with the frames of the engine gone.

/** The file that is loaded: its name, its text. One per engine. */
const loaded = { file: "", source: "" };

function lineOf(number) {
  return split(loaded.source, "\n")[number - 1];
}

/** Where the frames of a stack are that lie in the author's file: `[{ line, name }]`, innermost first. The engine's
 * columns are those of something near by, so nobody is told them. */
function frames(stack) {
  const found = [];
  for (const frame of split(stack, "\n")) {
    const at = lastIndexOf(frame, `${loaded.file}:`);
    if (at < 0 || exec(/[ (]$/, slice(frame, 0, at)) === null) continue;
    const place = exec(/^(\d+)(?::\d+)?\)?$/, slice(frame, at + loaded.file.length + 1));
    if (place === null) continue;
    const name = exec(/^\s*at (.*) \($/, slice(frame, 0, at))?.[1] ?? "";
    push(found, { line: +place[1], name });
  }
  return found;
}

const MAX_CAUSES = 4;

/** `file:line in name: text` of each frame, and the same of what caused it; `near file:line in name` of one that is not
 * sure. */
function traced(error) {
  const lines = [];
  for (let causes = 0; causes < MAX_CAUSES; causes++) {
    for (const { line, name, unsure } of placesOf(error)) {
      const where = name === "" || name === "<anonymous>" || name === "<eval>" ? "" : ` in ${name}`;
      const at = `${loaded.file}:${line}${where}`;
      push(lines, unsure ? `near ${at}` : `${at}: ${trim(lineOf(line) ?? "")}`);
    }
    error = causeOf(error);
    if (error === undefined) break;
    push(lines, `caused by ${textOf(error, "name") ?? "Error"}: ${messageOf(error) ?? kindOf(error)}`);
  }
  return lines;
}

function causeOf(error) {
  try {
    const { cause } = error;
    return cause instanceof Error ? cause : undefined;
  } catch {
    return undefined;
  }
}

/** A property of something thrown, if it is text. Getters of the thrown thing may run, and may throw. */
function textOf(error, key) {
  try {
    const found = error[key];
    return typeof found === "string" ? found : undefined;
  } catch {
    return undefined;
  }
}

/** What an error says; a HostError says of what capability it is, and its kind. */
function messageOf(error) {
  const message = textOf(error, "message");
  try {
    if (message === undefined || !(error instanceof HostError)) return message;
  } catch {
    return message;
  }
  const capability = textOf(error, "capability");
  const kind = textOf(error, "kind");
  return capability === undefined || kind === undefined ? message : refusal(capability, kind, message);
}

const ELSEWHERE = new RegExp(
  "^(?:fetch|Headers|Request|Response|FormData|Blob|File|AbortController|WebSocket|XMLHttpRequest|EventTarget|setTimeout|" +
    "setInterval|setImmediate|clearTimeout|require|process|Buffer|Intl|crypto|document|window|navigator|localStorage) is " +
    "not defined$",
);

const NETWORK = 'host("http.fetch", { url }), with export const capabilities = ["http.fetch"]';

/** What to know of a global that is not there, to be appended to the engine's message. */
function missing(message) {
  if (exec(ELSEWHERE, message) !== null) {
    const network = exec(/^(?:fetch|XMLHttpRequest) /, message) === null ? "" : `; the network is ${NETWORK}`;
    return `: the web's and Node's objects are not there${network}`;
  }
  const name = exec(/^(\w+) is not defined$/, message)?.[1];
  for (const each of EXPORTS) if (each === name) return `: write import { ${name} } from "rho"`;
  return "";
}

/** What to do about a refusal that nobody caught. */
function unanswered(error) {
  try {
    if (!(error instanceof HostError) || error.kind === "undeclared") return "";
  } catch {
    return "";
  }
  return " (catch HostError, and return Failed(`${error}`))";
}

/** The answer map for something thrown that is no answer. */
function raised(error) {
  if (error === undefined) {
    const message = "rho: the promise that the tool returned never settles: nothing is left that could settle it";
    return { raised: { type: "TypeError", message } };
  }
  if (error === null || (typeof error !== "object" && typeof error !== "function")) {
    return { raised: { message: shown(error) } };
  }
  const type = textOf(error, "name") ?? "Error";
  const trace = traced(error);
  const message = messageOf(error) ?? kindOf(error);
  const why = type === "ReferenceError" ? missing(message) : unanswered(error);
  return { raised: { type, message: message + why, trace: trace.length ? trace : undefined } };
}

/** The answer map for something thrown. */
function thrown(error) {
  if (typeof error === "object" && error !== null) return answerOf(error) ?? raised(error);
  return raised(error === undefined ? "undefined" : error);
}

/** Throws what makes `answer` no plain data, with the path to it. */
function notPlain(answer) {
  const why = fault(answer, "", 0);
  const unseen = "the answer holds a Proxy, which is no plain data, or it changed while it was read";
  throw new TypeError(`rho: ${why ?? unseen}`);
}

const NAMES = { ok: "the answer", error: "the failure's reason", arguments: "the arguments of the host call" };

function fault(value, path, depth) {
  const what = path === "" ? "the answer" : path;
  if (depth > 64) return `${slice(what, 0, 80)}... nests deeper than 64 levels, or holds itself`;
  const kind = typeof value;
  if (kind === "function" || kind === "symbol") return `${what} is ${kindOf(value)}, which is no plain data`;
  if (kind !== "object" || value === null || isBytes(value)) return undefined;
  if (isArray(value)) {
    for (let place = 0; place < value.length; place++) {
      const found = fault(value[place], `${what}[${place}]`, depth + 1);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  const parent = prototypeOf(value);
  if (slice(classOf(value), 8, -1) !== "Object" || (parent !== objectPrototype && parent !== null)) {
    return `${what} is ${kindOf(value)}, which is no plain data: ${advice(value)}`;
  }
  for (const key of keysOf(value)) {
    if (exec(/\p{Surrogate}/u, key)) return `${what} has a key with half a surrogate pair`;
    const name = depth === 0 ? (NAMES[key] ?? key) : exec(/^[\w$]+$/, key) ? `${what}.${key}` : `${what}[${json(key)}]`;
    const found = fault(value[key], name, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

function isBytes(value) {
  return value instanceof Uint8Array || value instanceof ArrayBuffer || value instanceof Uint8ClampedArray;
}

function advice(value) {
  if (value instanceof Map) return "write Object.fromEntries(map), with keys that are text";
  if (value instanceof Set || isView(value)) return "write Array.from(it)";
  if (value instanceof Date) return "write date.toISOString()";
  if (value instanceof Promise) return "await it";
  if (value instanceof Image) return "write Ok(value, { images: [image] })";
  if (value instanceof Error) return "write its message, or throw it";
  return "write { ...it }, or an object of your own";
}
