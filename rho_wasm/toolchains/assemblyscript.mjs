/**
 * Compiles one project with AssemblyScript's compiler, from files in memory into files of this folder.
 *
 * The compiler reads, writes and lists by what it is given here: a source and its imports can name files of the project
 * and of the SDK, and nothing of the host's has a name. What it says goes to a file as JSON, for a build to read.
 *
 *     node assemblyscript.mjs .../assemblyscript/dist/asc.js OPTION...
 */
import { readFileSync, writeFileSync } from "node:fs";
import { argv } from "node:process";
import { pathToFileURL } from "node:url";

const MODULE = "main.wasm";
const SDK = "sdk";
const MESSAGES = 200;
const CHARACTERS = 2_000;
const SEVERITIES = ["note", "note", "warning", "error"];

const [, , compiler, ...options] = argv;
const given = JSON.parse(readFileSync("project.json", "utf8"));
const messages = [];

function placeOf(range) {
  const file = range?.source?.normalizedPath;
  if (file === undefined || !Object.hasOwn(given.files, file)) return {};
  const lines = given.files[file].slice(0, range.start).split("\n");
  return { file, line: lines.length, column: lines.at(-1).length + 1 };
}

const asc = await import(pathToFileURL(compiler).href);
const { error } = await asc.main(options, {
  readFile: (name, folder) => {
    const from = folder === SDK ? given.sdk : given.files;
    return name.endsWith(".ts") && Object.hasOwn(from, name) ? from[name] : null;
  },
  writeFile: (name, contents) => {
    if (name === MODULE) writeFileSync(MODULE, contents);
  },
  // Nothing of the SDK is there unless it is imported.
  listFiles: () => [],
  reportDiagnostic: ({ category, message, range }) => {
    if (messages.length >= MESSAGES) return;
    const said = message.slice(0, CHARACTERS);
    messages.push({ severity: SEVERITIES[category] ?? "note", message: said, ...placeOf(range) });
  },
});
if (error && !messages.some(({ severity }) => severity === "error")) {
  messages.push({ severity: "error", message: String(error.message).slice(0, CHARACTERS) });
}
writeFileSync("messages.json", JSON.stringify(messages));
process.exit(error ? 1 : 0);
