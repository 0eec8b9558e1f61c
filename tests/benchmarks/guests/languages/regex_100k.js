function run(text) {
  const slowest = {};
  for (const [, level, part, took] of text.matchAll(/^\S+ (WARN|ERROR) \[(\w+)\] .* in (\d+) ms$/gm)) {
    const key = level + " " + part;
    slowest[key] = Math.max(slowest[key] ?? 0, Number(took));
  }
  return Object.keys(slowest).sort().map((key) => `${key} ${slowest[key]}`).join(", ");
}
