/* What the tests of rho.h ask of its ways to put maps and texts together, and to read JSON from elsewhere. */
#include "rho.h"

static rho_answer pairs(rho_value arguments) {
    rho_out *list = rho_new_out();
    rho_put_array(list);
    rho_put_bytes(list, "\xff", 1);
    rho_end(list);
    char *changed = RHO_NEW(char, 2);
    *changed = 'c';
    rho_str sliced = {"sliced off", 6};
    return rho_ok(rho_map_of(
        rho_pair("bool", true), rho_pair("comparison", (bool)(sliced.size == 6)), rho_pair("int", -7),
        rho_pair("int64", INT64_MIN), rho_pair("size", sizeof(uint64_t)), rho_pair("uint64", UINT64_MAX),
        rho_pair("byte", (uint8_t)255), rho_pair("long", -5L), rho_pair("float", 0.5f), rho_pair("double", 1e300),
        rho_pair("text", "literal"), rho_pair("pointer", (const char *)"pointer"), rho_pair("changed", changed),
        rho_pair("str", sliced), rho_pair("null", NULL), rho_pair("value", arguments), rho_pair("list", list),
        rho_pair("map", rho_map_of(rho_pair("a", rho_map_of(rho_pair("b", 1)))))));
}

static rho_answer misuse(rho_value arguments) {
    if (rho_text_is(arguments, "how", "open")) {
        rho_out *open = rho_new_out();
        rho_put_map(open);
        return rho_ok(rho_map_of(rho_pair("open", open)));
    }
    if (rho_text_is(arguments, "how", "empty")) return rho_ok(rho_map_of(rho_pair("empty", rho_new_out())));
    return rho_ok(rho_map_of(rho_pair("pointer", (void *)&arguments)));
}

static rho_answer joined(rho_value arguments) {
    rho_str text = rho_text_or(arguments, "text", rho_str_of("?"));
    rho_str made = rho_str_join(text, rho_str_of(": "), rho_str_of_int(rho_int_or(arguments, "number", 0)));
    if (rho_text_is(arguments, "as", "url")) return rho_ok_str(rho_url_part(text));
    return rho_text_is(arguments, "as", "failure") ? rho_failed_str(made) : rho_ok_str(made);
}

static rho_answer read_json(rho_value arguments) {
    rho_str text;
    rho_value value;
    rho_out *out = rho_new_out();
    if (!rho_get_bytes(arguments, "json", &text) && !rho_get_text(arguments, "json", &text)) return rho_raised("no json");
    if (!rho_read_json(text, &value)) return rho_failed("no JSON");
    rho_put_value(out, value);
    return rho_ok(out);
}

static rho_answer refused(rho_value arguments) {
    rho_value reply;
    (void)arguments;
    if (!rho_host_call("kv.get", rho_map_of(rho_pair("key", "count")), &reply)) {
        if (rho_text_is(reply, "kind", "quota")) return rho_ok_text("another time");
        return rho_refused("kv.get", reply);
    }
    rho_out *out = rho_new_out();
    rho_put_value(out, reply);
    return rho_ok(out);
}

RHO_GUEST(RHO_TOOL(pairs, "A map of every type.", RHO_ARGUMENTS(RHO_ANY_ARG("any", "Anything.", RHO_OPTIONAL))),
          RHO_TOOL(misuse, "Traps.", RHO_ARGUMENTS(RHO_TEXT_ARG("how", "How."))),
          RHO_TOOL(joined, "Joins.", RHO_ARGUMENTS(RHO_ANY_ARG("text", "Any."), RHO_ANY_ARG("number", "Any."),
                                                   RHO_ANY_ARG("as", "Any.", RHO_OPTIONAL))),
          RHO_TOOL(read_json, "Reads JSON.", RHO_ARGUMENTS(RHO_ANY_ARG("json", "Any."))),
          RHO_TOOL(refused, "Asks the host.", RHO_CAPABILITIES("kv.get")))
