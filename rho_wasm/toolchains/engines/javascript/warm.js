// The engine makes most of its own functions when they are first asked for. What loading a file and calling a tool asks
// for is asked for once before the snapshot, so that no image and no call makes it again.

{
  /**
   * Warms up.
   * @param {string[]} args.texts - some
   * @param {{ a: number, b?: "x" | "y" }} [args.more=5] more
   * @returns {Array<number>} one
   */
  function warm(args, ctx) {
    throw new TypeError("warm");
  }
  loaded.file = "warm.js";
  loaded.source = `/**
 * Warms up.
 * @param {string[]} args.texts - some
 * @param {{ a: number, b?: "x" | "y" }} [args.more=5] more
 * @returns {Array<number>} one
 */
export ${Function.prototype.toString.call(warm)}`;
  fault({ ok: declared("warm", warm) }, "", 0);
  tools.warm = warm;
  call({ tool: "warm", arguments: {}, context: {} });
  explained(new SyntaxError("warm"));
  delete tools.warm;
  loaded.file = loaded.source = "";
}
