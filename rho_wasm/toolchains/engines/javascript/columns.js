// In which column a syntax error stands. The engine tells its line, and the column of a token before it.

/** What a message that names no token is about, as it stands in the line: the error is where the match ends. */
const SPOTS = [
  [/missing initializer for variable$/, /\bconst\s+(?=[\w$]+\s*(?:[;,]|$))/g],
  [/redefinition of |variable name/, /\b(?:let|const|var|class|function)\s+(?=[\w$[{;=])/g],
  [/number literal|octal literals/i, /(?:^|[^\w$.])(?=0\d|\d[\w.]*[A-Za-z_])/g],
  [/left-hand side/, /(?:^|[^=!<>])(?==(?![=>]))/g],
];

/** The column of what `message` says is wrong in `line`, or undefined; the last such place, where there are several. */
function columnOf(message, line) {
  if (line === undefined || /expecting '/.test(message)) return undefined; // It names what is not there.
  if (/end of string$/.test(message)) return unclosedAt(line);
  const named = /'(\w+)'|keyword: (\w+)$|: (break|continue|return|super|await|yield)\b/.exec(message);
  const word = named?.slice(1).find((each) => each !== undefined);
  if (word !== undefined) {
    const at = [...line.matchAll(new RegExp(`(?<![\\w$])${word}(?![\\w$])`, "g"))].at(-1)?.index;
    if (at !== undefined) return at + 1;
  }
  const token = /'(.*)'$/.exec(message)?.[1];
  if (token !== undefined) {
    const at = token === "" ? line.length : line.lastIndexOf(token);
    return at < 0 ? undefined : at + 1;
  }
  const spot = SPOTS.find(([said]) => said.test(message))?.[1];
  const found = spot && [...line.matchAll(spot)].at(-1);
  return found ? found.index + found[0].length + 1 : undefined;
}

/** Where the text begins that `line` does not end. */
function unclosedAt(line) {
  let quote, began;
  for (let at = 0; at < line.length; at++) {
    const each = line[at];
    if (quote !== undefined) {
      if (each === "\\") at++;
      else if (each === quote) quote = undefined;
    } else if (each === "/" && line[at + 1] === "/") {
      break;
    } else if (each === '"' || each === "'" || each === "`") {
      quote = each;
      began = at + 1;
    }
  }
  return quote === undefined ? undefined : began;
}

const EXPRESSION = /(?:^|[=(,:;!&|?{}[]|\breturn|=>)\s*\/(?![*/])((?:[^\\/[]|\\.|\[(?:[^\]\\]|\\.)*\])+)\/([a-z]*)/g;

/** Where the file has the regular expression of which the engine says `message`, and nothing else. */
function expressionAt(message) {
  const lines = loaded.source.split("\n");
  for (const [number, line] of lines.entries()) {
    for (const found of line.matchAll(EXPRESSION)) {
      try {
        new RegExp(found[1], found[2]);
      } catch (error) {
        const column = found.index + found[0].indexOf("/") + 1;
        if (`SyntaxError: ${error.message}` === message) return { line: number + 1, column };
      }
    }
  }
  return undefined;
}
