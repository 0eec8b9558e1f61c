// What this build of the engine gets wrong or leaves as it was at boot, and tools would trip over.

// The engine's own was seeded when the engine was made, and would be the same in every call.
Object.defineProperty(random, "name", { value: "random" });
Math.random = random;

// The engine's own BigInt.asIntN and asUintN answer wrong numbers for most widths.
{
  const big = BigInt;
  const trunc = Math.trunc;
  const given = (bits, value) => {
    const width = trunc(+bits) || 0;
    if (width < 0 || width > Number.MAX_SAFE_INTEGER) throw new RangeError("invalid number of bits");
    if (typeof value === "number") throw new TypeError("cannot convert a number to a BigInt");
    return [big(width), big(value)];
  };
  const wide = (width, value) => width > 1_000_000n && value >> width === 0n;
  const mended = {
    asUintN(bits, value) {
      const [width, whole] = given(bits, value);
      return wide(width, whole) ? whole : whole & ((1n << width) - 1n);
    },
    asIntN(bits, value) {
      const [width, whole] = given(bits, value);
      if (width === 0n || wide(width, whole)) return width && whole;
      const low = whole & ((1n << width) - 1n);
      return low >> (width - 1n) === 0n ? low : low - (1n << width);
    },
  };
  BigInt.asUintN = mended.asUintN;
  BigInt.asIntN = mended.asIntN;
}
