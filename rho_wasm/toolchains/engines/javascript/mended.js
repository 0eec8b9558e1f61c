// What this build of the engine gets wrong, leaves as it was at boot, or takes long for, and tools would trip over.

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

// text.split(/\s+/) is how tools find words. The engine tries the expression at each character, as the specification
// puts it, and makes an object of each match: twenty times the work.
{
  const { exec } = RegExp.prototype;
  const slowly = uncurry(RegExp.prototype[Symbol.split]);
  const sourceOf = uncurry(Object.getOwnPropertyDescriptor(RegExp.prototype, "source").get);
  const isRegExp = (value) =>
    prototypeOf(value) === RegExp.prototype && value.exec === exec && value.constructor === RegExp;
  const mended = {
    [Symbol.split](string, limit) {
      if (limit === undefined && typeof string === "string" && isRegExp(this) && sourceOf(this) === "\\s+") {
        const words = wordsOf(string);
        if (words !== undefined) return words;
      }
      return slowly(this, string, limit);
    },
  };
  Object.defineProperty(RegExp.prototype, Symbol.split, { value: mended[Symbol.split], enumerable: false });
}

// The engine looks each character up in tables; letters of ASCII need none.
for (const [name, slot, quickly] of [["toLowerCase", SLOT.lower, lower], ["toUpperCase", SLOT.upper, upper]]) {
  keep(slot, String.prototype[name]);
  Object.defineProperty(quickly, "name", { value: name });
  Object.defineProperty(quickly, "length", { value: 0 });
  Object.defineProperty(String.prototype, name, { value: quickly });
}
