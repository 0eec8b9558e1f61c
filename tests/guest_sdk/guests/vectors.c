/* The vector guest in C: what all SDKs are asked alike (tests/guest_sdk/vectors_guests.py). */
#include "rho.h"

/* Reads a value into what C has for it and writes that again. */
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
        else if (rho_as_negative(value, &large)) rho_put_negative(out, large);
        break;
    case RHO_FLOAT:
        if (rho_as_float(value, &number)) rho_put_float(out, number);
        break;
    case RHO_BOOL:
        if (rho_as_bool(value, &yes)) rho_put_bool(out, yes);
        break;
    case RHO_NULL: rho_put_null(out); break;
    case RHO_TEXT:
        if (rho_as_text(value, &string)) rho_put_str(out, string);
        break;
    case RHO_BYTES:
        if (rho_as_bytes(value, &string)) rho_put_bytes(out, string.data, string.size);
        break;
    case RHO_ARRAY:
        rho_put_array(out);
        for (items = rho_items_of(value); rho_next(&items, &item);) rebuild(out, item);
        rho_end(out);
        break;
    case RHO_MAP:
        rho_put_map(out);
        for (items = rho_pairs_of(value); rho_next_pair(&items, &string, &item);) {
            rho_put_key_str(out, string);
            rebuild(out, item);
        }
        rho_end(out);
        break;
    }
}

static rho_answer echo(rho_value arguments) {
    rho_value value;
    rho_out *out = rho_new_out();
    if (!rho_get(arguments, "value", &value)) return rho_failed("value is missing");
    rebuild(out, value);
    return rho_ok(out);
}

static rho_out *number(int64_t value) {
    rho_out *out = rho_new_out();
    rho_put_int(out, value);
    return out;
}

static rho_out *pair(const char *key, int64_t value) {
    rho_out *out = rho_new_out();
    rho_put_map(out);
    rho_set_int(out, key, value);
    rho_end(out);
    return out;
}

static rho_answer answer(rho_value arguments) {
    static const uint8_t png[] = {0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A};
    static const char *const trace[] = {"line 1", NULL};
    rho_str shape = rho_text_or(arguments, "shape", rho_str_of(""));
#define IS(name) rho_str_equal(shape, rho_str_of(name))
    if (IS("ok")) return rho_ok(number(42));
    if (IS("ok_images")) return rho_with_image(rho_ok(number(42)), "image/png", png, sizeof png);
    if (IS("ok_details")) return rho_with_details(rho_ok(number(42)), pair("n", 1));
    if (IS("failed")) return rho_failed("no such user");
    if (IS("failed_details")) return rho_with_details(rho_failed("no such user"), pair("n", 1));
    if (IS("raised")) return rho_raised_with("broken", "Broken", trace);
    if (IS("ask")) return rho_ask_user("which one?", NULL);
    if (IS("ask_options")) return rho_ask_user("which one?", pair("a", 1));
    if (IS("halt")) return rho_halt("done", number(7));
    return rho_failed("no such shape");
}

static rho_answer ask_host(rho_value arguments) {
    rho_str name = rho_text_or(arguments, "capability", rho_str_of(""));
    rho_value asked, reply;
    char *capability = rho_new(name.size + 1, 1);
    memcpy(capability, name.data, name.size);
    rho_out *sent = rho_new_out(), *out = rho_new_out();
    if (!rho_get(arguments, "arguments", &asked)) return rho_failed("arguments are missing");
    rebuild(sent, asked);
    bool granted = rho_host_call(capability, sent, &reply);
    rho_put_map(out);
    rho_put_key(out, granted ? "ok" : "error");
    rebuild(out, reply);
    rho_end(out);
    return rho_ok(out);
}

static rho_answer log_text(rho_value arguments) {
    rho_log_str((int)rho_int_or(arguments, "level", RHO_INFO), rho_text_or(arguments, "text", rho_str_of("")));
    rho_out *out = rho_new_out();
    rho_put_null(out);
    return rho_ok(out);
}

/* ---- word_count, as fixtures/word_count.c answers ---- */
typedef struct { rho_str word; uint64_t count; } entry;
typedef struct { entry *entries; size_t *slots; size_t used, slot_count; } table;

static bool is_letter(uint8_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c >= 0x80;
}

static size_t slot_of(const table *words, rho_str word) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < word.size; i++) hash = (hash ^ (uint8_t)word.data[i]) * 16777619u;
    size_t slot = hash & (words->slot_count - 1);
    while (words->slots[slot] != 0 && !rho_str_equal(words->entries[words->slots[slot] - 1].word, word))
        slot = (slot + 1) & (words->slot_count - 1);
    return slot;
}

static void count_word(table *words, rho_str word) {
    if (words->used * 2 >= words->slot_count) {
        entry *old = words->entries;
        words->slot_count = words->slot_count == 0 ? 64 : words->slot_count * 2;
        words->slots = RHO_NEW(size_t, words->slot_count);
        words->entries = RHO_NEW(entry, words->slot_count / 2 + 1);
        for (size_t i = 0; i < words->used; i++) {
            words->entries[i] = old[i];
            words->slots[slot_of(words, old[i].word)] = i + 1;
        }
    }
    size_t slot = slot_of(words, word);
    if (words->slots[slot] == 0) {
        words->entries[words->used] = (entry){word, 0};
        words->slots[slot] = ++words->used;
    }
    words->entries[words->slots[slot] - 1].count++;
}

