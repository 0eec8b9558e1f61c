// The first part of module "rho": the functions that the engine's glue (natives.wat) gave, and what of the language
// this module uses while a tool runs. A tool may replace any of it for itself; what is kept here stays as it was.

const [keep, logText, ask, evaluate, namespace, runJobs, promiseState, promiseResult, random, wordsOf, lower, upper] =
  globalThis["rho:native"];
delete globalThis["rho:native"];

const { Array, ArrayBuffer, Date, Error, Function, JSON, Map, Object, Promise } = globalThis;
const { RangeError, RegExp, Set, String, TypeError, Uint8Array, Uint8ClampedArray, WeakMap } = globalThis;

/** What stands in the slots of `keep`, in the order of natives.wat. */
const SLOT = {
  load: 0,
  call: 1,
  raised: 2,
  notPlain: 3,
  malformed: 4,
  negative: 5,
  big: 6,
  lastCall: 7,
  lastLoad: 8,
  lower: 9,
  upper: 10,
};

const uncurry = Function.prototype.bind.bind(Function.prototype.call);
const hasOwn = Object.hasOwn;
const isArray = Array.isArray;
const keysOf = Object.keys;
const prototypeOf = Object.getPrototypeOf;
const objectPrototype = Object.prototype;
const json = JSON.stringify;
const setPrototypeOf = Object.setPrototypeOf;
const isView = ArrayBuffer.isView;
const indexOf = uncurry(String.prototype.indexOf);
const lastIndexOf = uncurry(String.prototype.lastIndexOf);
const slice = uncurry(String.prototype.slice);
const trim = uncurry(String.prototype.trim);
const lowercase = uncurry(String.prototype.toLowerCase);
const split = uncurry(String.prototype.split);
const exec = uncurry(RegExp.prototype.exec);
const push = uncurry(Array.prototype.push);
const join = uncurry(Array.prototype.join);
const classOf = uncurry(Object.prototype.toString);

/** "an array", "a Map", "a function": a value's kind, as an error names it. Runs no code of the value's. */
function kindOf(value) {
  if (value === null) return "null";
  if (typeof value === "function") return "a function";
  if (typeof value !== "object") return typeof value === "undefined" ? "undefined" : `a ${typeof value}`;
  if (isArray(value)) return "an array";
  const name = slice(classOf(value), 8, -1);
  const made = name === "Object" ? prototypeOf(value)?.constructor?.name : name;
  if (typeof made !== "string" || made === "" || made === "Object") return "an object";
  return `${exec(/^[AEIOU]/, made) === null ? "a" : "an"} ${made}`;
}
