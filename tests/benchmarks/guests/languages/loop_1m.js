function run(text) {
  const turns = Number(text);
  let state = 1;
  for (let turn = 0; turn < turns; turn++) state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return String(state);
}
