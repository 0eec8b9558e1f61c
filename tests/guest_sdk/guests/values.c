/* What the tests of rho.h ask of it: every kind of value read and written, every answer, every misuse. */
#include "rho.h"

static void rebuild(rho_out *out, rho_value value) {
    int64_t whole;
    uint64_t large;
    double number;
    bool yes;
    rho_str string;
    rho_items items;
    rho_value item;
    switch (rho_kind_of(value)) {
    case RHO_INT:
        if (rho_as_int(value, &whole)) rho_put_int(out, whole);
        else if (rho_as_uint(value, &large)) rho_put_uint(out, large);
        else rho_put_value(out, value); /* below -2^63 */
        break;
    case RHO_FLOAT:
        if (!rho_as_float(value, &number)) rho_panic("a float is no float");
        rho_put_float(out, number);
        break;
    case RHO_BOOL:
        if (!rho_as_bool(value, &yes)) rho_panic("a bool is no bool");
        rho_put_bool(out, yes);
        break;
    case RHO_NULL: rho_put_null(out); break;
    case RHO_TEXT:
        if (!rho_as_text(value, &string)) rho_panic("a text is no text");
        rho_put_str(out, string);
        break;
    case RHO_BYTES:
        if (!rho_as_bytes(value, &string)) rho_panic("bytes are no bytes");
        rho_put_bytes(out, string.data, string.size);
        break;
    case RHO_ARRAY:
        rho_put_array(out);
        for (items = rho_items_of(value); rho_next(&items, &item);) rebuild(out, item);
        rho_end(out);
        break;
    case RHO_MAP:
        rho_put_map(out);
        for (items = rho_pairs_of(value); rho_next_pair(&items, &string, &item);) rho_put_key_str(out, string), rebuild(out, item);
        rho_end(out);
        break;
    }
}

static rho_answer echo(rho_value arguments) {
    rho_out *out = rho_new_out();
    rebuild(out, arguments);
    return rho_ok(out);
}

static rho_answer copy(rho_value arguments) {
    rho_out *out = rho_new_out();
    rho_put_value(out, arguments);
    return rho_ok(out);
}

/* What each getter makes of "value"; a key that is missing is what the getter refused. */
static rho_answer getters(rho_value arguments) {
    int64_t whole;
    uint64_t large;
    double number;
    bool yes;
    rho_str text, bytes;
    rho_value value;
    rho_out *out = rho_new_out();
    rho_put_map(out);
    rho_set_bool(out, "has", rho_has(arguments, "value"));
    if (rho_get_int(arguments, "value", &whole)) rho_set_int(out, "int", whole);
    if (rho_get_uint(arguments, "value", &large)) rho_set_uint(out, "uint", large);
    if (rho_get_float(arguments, "value", &number)) rho_set_float(out, "float", number);
    if (rho_get_bool(arguments, "value", &yes)) rho_set_bool(out, "bool", yes);
    if (rho_get_text(arguments, "value", &text)) rho_set_str(out, "text", text);
    if (rho_get_bytes(arguments, "value", &bytes)) rho_put_key(out, "bytes"), rho_put_bytes(out, bytes.data, bytes.size);
    if (rho_get(arguments, "value", &value)) rho_set_uint(out, "count", rho_count(value));
    rho_set_int(out, "int_or", rho_int_or(arguments, "value", -7));
    rho_set_str(out, "text_or", rho_text_or(arguments, "value", rho_str_of("none")));
    rho_end(out);
    return rho_ok(out);
}

static const uint8_t gif[] = "GIF89a and so on";

