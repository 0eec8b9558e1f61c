/* rho.h: write a tool for rho_wasm in C, with no C library. One source file, one include, see README.md beside this.
 *
 *   static rho_answer hello(rho_value arguments) {
 *       rho_str name;
 *       if (!rho_get_text(arguments, "name", &name)) return rho_failed("name is missing");
 *       rho_out *out = rho_new_out();
 *       rho_put_map(out);
 *       rho_set_str(out, "hello", name);
 *       rho_end(out);
 *       return rho_ok(out);
 *   }
 *   RHO_TOOLS({"hello", hello})
 *
 * Memory is never freed: the host drops the whole instance after the call. What cannot go on (no memory, a misuse of
 * the writer) writes a line to the call's log and traps; the host tells them apart and names the functions on the way.
 */
#ifndef RHO_H
#define RHO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RHO_MAX_DEPTH 64 /* nesting of plain data that the host sends and takes */
#define RHO_API static __attribute__((unused))
#define RHO_EXPORT(name) __attribute__((export_name(name), used))
#define RHO_IMPORT(name) __attribute__((import_module("rho"), import_name(name)))

typedef struct { const char *data; size_t size; } rho_str; /* text (UTF-8) or bytes; no zero at the end */
typedef struct { const uint8_t *at, *end; } rho_value;     /* one item of a message that was checked as a whole */
typedef enum { RHO_INT, RHO_BYTES, RHO_TEXT, RHO_ARRAY, RHO_MAP, RHO_BOOL, RHO_NULL, RHO_FLOAT } rho_kind;
enum { RHO_DEBUG = 10, RHO_INFO = 20, RHO_WARNING = 30, RHO_ERROR = 40 };

/* ---- the few functions that a compiler expects to find; with a C library define RHO_HAS_LIBC ---- */
#ifdef RHO_HAS_LIBC
#include <string.h>
#else
/* With bulk memory on, these built-ins are single instructions, not calls of themselves. */
void *memcpy(void *restrict to, const void *restrict from, size_t size) { return __builtin_memcpy(to, from, size); }
void *memmove(void *to, const void *from, size_t size) { return __builtin_memmove(to, from, size); }
void *memset(void *to, int byte, size_t size) { return __builtin_memset(to, byte, size); }
int memcmp(const void *left, const void *right, size_t size) {
    const uint8_t *a = left, *b = right;
    for (; size > 0; size--, a++, b++) if (*a != *b) return *a - *b;
    return 0;
}
size_t strlen(const char *text) {
    const volatile char *at = text; /* volatile: or the loop is recognised and becomes a call of strlen */
    while (*at) at++;
    return (size_t)((const char *)at - text);
}
#endif

RHO_API rho_str rho_str_of(const char *text) { return (rho_str){text, strlen(text)}; }
RHO_API bool rho_str_equal(rho_str a, rho_str b) { return a.size == b.size && memcmp(a.data, b.data, a.size) == 0; }

/* ---- log ---- */
RHO_IMPORT("log") void rho__log(int32_t level, const void *text, size_t size);
RHO_API void rho_log_str(int level, rho_str text) { rho__log(level, text.data, text.size); }
RHO_API void rho_log(int level, const char *text) { rho_log_str(level, rho_str_of(text)); }
__attribute__((noinline, noreturn, unused)) static void rho_panic(const char *why) {
    rho_log(RHO_ERROR, why);
    __builtin_trap();
}

/* ---- memory: grows, is zeroed, is never given back ---- */
extern uint8_t __heap_base; /* the linker puts it where the program's own data ends */
static uintptr_t rho__top;
#define RHO_PAGE 65536u

