// One call of a tool, and what this module hands to the glue.

/** The tools of the file that was loaded, by name. */
const tools = { __proto__: null };

/** The answer map of one request, or a promise of it. Nothing is thrown but what the engine itself throws. */
function call(request) {
  const given = request?.arguments;
  if (request?.abi !== 1 || typeof given !== "object" || given === null || isArray(given)) {
    return { raised: { type: "TypeError", message: "rho: the request is none of ABI 1" } };
  }
  const run = tools[request.tool];
  if (run === undefined) {
    return { raised: { type: "ReferenceError", message: `rho: there is no tool ${json(request.tool)} here` } };
  }
  try {
    const result = run(given, request.context);
    if (typeof result === "object" && result !== null && typeof result.then === "function") return settled(result);
    return answer(result);
  } catch (error) {
    return thrown(error);
  }
}

async function settled(promise) {
  try {
    return answer(await promise);
  } catch (error) {
    return thrown(error);
  }
}

keep(SLOT.load, load);
keep(SLOT.call, call);
keep(SLOT.raised, raised);
keep(SLOT.notPlain, notPlain);
keep(SLOT.malformed, () => {
  throw new TypeError("rho: what the host sent is no plain CBOR");
});
keep(SLOT.negative, (below) => -1n - below);
keep(SLOT.big, (value) => {
  if (value >= 1n << 64n || value < -(1n << 64n)) {
    throw new RangeError("rho: a BigInt of the answer is outside -2^64 .. 2^64-1");
  }
  return value < 0n ? [0x20, -1n - value] : [0, value];
});
keep(SLOT.lastCall, { raised: { type: "InternalError", message: "the tool failed, and its error could not be told" } });
keep(SLOT.lastLoad, { error: { message: "the file could not be loaded, and its error could not be told" } });
