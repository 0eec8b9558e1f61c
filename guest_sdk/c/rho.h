/* rho.h: write a tool for rho_wasm in C, with no C library. One header; README.md beside this begins with a tool.
 *
 *   static rho_answer greet(rho_value arguments) {
 *       rho_out *out = rho_new_out();
 *       rho_put_map(out);
 *       rho_set_str(out, "hello", rho_text_or(arguments, "name", rho_str_of("you")));
 *       rho_end(out);
 *       return rho_ok(out);
 *   }
 *   RHO_GUEST(RHO_TOOL(greet, "Greets somebody.", RHO_ARGUMENTS(RHO_TEXT_ARG("name", "Whom to greet.", RHO_OPTIONAL))))
 *
 * Memory is never freed: the host drops the whole instance after the call. What cannot go on (no memory, a misuse of
 * the writer) writes a line to the call's log and traps; the host tells them apart and names the functions on the way.
 * Every file of a guest may include this; one of them, and only one, ends in RHO_GUEST or RHO_TOOLS.
 */
#ifndef RHO_H
#define RHO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#if !defined __cplusplus && (!defined __STDC_VERSION__ || __STDC_VERSION__ < 202311L)
#undef true /* before C23 they were of type int, and rho_pair tells types apart */
#undef false
#define true ((bool)1)
#define false ((bool)0)
#endif

#define RHO_MAX_DEPTH 64 /* nesting of plain data that the host sends and takes */
#define RHO_SHARED __attribute__((weak)) /* one for all files of a guest, as in C++ inline is */
#ifdef __cplusplus
#pragma GCC system_header /* C++ warns of good C */
#define RHO_C extern "C"
#define RHO_NOTHROW noexcept
#else
#define RHO_C extern
#define RHO_NOTHROW
#endif

/* ---- what C cannot say: instructions, imports and exports ---- */
#ifdef __TINYC__
/* TinyCC knows imports by names with a dot, and no instructions: the build puts them in the place of "rho_build". It
 * exports by name what an SDK exports. */
#define RHO_IMPORT(name) __asm__("rho." name)
#define RHO_EXPORT(name)
#define RHO_API static inline /* or it would write down what nobody calls */
size_t rho__pages(void) __asm__("rho_build.memory_size");
size_t rho__more_pages(size_t pages) __asm__("rho_build.memory_grow");
void rho__copy(void *to, const void *from, size_t size) __asm__("rho_build.memory_copy");
void rho__fill(void *to, int byte, size_t size) __asm__("rho_build.memory_fill");
void rho__trap(void) __asm__("rho_build.unreachable");
double __builtin_sqrt(double number) __asm__("rho_build.sqrt");
double __builtin_floor(double number) __asm__("rho_build.floor");
double __builtin_ceil(double number) __asm__("rho_build.ceil");
double __builtin_trunc(double number) __asm__("rho_build.trunc");
double __builtin_fabs(double number) __asm__("rho_build.fabs");
int __builtin_clz(unsigned number) __asm__("rho_build.clz");
int __builtin_ctz(unsigned number) __asm__("rho_build.ctz");
int __builtin_popcount(unsigned number) __asm__("rho_build.popcount");
#else
#define RHO_IMPORT(name) __attribute__((import_module("rho"), import_name(name)))
#define RHO_EXPORT(name) __attribute__((export_name(name), used))
#define RHO_API static __attribute__((unused))
/* With bulk memory on, these built-ins are single instructions, not calls. */
#define rho__pages() ((size_t)__builtin_wasm_memory_size(0))
#define rho__more_pages(pages) __builtin_wasm_memory_grow(0, pages)
#define rho__copy(to, from, size) ((void)__builtin_memmove(to, from, size))
#define rho__fill(to, byte, size) ((void)__builtin_memset(to, byte, size))
#define rho__trap() __builtin_trap()
#endif

typedef struct { const char *data; size_t size; } rho_str; /* text (UTF-8) or bytes; no zero at the end */
typedef struct { const uint8_t *at, *end; } rho_value;     /* one item of a message that was checked as a whole */
typedef enum { RHO_INT, RHO_BYTES, RHO_TEXT, RHO_ARRAY, RHO_MAP, RHO_BOOL, RHO_NULL, RHO_FLOAT } rho_kind;
enum { RHO_DEBUG = 10, RHO_INFO = 20, RHO_WARNING = 30, RHO_ERROR = 40 };

RHO_API int rho__compare(const void *left, const void *right, size_t size) {
    const uint8_t *a = (const uint8_t *)left, *b = (const uint8_t *)right;
    for (; size > 0; size--, a++, b++) if (*a != *b) return *a - *b;
    return 0;
}
RHO_API size_t rho__length(const char *text) {
    const volatile char *at = text; /* volatile: or the loop may be recognised and become a call of strlen */
    while (*at) at++;
    return (size_t)((const char *)at - text);
}

/* ---- the few functions that a compiler expects to find; with a C library define RHO_HAS_LIBC ---- */
#ifdef RHO_HAS_LIBC
#include <string.h>
#else
RHO_C RHO_SHARED void *memcpy(void *__restrict to, const void *__restrict from, size_t size) RHO_NOTHROW {
    rho__copy(to, from, size);
    return to;
}
RHO_C RHO_SHARED void *memmove(void *to, const void *from, size_t size) RHO_NOTHROW {
    rho__copy(to, from, size);
    return to;
}
RHO_C RHO_SHARED void *memset(void *to, int byte, size_t size) RHO_NOTHROW {
    rho__fill(to, byte, size);
    return to;
}
RHO_C RHO_SHARED int memcmp(const void *left, const void *right, size_t size) RHO_NOTHROW {
    return rho__compare(left, right, size);
}
RHO_C RHO_SHARED size_t strlen(const char *text) RHO_NOTHROW { return rho__length(text); }
#endif

RHO_API rho_str rho_str_of(const char *text) { return (rho_str){text, rho__length(text)}; }
RHO_API bool rho_str_equal(rho_str a, rho_str b) { return a.size == b.size && rho__compare(a.data, b.data, a.size) == 0; }

