// Which line an error is of. The engine keeps lines for calls, throws and operators, and few of what else may fail: of
// the rest it tells the line of what stands near by in its code, most often an earlier statement.

const UNSURE = new RegExp(
  "^(?:cannot (?:read|set) property |'.*' is read-only$|value is not iterable$|not an object$|object is not extensible$|" +
    "Cannot convert undefined or null to object$|cannot convert (?:symbol|to object)|toPrimitive$|" +
    "no setter for property$|invalid '(?:in|instanceof)' |parent class must be constructor$)",
);
const NAMED = /^(?:cannot (read|set) property )?'(\w{1,64})'(?: of (?:undefined|null)| is read-only)$/;
const ABSENT = /^(\w{1,64}) is not (?:defined|initialized)$/;
const NEAR_LINES = 20;

/** What the engine told of an error, as `frames` does, with the innermost line mended: it is that of the only place
 * near by which does what the message says, or the frame is `unsure`. */
function placesOf(error) {
  const stack = textOf(error, "stack") ?? "";
  const found = frames(stack);
  const message = textOf(error, "message") ?? "";
  // A function of the engine's own that stands above was called from a line that is known.
  const innermost = found.length > 0 && frames(split(stack, "\n")[0]).length > 0;
  if (innermost && textOf(error, "name") === "TypeError" && exec(UNSURE, message) !== null) {
    const line = onlyLine(message, found[0].line);
    if (line === undefined) found[0].unsure = true;
    else found[0].line = line;
  }
  const name = exec(ABSENT, message)?.[1];
  if (innermost && name !== undefined && textOf(error, "name") === "ReferenceError") {
    const line = onlyMention(name);
    if (line === undefined) found[0].unsure = true;
    else found[0].line = line;
  }
  return found;
}

/** The number of the only line of the file that has a name which is not there. */
function onlyMention(name) {
  const has = new RegExp(`(?:^|[^.\\w$])${name}(?![\\w$])`);
  const lines = split(loaded.source, "\n");
  let only;
  for (let number = 1; number <= lines.length; number++) {
    if (exec(has, lines[number - 1]) === null) continue;
    if (only !== undefined) return undefined;
    only = number;
  }
  return only;
}

/** The number of the only line about `told` that reads or writes what `message` names. */
function onlyLine(message, told) {
  const [, reads, name] = exec(NAMED, message) ?? [];
  if (name === undefined) return undefined;
  // A write of a constant is told anywhere in its function; what else fails is not before what was told.
  const does = new RegExp(
    reads === undefined
      ? `(?:\\+\\+|--)[\\w.]*\\b${name}\\b|\\b${name}\\s*(?:\\+\\+|--|(?:[-+%^]|\\*\\*?|\\/|&&?|\\|\\|?|\\?\\?|<<|>>>?)?=(?![=>]))`
      : `\\.\\s*${name}\\b|\\[\\s*['"\`]?${name}\\b`,
  );
  const declares = new RegExp(`\\b(?:const|let|var)\\b[^=]*\\b${name}\\b`);
  const lines = split(loaded.source, "\n");
  let only;
  const look = (number) => {
    const text = lines[number - 1];
    if (exec(does, text) === null || (reads === undefined && exec(declares, text) !== null)) return true;
    if (only !== undefined) return false;
    only = number;
    return true;
  };
  // A line at the margin begins or ends what stands at the top of the file.
  const inside = exec(/^\s/, lines[told - 1] ?? "") !== null;
  const within = (number) => number > 0 && number <= lines.length && !(inside && exec(/^\S/, lines[number - 1]) !== null);
  for (let number = told; number <= told + NEAR_LINES && within(number); number++) {
    if (!look(number)) return undefined;
  }
  for (let number = told - 1; reads === undefined && number >= told - NEAR_LINES && within(number); number--) {
    if (!look(number)) return undefined;
  }
  return only;
}