static void put_top(rho_out *out, table *words, size_t top) {
    rho_put_array(out);
    for (size_t n = 0; n < top && n < words->used; n++) {
        entry *best = words->entries;
        for (size_t i = 1; i < words->used; i++)
            if (words->entries[i].count > best->count) best = &words->entries[i];
        rho_put_map(out);
        rho_set_str(out, "word", best->word);
        rho_set_uint(out, "count", best->count);
        rho_end(out);
        best->count = 0;
    }
    rho_end(out);
}

static rho_answer word_count(rho_value arguments) {
    rho_str text = rho_text_or(arguments, "text", rho_str_of(""));
    int64_t top = rho_int_or(arguments, "top", 5);
    if (top < 0 || top > 100) return rho_failed("top is out of range: give 0 to 100");
    char *lower = rho_new(text.size, 1);
    uint64_t lines = text.size > 0 && text.data[text.size - 1] != '\n', characters = 0, total = 0;
    table words = {0};
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = (uint8_t)text.data[i];
        lower[i] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
        characters += (c & 0xC0) != 0x80;
        lines += c == '\n';
    }
    for (size_t i = 0; i < text.size;) {
        size_t start = i;
        while (i < text.size && (is_letter((uint8_t)lower[i]) || (i > start && lower[i] == '\''))) i++;
        if (i > start) total++, count_word(&words, (rho_str){lower + start, i - start});
        else i++;
    }
    rho_out *out = rho_new_out();
    rho_put_map(out);
    rho_set_uint(out, "words", total);
    rho_set_uint(out, "lines", lines);
    rho_set_uint(out, "characters", characters);
    rho_set_uint(out, "distinct", words.used);
    rho_put_key(out, "top");
    put_top(out, &words, (size_t)top);
    rho_end(out);
    return rho_ok(out);
}

/* ---- SHA-256 (FIPS 180-4) ---- */
static uint32_t rotated(uint32_t word, int by) { return word >> by | word << (32 - by); }

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static void absorb(uint32_t state[8], const uint8_t block[64]) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) + w[i - 7] + (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
    }
    for (int i = 0; i < 8; i++) v[i] = state[i];
    for (int i = 0; i < 64; i++) {
        uint32_t e = v[4], a = v[0];
        uint32_t one = v[7] + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + round_constants[i] + w[i];
        uint32_t two = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        for (int n = 7; n > 0; n--) v[n] = v[n - 1];
        v[4] += one;
        v[0] = one + two;
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

static rho_answer sha256(rho_value arguments) {
    rho_str text = rho_text_or(arguments, "text", rho_str_of(""));
    uint32_t state[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };
    size_t whole = text.size / 64 * 64, rest = text.size - whole;
    for (size_t at = 0; at < whole; at += 64) absorb(state, (const uint8_t *)text.data + at);
    uint8_t tail[128] = {0};
    memcpy(tail, text.data + whole, rest);
    tail[rest] = 0x80;
    size_t blocks = rest < 56 ? 1 : 2;
    for (int n = 0; n < 8; n++) tail[blocks * 64 - 1 - n] = (uint8_t)((uint64_t)text.size * 8 >> 8 * n);
    for (size_t n = 0; n < blocks; n++) absorb(state, tail + 64 * n);
    char *hex = rho_new(64, 1);
    for (int n = 0; n < 64; n++) hex[n] = "0123456789abcdef"[state[n / 8] >> (28 - n % 8 * 4) & 15];
    rho_out *out = rho_new_out();
    rho_put_str(out, (rho_str){hex, 64});
    return rho_ok(out);
}

RHO_GUEST(
    RHO_TOOL(echo, "Gives a value back.", RHO_ARGUMENTS(RHO_ANY_ARG("value", "Any plain value."))),
    RHO_TOOL(answer, "Answers in a shape.", RHO_ARGUMENTS(RHO_TEXT_ARG("shape", "Its name."))),
    RHO_TOOL(ask_host, "Asks the host.", RHO_CAPABILITIES("clock.now", "kv.get"),
             RHO_ASKING_EXAMPLES({"{'capability': 'kv.get', 'arguments': {'key': 'a'}}",
                                  "[[{'capability': 'kv.get', 'arguments': {'key': 'a'}}, {'ok': {'value': 1}}]]",
                                  "{'ok': {'ok': {'value': 1}}}"}),
             RHO_ARGUMENTS(RHO_TEXT_ARG("capability", "Its name."), RHO_MAP_ARG("arguments", "Of the host call."))),
    {.tool = {"log", log_text}, .description = "Logs a text.",
     RHO_ARGUMENTS(RHO_INT_ARG("level", "10 to 40."), RHO_TEXT_ARG("text", "The line."))},
    RHO_TOOL(word_count, "Counts the words, lines and characters of a text.", RHO_READ_ONLY,
             RHO_ARGUMENTS(RHO_TEXT_ARG("text", "The text to count."),
                           RHO_INT_ARG("top", "How many words to list.", RHO_OPTIONAL, RHO_MIN(0), RHO_MAX(100)))),
    RHO_TOOL(sha256, "The SHA-256 of a text, in hex.", RHO_READ_ONLY, RHO_ARGUMENTS(RHO_TEXT_ARG("text", "Any text."))))