/* Moves the end of the used memory to `end`; false where the host gives no more. */
RHO_API bool rho__reach(uint64_t end) {
    uint64_t have = (uint64_t)__builtin_wasm_memory_size(0) * RHO_PAGE;
    if (end > UINT32_MAX) return false;
    size_t pages = end > have ? (size_t)((end - have + RHO_PAGE - 1) / RHO_PAGE) : 0;
    if (pages > 0 && __builtin_wasm_memory_grow(0, pages) == SIZE_MAX) return false;
    rho__top = (uintptr_t)end;
    return true;
}
/* `size` zeroed bytes, aligned to 16, or NULL. */
RHO_API void *rho_try_new(size_t size) {
    if (rho__top == 0) rho__top = (uintptr_t)&__heap_base;
    uint64_t start = ((uint64_t)rho__top + 15) & ~(uint64_t)15;
    return rho__reach(start + size) ? (void *)(uintptr_t)start : NULL;
}
/* Room for `count` zeroed items; traps where there is none, which the host reports as out_of_memory. */
RHO_API void *rho_new(size_t count, size_t item_size) {
    size_t size;
    void *room = __builtin_mul_overflow(count, item_size, &size) ? NULL : rho_try_new(size);
    if (room == NULL) rho_panic("no memory left");
    return room;
}
#define RHO_NEW(type, count) ((type *)rho_new((count), sizeof(type)))

/* ---- reading plain CBOR (RFC 8949, the part that ABI.md allows) ---- */
typedef struct { uint8_t major, info; uint64_t number; } rho__head;

