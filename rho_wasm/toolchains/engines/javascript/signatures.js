// How a tool's function takes what it is called with: one object, and perhaps the call's context after it.

const CONTEXT = /^(?:\{[^]*|_*(?:c|ctx|cx|context|call|info|meta)?\s*(?:=[^]*)?)$/i;
const OBJECT = /^_*(?:a|args?|arguments|given|input|o|obj|object|opts?|options|params?|parameters|props)$/i;

/** What stands between the commas of a function's parameters, without comments and texts. */
function parametersOf(run) {
  const quoted = /\/\*[^]*?\*\/|\/\/[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/g;
  const text = Function.prototype.toString.call(run).replace(quoted, (each) => (each.startsWith("/") ? " " : '""'));
  const alone = /^\s*(?:async\b\s*)?([\w$]+)\s*=>/.exec(text);
  if (alone !== null) return [alone[1]];
  const found = [""];
  let depth = 0;
  for (const each of text.slice(text.indexOf("(") + 1)) {
    if ("([{".includes(each)) depth += 1;
    else if (")]}".includes(each) && --depth < 0) break;
    if (each === "," && depth === 0) found.push("");
    else found[found.length - 1] += each;
  }
  return found.map((each) => each.trim()).filter(Boolean);
}

/** Throws WrongDeclaration for a function that wants its arguments one by one: it would get an object and a context.
 * `named` are the paths that its comment gives with no type, unless it gives parts of the first. */
function oneObject(name, run, named, parts) {
  const [first = "", second = "", ...more] = parametersOf(run);
  const whole = first.startsWith("{") || parts;
  const several = more.length > 0 || first.startsWith("...") || (!whole && !CONTEXT.test(second));
  const alone = !whole && named.some((each) => each === first && !OBJECT.test(each));
  if (!several && !alone) return;
  const how = `write @param {type} args.NAME for each, and ${name}(args) or ${name}({ NAME })`;
  throw new WrongDeclaration(`${name} gets all its arguments in one object: ${how}; a second parameter is the call's ctx`);
}
