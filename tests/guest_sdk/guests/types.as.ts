// What values and declarations become, and what a mistake of the author does.

import { Answer, Call, Value, failed, list, map, ok, progress, readJson, tool, typed, warning } from "rho";

tool("types", "Gives back what it is given.")
  .text("text", "a text").optional().pattern("^a").minimum(1)
  .integer("whole").optional().minimum(-5).maximum(5)
  .number("real").optional()
  .flag("flag").optional()
  .text("color").oneOf(["red", "green"]).or("red")
  .list("names", "of people", typed("string")).optional().maximum(3)
  .argument("any", map()).optional()
  .bytes("data", "any bytes").optional()
  .idempotent()
  .timeoutMs(1000)
  .answers(typed("object"))
  .handle((call) => ok(call.arguments));

tool("bytes", "Gives back bytes.")
  .bytes("data").or("AQID")
  .handle((call) => ok(call.bytes("data")));

tool("getters", "Reads what it is given as each kind.")
  .text("as")
  .argument("value", map())
  .handle((call) => read(call.text("as"), call.value("value")));

function read(kind: string, value: Value): Answer {
  if (kind == "i64") return ok(value.i64);
  if (kind == "u64") return ok(value.u64);
  if (kind == "f64") return ok(value.f64);
  if (kind == "text") return ok(value.text);
  if (kind == "bytes") return ok(value.bytes);
  if (kind == "list") return ok(value.list.length);
  if (kind == "map") return ok(value.entries.size);
  return ok(value.bool);
}

class Point {
  x: i32 = 0;
}

tool("made", "Values made of AssemblyScript's own.")
  .handle((call) => {
    const counts = new Map<string, i32>();
    counts.set("one", 1);
    const bytes = new Uint8Array(2);
    bytes[1] = 255;
    const nothing: string | null = null;
    const made = list().add(true).add(<i8>-1).add(u64.MAX_VALUE).add(i64.MIN_VALUE).add(<f32>0.5).add("text");
    made.add(bytes).add(counts).add([[1, 2], [3]]).add(nothing).add(Value.below(u64.MAX_VALUE));
    return ok(made);
  });

tool("mistakes", "Makes one.")
  .text("which")
  .destructive()
  .metadata(map().set("a", 1))
  .handle((call) => mistake(call.text("which")));

function deep(levels: i32): Value {
  return levels == 0 ? Value.of(0) : list().add(deep(levels - 1));
}

function mistake(which: string): Answer {
  if (which == "throw") throw new Error("a thrown text");
  if (which == "index") return ok([1][which.length]);
  if (which == "missing") return ok(map().get("no such key"));
  if (which == "kind") return ok(map().text);
  if (which == "surrogate") return ok("\ud800");
  if (which == "deep enough") return ok(deep(63));
  if (which == "too deep") return ok(deep(64));
  if (which == "image on failure") return failed("no").image("image/png", new Uint8Array(1));
  if (which == "garbage") {
    let size = 0;
    for (let n = 0; n < 2000; n++) size += new Uint8Array(100_000).length;
    return ok(size);
  }
  return ok(Math.random() < 1);
}

tool("about", "What the call is.")
  .handle((call: Call): Answer => {
    progress(1, 4, "pages");
    progress(0.5);
    warning("careful \ud800");
    return ok(map().set("call", call.id).set("session", call.sessionId).set("values", call.values));
  });

tool("reads", "Reads JSON.")
  .text("json")
  .handle((call: Call): Answer => {
    const read = readJson(call.text("json"));
    return read === null ? failed("no JSON") : ok(read);
  });