/* Reads an item's head and moves past it. False for what plain data does not have, or past the end. */
RHO_API bool rho__read_head(rho_value *value, rho__head *head) {
    if (value->at >= value->end) return false;
    head->major = *value->at >> 5;
    head->info = *value->at++ & 31;
    head->number = head->info;
    if (head->info < 24) return true;
    if (head->info > 27) return false; /* reserved, or of indefinite length */
    size_t size = (size_t)1 << (head->info - 24);
    if ((size_t)(value->end - value->at) < size) return false;
    for (head->number = 0; size > 0; size--) head->number = head->number << 8 | *value->at++;
    return true;
}
RHO_API bool rho__utf8(const uint8_t *at, const uint8_t *end) {
    while (at < end) {
        uint8_t first = *at++;
        if (first < 0x80) continue;
        if (first < 0xC2 || first > 0xF4) return false;
        int more = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
        if (end - at < more) return false;
        if ((first == 0xE0 && *at < 0xA0) || (first == 0xED && *at > 0x9F)) return false; /* overlong, surrogate */
        if ((first == 0xF0 && *at < 0x90) || (first == 0xF4 && *at > 0x8F)) return false; /* overlong, over U+10FFFF */
        for (; more > 0; more--) if ((*at++ & 0xC0) != 0x80) return false;
    }
    return true;
}
/* Moves past one well-formed item; false, and `value` is then useless, for anything else. */
RHO_API bool rho__skip(rho_value *value) {
    uint64_t items = 1; /* that are still to come at this level: no recursion, so that nesting costs no stack */
    uint64_t waiting[RHO_MAX_DEPTH];
    bool was_map[RHO_MAX_DEPTH];
    int level = 0;
    bool map = false; /* this level is one: with an even number of items to come, the next is a key */
    for (;;) {
        while (items == 0) {
            if (level == 0) return true;
            items = waiting[--level];
            map = was_map[level];
        }
        rho__head head;
        bool key = map && items % 2 == 0;
        if (!rho__read_head(value, &head) || (key && head.major != 3)) return false;
        items--;
        size_t left = (size_t)(value->end - value->at);
        switch (head.major) {
        case 0: case 1: break;
        case 2: case 3:
            if (head.number > left) return false;
            if (head.major == 3 && !rho__utf8(value->at, value->at + head.number)) return false;
            value->at += head.number;
            break;
        case 4: case 5:
            /* Each item takes a byte at least, so a length over what is left is a lie. */
            if (head.number > left || level >= RHO_MAX_DEPTH) return false;
            waiting[level] = items;
            was_map[level++] = map;
            map = head.major == 5;
            items = map ? head.number * 2 : head.number;
            break;
        case 7:
            if (head.info < 20 || head.info > 27 || head.info == 23 || head.info == 24) return false;
            break;
        default: return false; /* tags */
        }
    }
}
RHO_API bool rho_well_formed(const void *data, size_t size, rho_value *out) {
    rho_value rest = {data, (const uint8_t *)data + size};
    *out = rest;
    return rho__skip(&rest) && rest.at == rest.end;
}
RHO_API rho__head rho__head_of(rho_value *value) {
    rho__head head;
    if (!rho__read_head(value, &head)) rho_panic("read past the end of a value");
    return head;
}
RHO_API rho_kind rho_kind_of(rho_value value) {
    rho__head head = rho__head_of(&value);
    if (head.major < 2) return RHO_INT;
    if (head.major < 6) return (rho_kind)(head.major - 1);
    return head.info < 22 ? RHO_BOOL : head.info == 22 ? RHO_NULL : RHO_FLOAT;
}
/* The as-functions answer false, and leave `out` alone, where the value is of another kind or does not fit. */
RHO_API bool rho_as_uint(rho_value value, uint64_t *out) {
    rho__head head = rho__head_of(&value);
    if (head.major == 0) *out = head.number;
    return head.major == 0;
}
RHO_API bool rho_as_int(rho_value value, int64_t *out) {
    rho__head head = rho__head_of(&value);
    if (head.major > 1 || head.number > INT64_MAX) return false;
    *out = head.major == 0 ? (int64_t)head.number : -1 - (int64_t)head.number;
    return true;
}
RHO_API double rho__half(uint16_t bits) {
    uint64_t sign = (uint64_t)(bits >> 15) << 63, fraction = bits & 0x3FF;
    int exponent = bits >> 10 & 0x1F;
    union { uint64_t bits; double number; } out;
    if (exponent == 0) { /* zero and subnormals: fraction * 2^-24 is exact */
        out.number = (double)fraction * 0x1p-24;
        out.bits |= sign;
        return out.number;
    }
    out.bits = sign | (uint64_t)(exponent == 31 ? 0x7FF : exponent - 15 + 1023) << 52 | fraction << 42;
    return out.number;
}
/* Whole numbers too: a JSON 3 is a fine 3.0. */
RHO_API bool rho_as_float(rho_value value, double *out) {
    rho__head head = rho__head_of(&value);
    union { uint64_t bits; double number; } wide = {head.number};
    union { uint32_t bits; float number; } narrow = {(uint32_t)head.number};
    if (head.major == 0) *out = (double)head.number;
    else if (head.major == 1) *out = -1.0 - (double)head.number;
    else if (head.major != 7 || head.info < 25) return false;
    else if (head.info == 25) *out = rho__half((uint16_t)head.number);
    else *out = head.info == 26 ? (double)narrow.number : wide.number;
    return true;
}
RHO_API bool rho_as_bool(rho_value value, bool *out) {
    rho__head head = rho__head_of(&value);
    if (head.major != 7 || (head.info != 20 && head.info != 21)) return false;
    *out = head.info == 21;
    return true;
}
RHO_API bool rho__as_string(rho_value value, int major, rho_str *out) {
    rho__head head = rho__head_of(&value);
    if (head.major != major) return false;
    if (head.number > (size_t)(value.end - value.at)) rho_panic("read past the end of a value");
    *out = (rho_str){(const char *)value.at, (size_t)head.number};
    return true;
}
RHO_API bool rho_as_text(rho_value value, rho_str *out) { return rho__as_string(value, 3, out); }
RHO_API bool rho_as_bytes(rho_value value, rho_str *out) { return rho__as_string(value, 2, out); }

