// What a tool may ask of its host: capabilities, and lines in the call's log.

/** The host said no, or could not. `kind` is denied, undeclared, invalid_arguments, quota, unavailable or the like. */
export class HostError extends Error {
  constructor(kind, message, capability) {
    super(message);
    this.name = "HostError";
    this.kind = kind;
    this.capability = capability;
  }
  toString() {
    return refusal(this.capability, this.kind, this.message);
  }
}

/** What a HostError says. "kv.get is not granted" would name it twice. */
function refusal(capability, kind, message) {
  const named = `${capability} is `;
  const why = indexOf(message, named) === 0 ? slice(message, named.length) : message;
  return `${capability}: ${kind}: ${why}`;
}

/** Asks for a capability and waits for what it answers. Throws HostError. */
export function host(capability, given = {}) {
  words(capability, "a capability's name");
  if (given === null || typeof given !== "object" || isArray(given)) {
    throw new TypeError(`rho: the arguments of ${json(capability)} are an object, not ${kindOf(given)}`);
  }
  const reply = ask({ capability, arguments: given });
  const { error } = reply;
  if (error === undefined && hasOwn(reply, "ok")) return reply.ok;
  if (hasOwn(reply, "ok") || typeof error?.kind !== "string" || typeof error.message !== "string") {
    throw new TypeError("rho: a malformed reply of the host");
  }
  const { kind } = error;
  const message = kind === "undeclared" ? `say export const capabilities = [${json(capability)}]` : error.message;
  throw new HostError(kind, message, capability);
}

const LEVEL = { debug: 10, info: 20, warning: 30, error: 40 };

/** A value as one line of the log: text as it is, errors with their stack, anything else as JSON where it can be. */
function shown(value) {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null) return typeof value === "bigint" ? `${value}n` : String(value);
  try {
    if (value instanceof Error) return `${value.name}: ${messageOf(value) ?? value.message}`;
    return json(value) ?? kindOf(value);
  } catch {
    return kindOf(value);
  }
}

function line(level) {
  return (...values) => {
    const parts = [];
    for (let place = 0; place < values.length; place++) push(parts, shown(values[place]));
    logText(level, join(parts, " "));
  };
}

/** A line in the call's log, at a level. */
export const log = {
  debug: line(LEVEL.debug),
  info: line(LEVEL.info),
  warning: line(LEVEL.warning),
  error: line(LEVEL.error),
};

const REPORT = "progress.report";
/** Whether the file declares it. */
let reports = false;

/** Says how far the call is, `progress(3, 10, "pages")`: to who watches the call, else in its log. Never throws a
 * HostError. */
export function progress(done, total = undefined, what = "") {
  if (reports) {
    try {
      host(REPORT, { done, total, text: `${what}` });
      return;
    } catch (error) {
      if (!(error instanceof HostError)) throw error;
    }
  }
  logText(LEVEL.info, trim(`progress: ${done}${total === undefined || total === null ? "" : ` of ${total}`} ${what}`));
}

globalThis.console = {
  log: log.info,
  info: log.info,
  debug: log.debug,
  trace: log.debug,
  warn: log.warning,
  error: log.error,
};