static rho_answer answers(rho_value arguments) {
    rho_str shape = rho_text_or(arguments, "shape", rho_str_of(""));
    rho_out *map = rho_new_out();
    rho_put_map(map);
    rho_set_text(map, "key", "value");
    rho_end(map);
    if (rho_str_equal(shape, rho_str_of("ok"))) return rho_with_details(rho_ok_text("fine"), map);
    if (rho_str_equal(shape, rho_str_of("images")))
        return rho_with_image(rho_with_image(rho_ok(map), "image/gif", gif, 8), "image/gif", gif, sizeof gif - 1);
    if (rho_str_equal(shape, rho_str_of("failed"))) return rho_with_details(rho_failed("not today"), map);
    if (rho_str_equal(shape, rho_str_of("failed_with"))) return rho_failed_with(map);
    if (rho_str_equal(shape, rho_str_of("raised"))) return rho_raised("a bug");
    if (rho_str_equal(shape, rho_str_of("ask"))) return rho_ask_user("which one?", map);
    if (rho_str_equal(shape, rho_str_of("ask_bare"))) return rho_ask_user("which one?", NULL);
    if (rho_str_equal(shape, rho_str_of("halt"))) return rho_halt("done", map);
    if (rho_str_equal(shape, rho_str_of("halt_bare"))) return rho_halt("done", NULL);
    if (rho_str_equal(shape, rho_str_of("context"))) {
        rho_out *out = rho_new_out();
        rho_put_value(out, rho_context());
        return rho_ok(out);
    }
    rho_log(RHO_WARNING, "no such shape");
    return rho_failed("no such shape");
}

static rho_answer misuse(rho_value arguments) {
    rho_str how = rho_text_or(arguments, "how", rho_str_of(""));
    rho_out *out = rho_new_out();
    rho_put_map(out);
    if (rho_str_equal(how, rho_str_of("no_key"))) rho_put_int(out, 1);
    if (rho_str_equal(how, rho_str_of("two_keys"))) rho_put_key(out, "a"), rho_put_key(out, "b");
    if (rho_str_equal(how, rho_str_of("end_after_key"))) rho_put_key(out, "a"), rho_end(out);
    if (rho_str_equal(how, rho_str_of("open"))) return rho_ok(out);
    rho_end(out);
    if (rho_str_equal(how, rho_str_of("end_too_often"))) rho_end(out);
    if (rho_str_equal(how, rho_str_of("second_value"))) rho_put_int(out, 1);
    if (rho_str_equal(how, rho_str_of("empty"))) return rho_ok(rho_new_out());
    if (rho_str_equal(how, rho_str_of("details"))) return rho_with_details(rho_raised("a bug"), out);
    if (rho_str_equal(how, rho_str_of("image"))) return rho_with_image(rho_failed("no"), "image/gif", gif, 8);
    if (rho_str_equal(how, rho_str_of("too_deep"))) {
        rho_out *deep = rho_new_out();
        for (int n = 0; n <= RHO_MAX_DEPTH; n++) rho_put_array(deep);
    }
    return rho_failed("no such misuse");
}

/* Allocates, and writes to both ends of what it got. */
static rho_answer allocate(rho_value arguments) {
    size_t count = (size_t)rho_uint_or(arguments, "count", 0), item = (size_t)rho_uint_or(arguments, "item", 1);
    uint8_t *room = rho_new(count, item);
    room[0] = room[count * item - 1] = 1;
    return rho_ok_text("got it");
}

/* Two texts that grow in turn, so that each has to move when the other is the newest. */
static rho_answer interleave(rho_value arguments) {
    uint64_t count = rho_uint_or(arguments, "count", 0);
    rho_out *left = rho_new_out(), *right = rho_new_out(), *out = rho_new_out();
    rho_put_array(left), rho_put_array(right);
    for (uint64_t n = 0; n < count; n++) rho_put_uint(left, n), rho_put_text(right, n % 2 ? "odd" : "even");
    rho_end(left), rho_end(right);
    rho_put_map(out);
    rho_set_value(out, "left", (rho_value){left->data, left->data + left->size});
    rho_set_value(out, "right", (rho_value){right->data, right->data + right->size});
    rho_end(out);
    return rho_ok(out);
}

RHO_TOOLS({"echo", echo}, {"copy", copy}, {"getters", getters}, {"answers", answers}, {"misuse", misuse},
          {"allocate", allocate}, {"interleave", interleave})