/* Items of an array, or pairs of a map, in their order; of any other value none. */
typedef struct { rho_value rest; uint64_t left; } rho_items;
RHO_API size_t rho_count(rho_value value) {
    rho__head head = rho__head_of(&value);
    return head.major == 4 || head.major == 5 ? (size_t)head.number : 0;
}
RHO_API rho_value rho__take(rho_items *items) {
    rho_value item = items->rest;
    if (!rho__skip(&items->rest)) rho_panic("read past the end of a value");
    item.end = items->rest.at;
    return item;
}
RHO_API rho_items rho__items_of(rho_value value, int major) {
    rho__head head = rho__head_of(&value);
    return (rho_items){value, head.major == major ? head.number : 0};
}
RHO_API rho_items rho_items_of(rho_value array) { return rho__items_of(array, 4); }
RHO_API rho_items rho_pairs_of(rho_value map) { return rho__items_of(map, 5); }
RHO_API bool rho_next(rho_items *items, rho_value *item) {
    if (items->left == 0) return false;
    items->left--;
    *item = rho__take(items);
    return true;
}
RHO_API bool rho_next_pair(rho_items *pairs, rho_str *key, rho_value *item) {
    if (pairs->left == 0) return false;
    pairs->left--;
    if (!rho_as_text(rho__take(pairs), key)) rho_panic("a key that is no text");
    *item = rho__take(pairs);
    return true;
}
RHO_API bool rho_get(rho_value map, const char *key, rho_value *out) {
    rho_items pairs = rho_pairs_of(map);
    rho_str wanted = rho_str_of(key), found;
    rho_value item;
    while (rho_next_pair(&pairs, &found, &item)) {
        if (!rho_str_equal(found, wanted)) continue;
        *out = item;
        return true;
    }
    return false;
}
/* rho_get_int(map, "key", &out): false, and `out` is left alone, if it is absent or of another kind. With a default:
 * rho_int_or(map, "key", 5). */
#define RHO__GETTER(name, type) \
    RHO_API bool rho_get_##name(rho_value map, const char *key, type *out) { \
        rho_value item; \
        return rho_get(map, key, &item) && rho_as_##name(item, out); \
    } \
    RHO_API type rho_##name##_or(rho_value map, const char *key, type otherwise) { \
        (void)rho_get_##name(map, key, &otherwise); \
        return otherwise; \
    }
RHO__GETTER(int, int64_t)
RHO__GETTER(uint, uint64_t)
RHO__GETTER(float, double)
RHO__GETTER(bool, bool)
RHO__GETTER(text, rho_str)
RHO__GETTER(bytes, rho_str)
RHO_API bool rho_has(rho_value map, const char *key) {
    rho_value item;
    return rho_get(map, key, &item);
}

/* ---- writing plain CBOR: put a value; in a map a key, then its value; close maps and arrays with rho_end ---- */
typedef struct { size_t head; uint32_t items; bool map, key; } rho__level;
typedef struct {
    uint8_t *data;
    size_t size, room;
    int depth; /* of open maps and arrays */
    rho__level open[RHO_MAX_DEPTH];
} rho_out;

