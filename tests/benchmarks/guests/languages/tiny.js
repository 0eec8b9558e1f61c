function run(text) {
  return "Hello, " + text + "!";
}
