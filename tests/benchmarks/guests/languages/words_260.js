function run(text) {
  const counts = new Map();
  for (const word of text.toLowerCase().split(/\s+/)) {
    if (word) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const ranked = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  return ranked.slice(0, 10).map(([word, count]) => `${word} ${count}`).join(", ");
}