RHO_API rho_out *rho_new_out(void) { return RHO_NEW(rho_out, 1); }
RHO_API uint8_t *rho__room(rho_out *out, size_t size) {
    uint64_t wanted = (uint64_t)out->size + size;
    if (wanted > out->room) {
        uint64_t room = wanted + out->room + 64;
        if (room > UINT32_MAX) rho_panic("no memory left");
        /* The newest piece of memory grows where it is; an older one moves. */
        bool newest = out->room > 0 && (uintptr_t)out->data + out->room == rho__top;
        if (!newest || !rho__reach((uintptr_t)out->data + room)) {
            uint8_t *data = rho_new((size_t)room, 1);
            if (out->size > 0) memcpy(data, out->data, out->size);
            out->data = data;
        }
        out->room = (size_t)room;
    }
    out->size += size;
    return out->data + out->size - size;
}
RHO_API size_t rho__head_bytes(uint8_t *to, int major, uint64_t number) {
    int log = number < 24 ? -1 : number <= UINT8_MAX ? 0 : number <= UINT16_MAX ? 1 : number <= UINT32_MAX ? 2 : 3;
    to[0] = (uint8_t)(major << 5 | (log < 0 ? (int)number : 24 + log));
    size_t size = log < 0 ? 0 : (size_t)1 << log;
    for (size_t at = size; at > 0; at--, number >>= 8) to[at] = (uint8_t)number;
    return 1 + size;
}
RHO_API void rho__put(rho_out *out, int major, uint64_t number, const void *data, size_t size) {
    uint8_t head[9];
    size_t head_size = rho__head_bytes(head, major, number);
    memcpy(rho__room(out, head_size), head, head_size);
    if (size > 0) memcpy(rho__room(out, size), data, size);
}
/* The innermost open map or array, or NULL. */
RHO_API rho__level *rho__inner(rho_out *out) { return out->depth > 0 ? &out->open[out->depth - 1] : NULL; }
/* Counts the value that comes now. */
RHO_API void rho__value(rho_out *out) {
    rho__level *level = rho__inner(out);
    if (level == NULL && out->size > 0) rho_panic("a second value where one is wanted: open a map or an array first");
    if (level == NULL) return;
    if (level->map && !level->key) rho_panic("a value in a map wants a key first");
    level->key = false;
    level->items++;
}
RHO_API void rho_put_key_str(rho_out *out, rho_str key) {
    rho__level *level = rho__inner(out);
    if (level == NULL || !level->map || level->key) rho_panic("a key where none belongs");
    level->key = true;
    rho__put(out, 3, key.size, key.data, key.size);
}
RHO_API void rho_put_key(rho_out *out, const char *key) { rho_put_key_str(out, rho_str_of(key)); }
RHO_API void rho_put_uint(rho_out *out, uint64_t number) { rho__value(out), rho__put(out, 0, number, NULL, 0); }
RHO_API void rho_put_int(rho_out *out, int64_t number) {
    rho__value(out);
    if (number < 0) rho__put(out, 1, (uint64_t)(-1 - number), NULL, 0);
    else rho__put(out, 0, (uint64_t)number, NULL, 0);
}
RHO_API void rho_put_float(rho_out *out, double number) {
    union { double number; uint64_t bits; } wide = {number};
    rho__value(out);
    uint8_t *to = rho__room(out, 9);
    to[0] = 0xFB;
    for (int at = 8; at > 0; at--, wide.bits >>= 8) to[at] = (uint8_t)wide.bits;
}
RHO_API void rho_put_bool(rho_out *out, bool yes) { rho__value(out), rho__put(out, 7, yes ? 21 : 20, NULL, 0); }
RHO_API void rho_put_null(rho_out *out) { rho__value(out), rho__put(out, 7, 22, NULL, 0); }
RHO_API void rho_put_str(rho_out *out, rho_str text) {
    rho__value(out);
    rho__put(out, 3, text.size, text.data, text.size);
}
RHO_API void rho_put_text(rho_out *out, const char *text) { rho_put_str(out, rho_str_of(text)); }
RHO_API void rho_put_bytes(rho_out *out, const void *data, size_t size) {
    rho__value(out);
    rho__put(out, 2, size, data, size);
}
/* A value that was read, as it is. */
RHO_API void rho_put_value(rho_out *out, rho_value value) {
    rho_value rest = value;
    if (!rho__skip(&rest)) rho_panic("read past the end of a value");
    rho__value(out);
    size_t size = (size_t)(rest.at - value.at);
    memcpy(rho__room(out, size), value.at, size);
}
RHO_API void rho__open(rho_out *out, bool map) {
    if (out->depth >= RHO_MAX_DEPTH) rho_panic("nested too deeply");
    rho__value(out);
    out->open[out->depth++] = (rho__level){.head = out->size, .map = map};
    *rho__room(out, 1) = 0; /* the head is written by rho_end, which knows how many there are */
}
RHO_API void rho_put_map(rho_out *out) { rho__open(out, true); }
RHO_API void rho_put_array(rho_out *out) { rho__open(out, false); }
RHO_API void rho_end(rho_out *out) {
    rho__level *level = rho__inner(out);
    if (level == NULL || level->key) rho_panic("rho_end with nothing open, or after a key");
    uint8_t head[9];
    size_t size = rho__head_bytes(head, level->map ? 5 : 4, level->items);
    rho__room(out, size - 1);
    uint8_t *at = out->data + level->head;
    memmove(at + size, at + 1, out->size - level->head - size);
    memcpy(at, head, size);
    out->depth--;
}
#define RHO__SETTER(name, type) \
    RHO_API void rho_set_##name(rho_out *out, const char *key, type value) { \
        rho_put_key(out, key); \
        rho_put_##name(out, value); \
    }