/* ---- log ---- */
RHO_C void rho__log(int32_t level, const void *text, size_t size) RHO_IMPORT("log");
RHO_API void rho_log_str(int level, rho_str text) { rho__log(level, text.data, text.size); }
RHO_API void rho_log(int level, const char *text) { rho_log_str(level, rho_str_of(text)); }
__attribute__((noinline, noreturn, unused)) static void rho_panic(const char *why) {
    rho_log(RHO_ERROR, why);
    rho__trap();
}

/* ---- memory: grows, is zeroed, is never given back ---- */
RHO_C uint8_t __heap_base; /* the linker puts it where the program's own data ends */
RHO_SHARED uintptr_t rho__top;
#define RHO_PAGE 65536u

/* Moves the end of the used memory to `end`; false where the host gives no more. */
RHO_API bool rho__reach(uint64_t end) {
    uint64_t have = (uint64_t)rho__pages() * RHO_PAGE;
    if (end > UINT32_MAX) return false;
    size_t pages = end > have ? (size_t)((end - have + RHO_PAGE - 1) / RHO_PAGE) : 0;
    if (pages > 0 && rho__more_pages(pages) == SIZE_MAX) return false;
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
    uint64_t size = (uint64_t)count * item_size;
    void *room = size > SIZE_MAX ? NULL : rho_try_new((size_t)size);
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
/* An open map or array. `last` is the greatest key so far: a host sends the keys of a map in order. */
typedef struct { uint64_t left; bool map; const uint8_t *first; rho_str last; } rho__nest;
RHO_API bool rho__skip(rho_value *value, bool check);

/* Whether no key of the map before `here` is the same. Of keys in order, which is shorter ones first, only the last is
 * looked at. */
RHO_API bool rho__is_new_key(rho__nest *nest, rho_str key, const uint8_t *here) {
    rho_str last = nest->last;
    int order = key.size == last.size ? rho__compare(key.data, last.data, key.size) : key.size > last.size ? 1 : -1;
    if (order > 0 || last.data == NULL) {
        nest->last = key;
        return true;
    }
    for (rho_value rest = {nest->first, here}; rest.at < here; rho__skip(&rest, false)) {
        rho__head head;
        if (!rho__read_head(&rest, &head)) return false;
        if (rho_str_equal(key, (rho_str){(const char *)rest.at, (size_t)head.number})) return false;
        rest.at += head.number;
    }
    return true;
}
/* Moves past one item; false, and `value` is then useless, where it is cut short. With `check` false too for all that
 * is not plain; without, the item was checked before. No recursion, so that nesting costs no stack. */
RHO_API bool rho__skip(rho_value *value, bool check) {
    rho__nest nests[RHO_MAX_DEPTH + 1];
    int level = 0;
    nests[0].left = 1;
    nests[0].map = false;
    for (;;) {
        while (nests[level].left == 0)
            if (level-- == 0) return true;
        rho__nest *nest = &nests[level];
        const uint8_t *here = value->at;
        rho__head head;
        bool key = nest->map && nest->left % 2 == 0;
        if (!rho__read_head(value, &head) || (key && head.major != 3)) return false;
        nest->left--;
        size_t left = (size_t)(value->end - value->at);
        switch (head.major) {
        case 0: case 1: break;
        case 2: case 3:
            if (head.number > left) return false;
            if (check && head.major == 3 && !rho__utf8(value->at, value->at + head.number)) return false;
            if (check && key) {
                rho_str text = {(const char *)value->at, (size_t)head.number};
                if (!rho__is_new_key(nest, text, here)) return false;
            }
            value->at += head.number;
            break;
        case 4: case 5:
            /* Each item takes a byte at least, so a length over what is left is a lie. */
            if (head.number > left || level >= RHO_MAX_DEPTH) return false;
            nest = &nests[++level];
            nest->map = head.major == 5;
            nest->left = nest->map ? head.number * 2 : head.number;
            nest->first = value->at;
            nest->last = (rho_str){NULL, 0};
            break;
        case 7:
            if (head.info < 20 || head.info > 27 || head.info == 23 || head.info == 24) return false;
            break;
        default: return false; /* tags */
        }
    }
}
RHO_API bool rho_well_formed(const void *data, size_t size, rho_value *out) {
    rho_value rest = {(const uint8_t *)data, (const uint8_t *)data + size};
    *out = rest;
    return rho__skip(&rest, true) && rest.at == rest.end;
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
/* For the integers below -2^63, which no type of C holds: the value is -1 - `out`. */
RHO_API bool rho_as_negative(rho_value value, uint64_t *out) {
    rho__head head = rho__head_of(&value);
    if (head.major == 1) *out = head.number;
    return head.major == 1;
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
    union { uint64_t bits; double number; } wide;
    union { uint32_t bits; float number; } narrow;
    wide.bits = head.number;
    narrow.bits = (uint32_t)head.number;
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
RHO_API int rho__six_bits(char of) {
    if (of >= 'A' && of <= 'Z') return of - 'A';
    if (of >= 'a' && of <= 'z') return of - 'a' + 26;
    if (of >= '0' && of <= '9') return of - '0' + 52;
    return of == '+' || of == '-' ? 62 : of == '/' || of == '_' ? 63 : -1;
}
/* Bytes as they are; JSON has none, so there they are base64, in either alphabet, padded or not. */
RHO_API bool rho_to_bytes(rho_value value, rho_str *out) {
    rho_str text;
    if (!rho_as_text(value, &text)) return rho_as_bytes(value, out);
    size_t size = text.size, made = 0;
    while (size > 0 && text.data[size - 1] == '=') size--;
    if (size % 4 == 1 || text.size - size > (4 - size % 4) % 4) return false; /* padding fills up four, no more */
    uint8_t *bytes = RHO_NEW(uint8_t, size / 4 * 3 + 2);
    uint32_t bits = 0;
    for (size_t at = 0; at < size; at++) {
        int six = rho__six_bits(text.data[at]);
        if (six < 0) return false;
        bits = bits << 6 | (uint32_t)six;
        if (at % 4 > 0) bytes[made++] = (uint8_t)(bits >> (6 - 2 * (at % 4)));
    }
    *out = (rho_str){(const char *)bytes, made};
    return true;
}

/* Items of an array, or pairs of a map, in their order; of any other value none. */
typedef struct { rho_value rest; uint64_t left; } rho_items;
RHO_API size_t rho_count(rho_value value) {
    rho__head head = rho__head_of(&value);
    return head.major == 4 || head.major == 5 ? (size_t)head.number : 0;
}
RHO_API rho_value rho__take(rho_items *items) {
    rho_value item = items->rest;
    if (!rho__skip(&items->rest, false)) rho_panic("read past the end of a value");
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
 * rho_int_or(map, "key", 5). Bytes are a rho_str, and may be given as base64 text. */
#define RHO__GETTER(name, type, read) \
    RHO_API bool rho_get_##name(rho_value map, const char *key, type *out) { \
        rho_value item; \
        return rho_get(map, key, &item) && read(item, out); \
    } \
    RHO_API type rho_##name##_or(rho_value map, const char *key, type otherwise) { \
        (void)rho_get_##name(map, key, &otherwise); \
        return otherwise; \
    }
RHO__GETTER(int, int64_t, rho_as_int)
RHO__GETTER(uint, uint64_t, rho_as_uint)
RHO__GETTER(float, double, rho_as_float)
RHO__GETTER(bool, bool, rho_as_bool)
RHO__GETTER(text, rho_str, rho_as_text)
RHO__GETTER(bytes, rho_str, rho_to_bytes)
/* Whether a map has that text there: rho_text_is(reply, "kind", "quota"). */
RHO_API bool rho_text_is(rho_value map, const char *key, const char *text) {
    rho_str found;
    return rho_get_text(map, key, &found) && rho_str_equal(found, rho_str_of(text));
}
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
            uint8_t *data = (uint8_t *)rho_new((size_t)room, 1);
            if (out->size > 0) rho__copy(data, out->data, out->size);
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
    rho__copy(rho__room(out, head_size), head, head_size);
    if (size > 0) rho__copy(rho__room(out, size), data, size);
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
/* -1 - `number`. */
RHO_API void rho_put_negative(rho_out *out, uint64_t number) { rho__value(out), rho__put(out, 1, number, NULL, 0); }
RHO_API void rho_put_float(rho_out *out, double number) {
    union { double number; uint64_t bits; } wide;
    wide.number = number;
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
    if (!rho__skip(&rest, false)) rho_panic("read past the end of a value");
    rho__value(out);
    size_t size = (size_t)(rest.at - value.at);
    rho__copy(rho__room(out, size), value.at, size);
}
RHO_API void rho__open(rho_out *out, bool map) {
    if (out->depth >= RHO_MAX_DEPTH) rho_panic("nested too deeply");
    rho__value(out);
    out->open[out->depth++] = (rho__level){out->size, 0, map, false};
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
    rho__copy(at + size, at + 1, out->size - level->head - size);
    rho__copy(at, head, size);
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

/* ---- a whole map in one expression: rho_map_of(rho_pair("city", city), rho_pair("days", 3)) ---- */
typedef struct { const char *key; int major; uint64_t number; const void *data; size_t size; } rho__pair;
#define RHO__ENCODED 8 /* no major type: `data` is a value as it is sent */
RHO_API rho__pair rho__pair_int(const char *key, int64_t number) {
    return (rho__pair){key, number < 0, (uint64_t)(number < 0 ? -1 - number : number), NULL, 0};
}
RHO_API rho__pair rho__pair_uint(const char *key, uint64_t number) { return (rho__pair){key, 0, number, NULL, 0}; }
RHO_API rho__pair rho__pair_bool(const char *key, bool yes) { return (rho__pair){key, 7, yes ? 21 : 20, NULL, 0}; }
RHO_API rho__pair rho__pair_null(const char *key, const void *null) {
    if (null != NULL) rho_panic("rho_pair takes a text, a number, a bool, NULL, a rho_value or a rho_out");
    return (rho__pair){key, 7, 22, NULL, 0};
}
RHO_API rho__pair rho__pair_str(const char *key, rho_str text) {
    return (rho__pair){key, 3, text.size, text.data, text.size};
}
RHO_API rho__pair rho__pair_text(const char *key, const char *text) { return rho__pair_str(key, rho_str_of(text)); }
RHO_API rho__pair rho__pair_value(const char *key, rho_value value) {
    rho_value rest = value;
    if (!rho__skip(&rest, false)) rho_panic("read past the end of a value");
    return (rho__pair){key, RHO__ENCODED, 0, value.at, (size_t)(rest.at - value.at)};
}
RHO_API rho__pair rho__pair_out(const char *key, const rho_out *out) {
    if (out->depth != 0 || out->size == 0) rho_panic("a value that is empty, or has an rho_end missing");
    return (rho__pair){key, RHO__ENCODED, 0, out->data, out->size};
}
RHO_API rho__pair rho__pair_float(const char *key, double number) {
    rho_out *out = rho_new_out();
    rho_put_float(out, number);
    return rho__pair_out(key, out);
}
RHO_API rho_out *rho__map_of(const rho__pair *pairs, size_t size) {
    rho_out *out = rho_new_out();
    rho_put_map(out);
    for (const rho__pair *end = pairs + size / sizeof *pairs; pairs < end; pairs++) {
        rho_put_key(out, pairs->key);
        if (pairs->major == RHO__ENCODED)
            rho_put_value(out, (rho_value){(const uint8_t *)pairs->data, (const uint8_t *)pairs->data + pairs->size});
        else rho__value(out), rho__put(out, pairs->major, pairs->number, pairs->data, pairs->size);
    }
    rho_end(out);
    return out;
}
/* A key and any value: a text, a rho_str, a number, a bool, NULL, a rho_value, a rho_out. */
#define rho_pair(key, value) \
    _Generic((value), bool: rho__pair_bool, float: rho__pair_float, double: rho__pair_float, \
        signed char: rho__pair_int, short: rho__pair_int, int: rho__pair_int, long: rho__pair_int, \
        long long: rho__pair_int, unsigned char: rho__pair_uint, unsigned short: rho__pair_uint, \
        unsigned: rho__pair_uint, unsigned long: rho__pair_uint, unsigned long long: rho__pair_uint, \
        char *: rho__pair_text, const char *: rho__pair_text, rho_str: rho__pair_str, rho_value: rho__pair_value, \
        rho_out *: rho__pair_out, const rho_out *: rho__pair_out, void *: rho__pair_null)(key, value)
#define rho_map_of(...) rho__map_of((const rho__pair[]){__VA_ARGS__}, sizeof(rho__pair[]){__VA_ARGS__})

/* ---- texts put together: rho_str_join(city, rho_str_of(": "), rho_str_of_int(degrees)) ---- */
RHO_API rho_str rho_str_of_int(int64_t number) {
    char *digits = RHO_NEW(char, 20);
    size_t at = 20;
    uint64_t left = number < 0 ? (uint64_t)(-1 - number) + 1 : (uint64_t)number;
    do digits[--at] = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (number < 0) digits[--at] = '-';
    return (rho_str){digits + at, 20 - at};
}
RHO_API rho_str rho__str_join(const rho_str *parts, size_t parts_size) {
    const rho_str *end = parts + parts_size / sizeof *parts;
    size_t size = 0;
    for (const rho_str *part = parts; part < end; part++) size += part->size;
    char *text = RHO_NEW(char, size), *at = text;
    for (; parts < end; at += parts++->size) rho__copy(at, parts->data, parts->size);
    return (rho_str){text, size};
}
#define rho_str_join(...) rho__str_join((const rho_str[]){__VA_ARGS__}, sizeof(rho_str[]){__VA_ARGS__})
/* For a part of a URL, as the value in a query: all but A-Z a-z 0-9 - . _ ~ is percent-encoded (RFC 3986, 2.1). */
RHO_API rho_str rho_url_part(rho_str text) {
    if (text.size > SIZE_MAX / 3) rho_panic("no memory left");
    char *made = RHO_NEW(char, text.size * 3), *to = made;
    for (size_t n = 0; n < text.size; n++) {
        uint8_t c = (uint8_t)text.data[n], low = c | 0x20;
        bool plain = (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
        if (plain) *to++ = (char)c;
        else *to++ = '%', *to++ = "0123456789ABCDEF"[c >> 4], *to++ = "0123456789ABCDEF"[c & 15];
    }
    return (rho_str){made, (size_t)(to - made)};
}

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
RHO_API rho_answer rho_ok_str(rho_str text) { return (rho_answer){.shape = RHO_OK, .text = text}; }
RHO_API rho_answer rho_ok_text(const char *text) { return (rho_answer){.shape = RHO_OK, .text = rho_str_of(text)}; }
/* The tool reports that it could not do what was asked: say what the model should do. No crash, no strike. */
RHO_API rho_answer rho_failed_str(rho_str reason) { return (rho_answer){.shape = RHO_FAILED, .text = reason}; }
RHO_API rho_answer rho_failed(const char *reason) {
    return (rho_answer){.shape = RHO_FAILED, .text = rho_str_of(reason)};
}
RHO_API rho_answer rho_failed_with(const rho_out *reason) { return (rho_answer){.shape = RHO_FAILED, .value = reason}; }
/* The tool itself is at fault: counts as a crash. */
RHO_API rho_answer rho_raised(const char *message) {
    return (rho_answer){.shape = RHO_RAISED, .text = rho_str_of(message)};
}
/* The same, and what it is called and where it came from: NULL, or texts that end with NULL. */
RHO_API rho_answer rho_raised_with(const char *message, const char *type, const char *const *trace) {
    rho_out *out = rho_new_out();
    rho_put_map(out);
    rho_set_text(out, "message", message);
    if (type != NULL) rho_set_text(out, "type", type);
    if (trace != NULL) {
        rho_put_key(out, "trace"), rho_put_array(out);
        for (; *trace != NULL; trace++) rho_put_text(out, *trace);
        rho_end(out);
    }
    rho_end(out);
    return (rho_answer){.shape = RHO_RAISED, .value = out};
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
    if (answer.shape == RHO_RAISED && answer.value == NULL)
        rho_put_map(out), rho_set_str(out, "message", answer.text), rho_end(out);
    else if (answer.shape <= RHO_RAISED && answer.value != NULL) rho__put_out(out, answer.value);
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
RHO_C int32_t rho__host_call(const void *request, size_t size) RHO_IMPORT("host_call");
RHO_C int32_t rho__host_take(void *reply, size_t size) RHO_IMPORT("host_take");
/* True: `reply` is the answer. False: `reply` is a map of "kind" (denied, undeclared, invalid_arguments, quota,
 * unavailable) and "message". `arguments` is a map, or NULL for an empty one.
 *     if (!rho_host_call("kv.get", rho_map_of(rho_pair("key", "count")), &reply)) return rho_refused("kv.get", reply); */
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
    rho_str kind, message;
    whole_reply = whole_reply && rho_kind_of(whole) == RHO_MAP && rho_count(whole) == 1;
    if (whole_reply && rho_get(whole, "ok", reply)) return true;
    if (!whole_reply || !rho_get(whole, "error", reply) || !rho_get_text(*reply, "kind", &kind) ||
        !rho_get_text(*reply, "message", &message))
        rho_panic("a malformed reply of the host");
    return false;
}
/* The tool could not do what was asked because the host refused: "kv.get: denied: ...". */
RHO_API rho_answer rho_refused(const char *capability, rho_value error) {
    rho_str between = rho_str_of(": "), none = rho_str_of("");
    return rho_failed_str(rho_str_join(rho_str_of(capability), between, rho_text_or(error, "kind", none), between,
                                       rho_text_or(error, "message", none)));
}

/* ---- JSON, for what is easier to write than to put together; single quotes do as well as double ones ---- */
/* The text that is read, and where it stands in a declaration: the tool, the part of it, and that one's name or number. */
typedef struct { const char *text, *tool, *part, *name; size_t number; } rho__json_place;
RHO_SHARED rho__json_place rho__json;
RHO_API void rho__json_in(const char *tool, const char *part, const char *name, size_t number) {
    rho__json = (rho__json_place){NULL, tool, part, name, number};
}
RHO_API void rho__say(rho_out *line, const char *text, size_t size) { rho__copy(rho__room(line, size), text, size); }
RHO_API void rho__say_text(rho_out *line, const char *text) { rho__say(line, text, rho__length(text)); }
RHO_API void rho__say_number(rho_out *line, size_t number) {
    char digits[20];
    size_t at = sizeof digits;
    do digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    rho__say(line, digits + at, sizeof digits - at);
}
/* Says what is wrong, where that is declared and at which byte of the text, the first being 1; and traps. */
__attribute__((noinline, noreturn, unused)) static void rho__json_wrong(const char *at, const char *why) {
    rho_out *line = rho_new_out();
    size_t shown = rho__length(at);
    if (rho__json.tool != NULL) {
        rho__say_text(line, rho__json.tool), rho__say_text(line, ", "), rho__say_text(line, rho__json.part);
        if (rho__json.name != NULL) rho__say_text(line, " "), rho__say_text(line, rho__json.name);
        if (rho__json.number > 0) rho__say_text(line, " "), rho__say_number(line, rho__json.number);
        rho__say_text(line, ": ");
    }
    rho__say_text(line, "JSON: "), rho__say_text(line, why), rho__say_text(line, ", at ");
    if (shown == 0) rho__say_text(line, "the end");
    else {
        rho__say_text(line, "byte "), rho__say_number(line, (size_t)(at - rho__json.text) + 1), rho__say_text(line, ": ");
        if (shown > 40) for (shown = 40; shown > 0 && (at[shown] & 0xC0) == 0x80;) shown--; /* no half a character */
        rho__say(line, at, shown);
    }
    rho_log_str(RHO_ERROR, (rho_str){(const char *)line->data, line->size});
    rho__trap();
}
RHO_API bool rho__json_is(const char **at, const char *word) {
    size_t size = rho__length(word);
    for (size_t n = 0; n < size; n++) if ((*at)[n] != word[n]) return false;
    *at += size;
    return true;
}
RHO_API void rho__json_space(const char **at) {
    while (**at == ' ' || (**at >= '\t' && **at <= '\r')) ++*at;
}
RHO_API rho_str rho__json_text(const char **at) {
    static const char escapes[] = "\"\"''\\\\//b\bf\fn\nr\rt\t";
    char quote = *(*at)++, *text = RHO_NEW(char, rho__length(*at) + 1);
    size_t size = 0;
    for (; **at != quote; ++*at) {
        char found = **at;
        if (found == '\\') {
            const char *escape = escapes;
            for (++*at; *escape != '\0' && *escape != **at;) escape += 2;
            found = *escape == '\0' ? '\0' : escape[1];
        }
        if (found == '\0') rho__json_wrong(*at, "a text without an end, or an escape that is not known: write the character");
        text[size++] = found;
    }
    ++*at;
    return (rho_str){text, size};
}
RHO_API void rho__json_number(rho_out *out, const char **at) {
    const char *start = *at;
    uint64_t digits = 0;
    int count = 0, scale = 0, exponent = 0;
    bool minus = rho__json_is(at, "-"), whole = true;
    for (; (**at >= '0' && **at <= '9') || (**at == '.' && whole); ++*at) {
        if (**at == '.') {
            whole = false;
            continue;
        }
        digits = digits * 10 + (uint64_t)(**at - '0');
        count += digits > 0;
        scale += !whole;
    }
    if (**at == 'e' || **at == 'E') {
        whole = false;
        ++*at;
        bool down = rho__json_is(at, "-");
        if (!down) (void)rho__json_is(at, "+");
        for (; **at >= '0' && **at <= '9' && exponent < 100; ++*at) exponent = exponent * 10 + **at - '0';
        if (down) exponent = -exponent;
    }
    exponent -= scale;
    if (count > (whole ? 18 : 15) || exponent > 22 || exponent < -22) rho__json_wrong(start, "a number with too many digits");
    if (whole) {
        rho_put_int(out, minus ? -(int64_t)digits : (int64_t)digits);
        return;
    }
    double number = (double)digits, power = 1; /* both are exact, so one rounding is left */
    for (int n = exponent < 0 ? -exponent : exponent; n > 0; n--) power *= 10;
    number = exponent < 0 ? number / power : number * power;
    rho_put_float(out, minus ? -number : number);
}
RHO_API void rho__json_value(rho_out *out, const char **at) {
    rho__json_space(at);
    if (**at == '{' || **at == '[') {
        bool map = *(*at)++ == '{', first = true;
        char close = map ? '}' : ']';
        if (map) rho_put_map(out);
        else rho_put_array(out);
        for (rho__json_space(at); **at != close; rho__json_space(at), first = false) {
            if (!first && !rho__json_is(at, ",")) rho__json_wrong(*at, "a comma or an end is missing");
            rho__json_space(at);
            if (map) {
                if (**at != '"' && **at != '\'') rho__json_wrong(*at, "a key is missing");
                rho_put_key_str(out, rho__json_text(at));
                rho__json_space(at);
                if (!rho__json_is(at, ":")) rho__json_wrong(*at, "a colon is missing");
            }
            rho__json_value(out, at);
        }
        ++*at;
        rho_end(out);
    } else if (**at == '"' || **at == '\'') rho_put_str(out, rho__json_text(at));
    else if (**at == '-' || (**at >= '0' && **at <= '9')) rho__json_number(out, at);
    else if (rho__json_is(at, "true")) rho_put_bool(out, true);
    else if (rho__json_is(at, "false")) rho_put_bool(out, false);
    else if (rho__json_is(at, "null")) rho_put_null(out);
    else rho__json_wrong(*at, "a value is missing");
}
/* One value. Whole numbers have at most 18 digits, others 15 and an exponent of at most 22. Traps where it is no JSON. */
RHO_API void rho_put_json(rho_out *out, const char *text) {
    rho__json.text = text;
    rho__json_value(out, &text);
    rho__json_space(&text);
    if (*text != '\0') rho__json_wrong(text, "something comes after the value");
}
RHO_API void rho_set_json(rho_out *out, const char *key, const char *text) {
    rho_put_key(out, key);
    rho_put_json(out, text);
}

/* ---- JSON from elsewhere (RFC 8259), which may be wrong ---- */
RHO_API bool rho__next_is(rho_str *rest, const char *word) {
    size_t size = rho__length(word);
    if (rest->size < size || rho__compare(rest->data, word, size) != 0) return false;
    rest->data += size;
    rest->size -= size;
    return true;
}
/* Whether that comes next, blanks aside. */
RHO_API bool rho__token_is(rho_str *rest, const char *token) {
    while (rest->size > 0 && (*rest->data == ' ' || *rest->data == '\t' || *rest->data == '\n' || *rest->data == '\r'))
        rest->data++, rest->size--;
    return rho__next_is(rest, token);
}
/* Past the digits that come; how many there were. */
RHO_API size_t rho__digits(rho_str *rest, uint64_t *number, bool *over) {
    size_t count = 0;
    for (; rest->size > 0 && *rest->data >= '0' && *rest->data <= '9'; rest->data++, rest->size--, count++) {
        uint64_t digit = (uint64_t)(*rest->data - '0');
        *over = *over || *number > (UINT64_MAX - digit) / 10;
        if (!*over) *number = *number * 10 + digit;
    }
    return count;
}
/* Rounded rightly up to 15 digits and exponents of 22, beyond that right to about 15 digits. */
RHO_API bool rho__read_number(rho_str *rest, rho_out *out) {
    uint64_t digits = 0, exponent = 0;
    bool minus = rho__next_is(rest, "-"), zero = rest->size > 0 && *rest->data == '0', over = false, far = false;
    const char *start = rest->data;
    size_t whole = rho__digits(rest, &digits, &over), fraction = 0;
    if (whole == 0 || (zero && whole > 1)) return false;
    if (rho__next_is(rest, ".") && (fraction = rho__digits(rest, &digits, &over)) == 0) return false;
    const char *end = rest->data;
    bool raised = rho__next_is(rest, "e") || rho__next_is(rest, "E"), down = raised && rho__next_is(rest, "-");
    if (raised && !down) (void)rho__next_is(rest, "+");
    if (raised && rho__digits(rest, &exponent, &far) == 0) return false;
    if (fraction == 0 && !raised && !over) {
        if (minus && digits > 0) rho_put_negative(out, digits - 1);
        else rho_put_uint(out, digits);
        return true;
    }
    double number = (double)digits;
    if (over) for (number = 0; start < end; start++) if (*start != '.') number = number * 10 + (*start - '0');
    int64_t scale = far || exponent > 100000 ? 100000 : (int64_t)exponent;
    scale = (down ? -scale : scale) - (int64_t)fraction;
    if (number > 0) {
        double power = 1;
        for (; scale < -22 && number > 0; scale += 22) number /= 1e22;
        for (; scale > 22 && number <= 0x1.fffffffffffffp1023; scale -= 22) number *= 1e22;
        for (int64_t n = scale < 0 ? -scale : scale; n > 0 && n <= 22; n--) power *= 10; /* exact */
        number = scale < 0 ? number / power : number * power;
    }
    rho_put_float(out, minus ? -number : number);
    return true;
}
/* The four hexadecimal digits there, or -1. */
RHO_API int32_t rho__hex(const char *at, const char *end) {
    int32_t unit = 0;
    if (end - at < 4) return -1;
    for (int n = 0; n < 4; n++, at++) {
        int low = *at | 0x20; /* a letter in lower case */
        if (*at >= '0' && *at <= '9') unit = unit << 4 | (*at - '0');
        else if (low >= 'a' && low <= 'f') unit = unit << 4 | (low - 'a' + 10);
        else return -1;
    }
    return unit;
}
/* Moves past "uXXXX", or two of them that are one character; half of such a pair becomes U+FFFD. */
RHO_API bool rho__read_unicode(const char **at, const char *end, char **to) {
    int32_t code = rho__hex(*at + 1, end), low = -1;
    if (code < 0) return false;
    *at += 5;
    if (code >= 0xD800 && code < 0xDC00 && end - *at >= 6 && **at == '\\' && (*at)[1] == 'u') low = rho__hex(*at + 2, end);
    if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        *at += 6;
    } else if (code >= 0xD800 && code < 0xE000) code = 0xFFFD;
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *(*to)++ = (char)(more == 0 ? code : code >> 6 * more | (0xF0 << (3 - more) & 0xFF));
    while (more-- > 0) *(*to)++ = (char)(0x80 | (code >> 6 * more & 0x3F));
    return true;
}
/* A text whose opening quote was read. */
RHO_API bool rho__read_text(rho_str *rest, rho_str *out) {
    const char *at = rest->data, *end = at + rest->size, *close = at;
    bool escaped = false;
    for (; close < end && *close != '"'; close++) {
        if ((uint8_t)*close < 0x20) return false;
        if (*close == '\\') escaped = true, close++;
    }
    if (close >= end) return false;
    *out = (rho_str){at, (size_t)(close - at)};
    *rest = (rho_str){close + 1, (size_t)(end - close - 1)};
    if (!escaped) return true;
    char *text = RHO_NEW(char, out->size), *to = text; /* no escape is shorter than what it means */
    while (at < close) {
        static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        if (*++at == 'u') {
            if (!rho__read_unicode(&at, close, &to)) return false;
            continue;
        }
        const char *escape = escapes;
        while (*escape != '\0' && *escape != *at) escape += 2;
        if (*escape == '\0') return false;
        *to++ = escape[1];
        at++;
    }
    *out = (rho_str){text, (size_t)(to - text)};
    return true;
}
RHO_API bool rho__read_json(rho_str *rest, rho_out *out) {
    rho_str text;
    bool map = rho__token_is(rest, "{");
    if (map || rho__next_is(rest, "[")) {
        const char *close = map ? "}" : "]";
        if (out->depth >= RHO_MAX_DEPTH) return false;
        rho__open(out, map);
        for (bool first = true; !rho__token_is(rest, close); first = false) {
            if (!first && !rho__next_is(rest, ",")) return false;
            if (map) {
                if (!rho__token_is(rest, "\"") || !rho__read_text(rest, &text)) return false;
                rho_put_key_str(out, text);
                if (!rho__token_is(rest, ":")) return false;
            }
            if (!rho__read_json(rest, out)) return false;
        }
        rho_end(out);
    } else if (rho__next_is(rest, "\"")) {
        if (!rho__read_text(rest, &text)) return false;
        rho_put_str(out, text);
    } else if (rho__next_is(rest, "true")) rho_put_bool(out, true);
    else if (rho__next_is(rest, "false")) rho_put_bool(out, false);
    else if (rho__next_is(rest, "null")) rho_put_null(out);
    else return rho__read_number(rest, out);
    return true;
}
/* Reads one value, with "double quotes" only. False for what is no JSON or no UTF-8, or is nested deeper than 64. Where
 * a key occurs twice, rho_get finds the first: look up what you need of it, and do not hand on the whole. */
RHO_API bool rho_read_json(rho_str text, rho_value *out) {
    rho_out *made = rho_new_out();
    const uint8_t *data = (const uint8_t *)text.data;
    if (!rho__utf8(data, data + text.size) || !rho__read_json(&text, made)) return false;
    (void)rho__token_is(&text, "");
    *out = (rho_value){made->data, made->data + made->size};
    return text.size == 0;
}

/* ---- the tools of this guest, and what they declare of themselves when it is built ---- */
typedef struct {
    const char *name;
    rho_answer (*handler)(rho_value arguments);
} rho_tool;
typedef struct {
    const char *name, *description, *type;
    bool optional, has_minimum, has_maximum;
    double minimum, maximum;    /* of a number, of the length of a text (of bytes: of their base64), of an array's items */
    const char *const *choices; /* texts that end with NULL */
    const char *items, *schema; /* JSON: the schema of an array's items; a schema in the place of all the rest */
    const char *encoding;       /* what bytes are in JSON, which has none */
} rho_argument;
typedef struct { const char *arguments, *answer; } rho_example; /* JSON: {"ok": ...}, {"error": ...} */
typedef struct { const char *arguments, *host, *answer; } rho_asking_example; /* `host`: [[host-request, host-reply], ...] */
typedef struct {
    rho_tool tool;
    const char *description;
    const rho_argument *arguments; /* the last has no name */
    const rho_example *examples;   /* the last has no arguments */
    const rho_asking_example *asking_examples; /* too */
    const char *const *capabilities; /* texts that end with NULL */
    const char *output_schema, *metadata; /* JSON */
    uint32_t timeout_ms;
    bool read_only, destructive, idempotent;
} rho_declared;

/* RHO_TOOL(function, "What a model reads.", ...), where ... may be any of: */
#define RHO_TOOL(function, ...) RHO_TOOL_AS(#function, function, __VA_ARGS__)
#define RHO_TOOL_AS(called, function, ...) {.tool = {called, function}, .description = __VA_ARGS__}
#define RHO_ARGUMENTS(...) .arguments = (const rho_argument[]){__VA_ARGS__, {.name = NULL}}
#define RHO_EXAMPLES(...) .examples = (const rho_example[]){__VA_ARGS__, {NULL, NULL}}
#define RHO_ASKING_EXAMPLES(...) .asking_examples = (const rho_asking_example[]){__VA_ARGS__, {NULL, NULL, NULL}}
#define RHO_CAPABILITIES(...) .capabilities = (const char *const[]){__VA_ARGS__, NULL}
#define RHO_OUTPUT_SCHEMA(json) .output_schema = (json)
#define RHO_METADATA(json) .metadata = (json)
#define RHO_TIMEOUT_MS(number) .timeout_ms = (number)
#define RHO_READ_ONLY .read_only = true
#define RHO_DESTRUCTIVE .destructive = true
#define RHO_IDEMPOTENT .idempotent = true
/* RHO_..._ARG("name", "What a model reads.", ...) */
#define RHO_TEXT_ARG(...) {.type = "string", .name = __VA_ARGS__}
#define RHO_BYTES_ARG(...) {.type = "string", .encoding = "base64", .name = __VA_ARGS__}
#define RHO_INT_ARG(...) {.type = "integer", .name = __VA_ARGS__}
#define RHO_FLOAT_ARG(...) {.type = "number", .name = __VA_ARGS__}
#define RHO_BOOL_ARG(...) {.type = "boolean", .name = __VA_ARGS__}
#define RHO_ARRAY_ARG(...) {.type = "array", .name = __VA_ARGS__}
#define RHO_MAP_ARG(...) {.type = "object", .name = __VA_ARGS__}
#define RHO_ANY_ARG(...) {.type = NULL, .name = __VA_ARGS__}
#define RHO_OPTIONAL .optional = true
#define RHO_MIN(number) .has_minimum = true, .minimum = (number)
#define RHO_MAX(number) .has_maximum = true, .maximum = (number)
#define RHO_CHOICES(...) .choices = (const char *const[]){__VA_ARGS__, NULL}
#define RHO_ITEMS(json) .items = (json)
#define RHO_SCHEMA(json) .schema = (json)

static const uint8_t rho__empty_map[] = {0xA0};
RHO_SHARED rho_value rho__context;
/* The call's context, a map: "call_id", "values" and what else the host gives. */
RHO_API rho_value rho_context(void) {
    if (rho__context.at == NULL) rho__context = (rho_value){rho__empty_map, rho__empty_map + 1};
    return rho__context;
}

/* Each of the `count` tools begins with a rho_tool and has `stride` bytes. */
RHO_API rho_answer rho__dispatch(const void *tools, size_t count, size_t stride, const void *request, size_t size) {
    rho_value whole, arguments;
    rho_str name;
    if (!rho_well_formed(request, size, &whole)) return rho_raised("the request is not plain CBOR");
    if (rho_int_or(whole, "abi", 0) != 1) return rho_raised("the request is not of ABI 1");
    if (!rho_get_text(whole, "tool", &name)) return rho_raised("the request names no tool");
    if (!rho_get(whole, "arguments", &arguments) || rho_kind_of(arguments) != RHO_MAP)
        return rho_raised("the request has no arguments");
    (void)rho_get(whole, "context", &rho__context);
    for (size_t at = 0; at < count; at++) {
        const rho_tool *tool = (const rho_tool *)(const void *)((const char *)tools + at * stride);
        if (rho_str_equal(name, rho_str_of(tool->name))) return tool->handler(arguments);
    }
    return rho_raised("this guest has no tool of that name: its manifest and its table of tools differ");
}
RHO_API uint64_t rho__packed(const rho_out *out) { return (uint64_t)(uintptr_t)out->data << 32 | out->size; }
RHO_API uint64_t rho__answer_call(const void *tools, size_t count, size_t stride, const void *request, size_t size) {
    rho_out *out = rho_new_out();
    rho__put_answer(out, rho__dispatch(tools, count, stride, request, size));
    return rho__packed(out);
}

RHO_API void rho__set_bound(rho_out *out, const rho_argument *argument, bool low, double bound) {
    static const char *const names[] = {"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"};
    const char *type = argument->type == NULL ? "" : argument->type;
    int kind = *type == 's' ? 2 : *type == 'a' ? 4 : 0;
    rho_put_key(out, names[kind + !low]);
    if (*type == 'n') rho_put_float(out, bound);
    else rho_put_int(out, (int64_t)bound);
}
RHO_API void rho__put_argument(rho_out *out, const rho_argument *argument) {
    if (argument->schema != NULL) {
        rho_put_json(out, argument->schema);
        return;
    }
    rho_put_map(out);
    if (argument->type != NULL) rho_set_text(out, "type", argument->type);
    if (argument->encoding != NULL) rho_set_text(out, "contentEncoding", argument->encoding);
    rho_set_text(out, "description", argument->description == NULL ? "" : argument->description);
    if (argument->has_minimum) rho__set_bound(out, argument, true, argument->minimum);
    if (argument->has_maximum) rho__set_bound(out, argument, false, argument->maximum);
    if (argument->choices != NULL) {
        rho_put_key(out, "enum"), rho_put_array(out);
        for (const char *const *choice = argument->choices; *choice != NULL; choice++) rho_put_text(out, *choice);
        rho_end(out);
    }
    if (argument->items != NULL) rho_set_json(out, "items", argument->items);
    rho_end(out);
}
RHO_API void rho__put_input_schema(rho_out *out, const char *tool, const rho_argument *arguments) {
    size_t needed = 0;
    rho_put_map(out);
    rho_set_text(out, "type", "object");
    rho_put_key(out, "properties"), rho_put_map(out);
    for (const rho_argument *each = arguments; each != NULL && each->name != NULL; each++) {
        rho_put_key(out, each->name);
        rho__json_in(tool, "argument", each->name, 0);
        rho__put_argument(out, each);
        needed += !each->optional;
    }
    rho_end(out);
    if (needed > 0) {
        rho_put_key(out, "required"), rho_put_array(out);
        for (const rho_argument *each = arguments; each->name != NULL; each++)
            if (!each->optional) rho_put_text(out, each->name);
        rho_end(out);
    }
    rho_set_bool(out, "additionalProperties", false);
    rho_end(out);
}
/* `part` is of the tool; JSON that is NULL was not said. */
RHO_API void rho__set_part(rho_out *out, const char *tool, const char *part, const char *json) {
    if (json == NULL) return;
    rho__json_in(tool, part, NULL, 0);
    rho_set_json(out, part, json);
}
RHO_API void rho__put_example(rho_out *out, const char *tool, size_t number, rho_asking_example example) {
    rho_put_map(out);
    rho__json_in(tool, "arguments of example", NULL, number);
    rho_set_json(out, "arguments", example.arguments);
    if (example.host != NULL) {
        rho__json_in(tool, "host calls of example", NULL, number);
        rho_set_json(out, "host", example.host);
    }
    rho__json_in(tool, "answer of example", NULL, number);
    rho_set_json(out, "answer", example.answer);
    rho_end(out);
}
RHO_API void rho__put_tool(rho_out *out, const rho_declared *tool) {
    const char *name = tool->tool.name;
    rho_put_map(out);
    rho_set_text(out, "name", name);
    rho_set_text(out, "description", tool->description);
    rho_put_key(out, "input_schema"), rho__put_input_schema(out, name, tool->arguments);
    rho__set_part(out, name, "output_schema", tool->output_schema);
    rho__set_part(out, name, "metadata", tool->metadata);
    if (tool->timeout_ms > 0) rho_set_uint(out, "timeout_ms", tool->timeout_ms);
    if (tool->read_only) rho_set_bool(out, "read_only", true);
    if (tool->destructive) rho_set_bool(out, "destructive", true);
    if (tool->idempotent) rho_set_bool(out, "idempotent", true);
    if (tool->examples != NULL || tool->asking_examples != NULL) {
        size_t number = 0;
        rho_put_key(out, "examples"), rho_put_array(out);
        for (const rho_example *each = tool->examples; each != NULL && each->arguments != NULL; each++)
            rho__put_example(out, name, ++number, (rho_asking_example){each->arguments, NULL, each->answer});
        for (const rho_asking_example *each = tool->asking_examples; each != NULL && each->arguments != NULL; each++)
            rho__put_example(out, name, ++number, *each);
        rho_end(out);
    }
    rho_end(out);
}
/* What all tools together may ask the host for, each once. */
RHO_API void rho__put_capabilities(rho_out *out, const rho_declared *tools, size_t count) {
    rho_put_array(out);
    for (size_t at = 0; at < count; at++)
        for (const char *const *each = tools[at].capabilities; each != NULL && *each != NULL; each++) {
            bool known = false;
            for (size_t before = 0; before < at && !known; before++)
                for (const char *const *old = tools[before].capabilities; old != NULL && *old != NULL; old++)
                    known = known || rho_str_equal(rho_str_of(*old), rho_str_of(*each));
            if (!known) rho_put_text(out, *each);
        }
    rho_end(out);
}
RHO_API uint64_t rho__declare(const rho_declared *tools, size_t count) {
    rho_out *out = rho_new_out();
    rho_put_map(out);
    rho_put_key(out, "tools"), rho_put_array(out);
    for (size_t at = 0; at < count; at++) rho__put_tool(out, &tools[at]);
    rho_end(out);
    rho_put_key(out, "capabilities"), rho__put_capabilities(out, tools, count);
    rho_end(out);
    return rho__packed(out);
}

#define RHO__EXPORTS(tools) \
    RHO_C void *rho_alloc(size_t size) RHO_EXPORT("rho_alloc"); \
    RHO_C uint64_t rho_call(const void *request, size_t size) RHO_EXPORT("rho_call"); \
    void *rho_alloc(size_t size) { return rho_try_new(size); } \
    uint64_t rho_call(const void *request, size_t size) { \
        return rho__answer_call(tools, sizeof tools / sizeof *tools, sizeof *tools, request, size); \
    }
/* RHO_GUEST(RHO_TOOL(...), ...), once, at the end of a file: the manifest is made of it. */
#define RHO_GUEST(...) \
    static const rho_declared rho__tools[] = {__VA_ARGS__}; \
    RHO__EXPORTS(rho__tools) \
    RHO_C uint64_t rho_manifest(void) RHO_EXPORT("rho_manifest"); \
    uint64_t rho_manifest(void) { return rho__declare(rho__tools, sizeof rho__tools / sizeof *rho__tools); }
/* RHO_TOOLS({"name", handler}, ...), in its place: the manifest is then a file beside the source. */
#define RHO_TOOLS(...) \
    static const rho_tool rho__tools[] = {__VA_ARGS__}; \
    RHO__EXPORTS(rho__tools)

#endif