RHO__SETTER(int, int64_t)
RHO__SETTER(uint, uint64_t)
RHO__SETTER(float, double)
RHO__SETTER(bool, bool)
RHO__SETTER(str, rho_str)
RHO__SETTER(text, const char *)
RHO__SETTER(value, rho_value)

/* ---- answers ---- */
typedef enum { RHO_OK, RHO_FAILED, RHO_RAISED, RHO_ASK_USER, RHO_HALT } rho_shape;
typedef struct rho__image { const char *mime_type; const void *data; size_t size; struct rho__image *next; } rho__image;
typedef struct {
    rho_shape shape;
    rho_str text;                /* the reason or question */
    const rho_out *value, *details; /* NULL where there is none */
    rho__image *images;
} rho_answer;

RHO_API rho_answer rho_ok(const rho_out *value) { return (rho_answer){.shape = RHO_OK, .value = value}; }
RHO_API rho_answer rho_ok_text(const char *text) { return (rho_answer){.shape = RHO_OK, .text = rho_str_of(text)}; }
/* The tool reports that it could not do what was asked: say what the model should do. No crash, no strike. */
RHO_API rho_answer rho_failed(const char *reason) {
    return (rho_answer){.shape = RHO_FAILED, .text = rho_str_of(reason)};
}
RHO_API rho_answer rho_failed_with(const rho_out *reason) { return (rho_answer){.shape = RHO_FAILED, .value = reason}; }
/* The tool itself is at fault: counts as a crash. */
RHO_API rho_answer rho_raised(const char *message) {
    return (rho_answer){.shape = RHO_RAISED, .text = rho_str_of(message)};
}
/* `options` is a map, or NULL. */
RHO_API rho_answer rho_ask_user(const char *question, const rho_out *options) {
    return (rho_answer){.shape = RHO_ASK_USER, .text = rho_str_of(question), .value = options};
}
/* `value` NULL is null. */
RHO_API rho_answer rho_halt(const char *reason, const rho_out *value) {
    return (rho_answer){.shape = RHO_HALT, .text = rho_str_of(reason), .value = value};
}
/* Details go to the host's screens, never to the model; on rho_ok and rho_failed. */
RHO_API rho_answer rho_with_details(rho_answer answer, const rho_out *details) {
    if (answer.shape > RHO_FAILED) rho_panic("details go with rho_ok and rho_failed only");
    answer.details = details;
    return answer;
}
/* A png, jpeg, webp or gif, at most 16 of them, on rho_ok. */
RHO_API rho_answer rho_with_image(rho_answer answer, const char *mime_type, const void *data, size_t size) {
    if (answer.shape != RHO_OK) rho_panic("images go with rho_ok only");
    rho__image *image = RHO_NEW(rho__image, 1);
    *image = (rho__image){mime_type, data, size, NULL};
    rho__image **last = &answer.images;
    while (*last != NULL) last = &(*last)->next;
    *last = image;
    return answer;
}
RHO_API void rho__put_out(rho_out *out, const rho_out *from) {
    if (from->depth != 0 || from->size == 0) rho_panic("a value that is empty, or has an rho_end missing");
    rho_put_value(out, (rho_value){from->data, from->data + from->size});
}
RHO_API void rho__put_answer(rho_out *out, rho_answer answer) {
    static const char *const names[] = {"ok", "error", "raised", "ask_user", "halt"};
    rho_put_map(out);
    rho_put_key(out, names[answer.shape]);
    if (answer.shape == RHO_RAISED) rho_put_map(out), rho_set_str(out, "message", answer.text), rho_end(out);
    else if (answer.shape <= RHO_FAILED && answer.value != NULL) rho__put_out(out, answer.value);
    else rho_put_str(out, answer.text);
    if (answer.shape == RHO_ASK_USER && answer.value != NULL) {
        rho_put_key(out, "options");
        rho__put_out(out, answer.value);
    }
    if (answer.shape == RHO_HALT) {
        rho_put_key(out, "value");
        if (answer.value != NULL) rho__put_out(out, answer.value);
        else rho_put_null(out);
    }
    if (answer.details != NULL) rho_put_key(out, "details"), rho__put_out(out, answer.details);
    if (answer.images != NULL) {
        rho_put_key(out, "images");
        rho_put_array(out);
        for (const rho__image *image = answer.images; image != NULL; image = image->next) {
            rho_put_map(out);
            rho_set_text(out, "mime_type", image->mime_type);
            rho_put_key(out, "data");
            rho_put_bytes(out, image->data, image->size);
            rho_end(out);
        }
        rho_end(out);
    }
    rho_end(out);
}

/* ---- asking the host for a capability; the imports are there only in a guest that uses this ---- */
RHO_IMPORT("host_call") int32_t rho__host_call(const void *request, size_t size);
RHO_IMPORT("host_take") int32_t rho__host_take(void *reply, size_t size);
/* True: `reply` is the answer. False: `reply` is a map of "kind" (denied, undeclared, quota ...) and "message".
 * `arguments` is a map, or NULL for an empty one. */
RHO_API bool rho_host_call(const char *capability, const rho_out *arguments, rho_value *reply) {
    rho_out *out = rho_new_out();
    rho_put_map(out);
    rho_set_text(out, "capability", capability);
    rho_put_key(out, "arguments");
    if (arguments != NULL) rho__put_out(out, arguments);
    else rho_put_map(out), rho_end(out);
    rho_end(out);
    size_t size = (size_t)(uint32_t)rho__host_call(out->data, out->size);
    void *data = rho_new(size, 1);
    rho_value whole;
    bool whole_reply = (uint32_t)rho__host_take(data, size) == size && rho_well_formed(data, size, &whole);
    if (whole_reply && rho_get(whole, "ok", reply)) return true;
    if (!whole_reply || !rho_get(whole, "error", reply)) rho_panic("a malformed reply of the host");
    return false;
}

/* ---- the tools of this guest ---- */
typedef struct {
    const char *name;
    rho_answer (*handler)(rho_value arguments);
} rho_tool;

static const uint8_t rho__empty_map[] = {0xA0};
static rho_value rho__context = {rho__empty_map, rho__empty_map + 1};
/* The call's context, a map: "call_id", "values" and what else the host gives. */
RHO_API rho_value rho_context(void) { return rho__context; }

RHO_API rho_answer rho__dispatch(const rho_tool *tools, size_t count, const void *request, size_t size) {
    rho_value whole, arguments;
    rho_str name;
    if (!rho_well_formed(request, size, &whole)) return rho_raised("the request is not plain CBOR");
    if (rho_int_or(whole, "abi", 0) != 1) return rho_raised("the request is not of ABI 1");
    if (!rho_get_text(whole, "tool", &name)) return rho_raised("the request names no tool");
    if (!rho_get(whole, "arguments", &arguments) || rho_kind_of(arguments) != RHO_MAP)
        return rho_raised("the request has no arguments");
    (void)rho_get(whole, "context", &rho__context);
    for (size_t at = 0; at < count; at++)
        if (rho_str_equal(name, rho_str_of(tools[at].name))) return tools[at].handler(arguments);
    return rho_raised("this guest has no tool of that name: its manifest and RHO_TOOLS differ");
}
RHO_API uint64_t rho__answer_call(const rho_tool *tools, size_t count, const void *request, size_t size) {
    rho_out *out = rho_new_out();
    rho__put_answer(out, rho__dispatch(tools, count, request, size));
    return (uint64_t)(uintptr_t)out->data << 32 | out->size;
}
/* RHO_TOOLS({"name", handler}, ...), once, at the end of the file. The names are those of the manifest. */
#define RHO_TOOLS(...) \
    static const rho_tool rho__tools[] = {__VA_ARGS__}; \
    RHO_EXPORT("rho_alloc") void *rho__export_alloc(size_t size); \
    RHO_EXPORT("rho_call") uint64_t rho__export_call(const void *request, size_t size); \
    void *rho__export_alloc(size_t size) { return rho_try_new(size); } \
    uint64_t rho__export_call(const void *request, size_t size) { \
        return rho__answer_call(rho__tools, sizeof rho__tools / sizeof *rho__tools, request, size); \
    }

#endif
