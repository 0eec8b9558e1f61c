/* The vector guest in C++: what all SDKs are asked alike (tests/guest_sdk/vectors_guests.py). */
#include "rho.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

/* Reads a value into what C++ has for it and writes that again. */
void rebuild(rho_out *out, rho::Value value) {
    if (auto whole = value.as<std::int64_t>()) rho::put(out, *whole);
    else if (auto large = value.as<std::uint64_t>()) rho::put(out, *large);
    else if (auto below = value.negative()) rho_put_negative(out, *below);
    else if (auto number = value.as<double>()) rho::put(out, *number);
    else if (auto yes = value.as<bool>()) rho::put(out, *yes);
    else if (auto text = value.as<std::string>()) rho::put(out, *text);
    else if (auto bytes = value.as<std::vector<std::uint8_t>>()) rho::put(out, *bytes);
    else if (value.kind() == RHO_NULL) rho::put(out, nullptr);
    else if (value.kind() == RHO_ARRAY) {
        rho_put_array(out);
        for (rho::Value item : value.items()) rebuild(out, item);
        rho_end(out);
    } else {
        rho_put_map(out);
        for (auto [key, item] : value.pairs()) rho_put_key_str(out, rho::str(key)), rebuild(out, item);
        rho_end(out);
    }
}
rho::Out rebuilt(rho::Value value) {
    rho::Out out;
    rebuild(out.raw_out(), value);
    return out;
}

struct Echo {
    rho::Value value;
    static constexpr auto fields = rho::fields(rho::field(&Echo::value, "value", "Any plain value."));
};

struct Shape {
    std::string_view shape;
    static constexpr auto fields = rho::fields(rho::field(&Shape::shape, "shape", "Its name."));
};
rho::Answer answer(const Shape &in) {
    static constexpr std::uint8_t png[] = {0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A};
    const std::map<std::string, int> details{{"n", 1}};
    if (in.shape == "ok") return rho::ok(42);
    if (in.shape == "ok_images") return rho::ok(42).image("image/png", png);
    if (in.shape == "ok_details") return rho::ok(42).details(details);
    if (in.shape == "failed") return rho::failed("no such user");
    if (in.shape == "failed_details") return rho::failed("no such user").details(details);
    if (in.shape == "raised") return rho::raised("broken", "Broken", {"line 1"});
    if (in.shape == "ask") return rho::ask_user("which one?");
    if (in.shape == "ask_options") return rho::ask_user("which one?", std::map<std::string, int>{{"a", 1}});
    if (in.shape == "halt") return rho::halt("done", 7);
    return rho::failed("no such shape");
}

struct Ask {
    std::string capability;
    rho::Value arguments;
    static constexpr auto fields = rho::fields(
        rho::field(&Ask::capability, "capability", "Its name."),
        rho::field(&Ask::arguments, "arguments").schema("{'type': 'object', 'description': 'Of the host call.'}"));
};
rho::Answer ask_host(const Ask &in) {
    auto reply = rho::host_call(in.capability.c_str(), rebuilt(in.arguments));
    rho::Out out;
    {
        rho::Map map = out.map();
        if (reply) map.set("ok", rebuilt(*reply));
        else map.set("error", std::map<std::string, rho::Text>{{"kind", reply.error().kind}, {"message", reply.error().message}});
    }
    return rho::ok(out);
}

struct Line {
    int level;
    std::string_view text;
    static constexpr auto fields =
        rho::fields(rho::field(&Line::level, "level", "10 to 40."), rho::field(&Line::text, "text", "The line."));
};

/* ---- word_count, as fixtures/word_count.c answers ---- */
struct Counted {
    std::string word;
    std::uint64_t count;
    static constexpr auto fields = rho::fields(rho::field(&Counted::word, "word"), rho::field(&Counted::count, "count"));
};
struct Counts {
    std::uint64_t words, lines, characters, distinct;
    std::vector<Counted> top;
    static constexpr auto fields = rho::fields(
        rho::field(&Counts::words, "words"), rho::field(&Counts::lines, "lines"),
        rho::field(&Counts::characters, "characters"), rho::field(&Counts::distinct, "distinct"),
        rho::field(&Counts::top, "top"));
};
struct Count {
    std::string_view text;
    std::uint32_t top = 5;
    static constexpr auto fields = rho::fields(
        rho::field(&Count::text, "text", "The text to count."),
        rho::field(&Count::top, "top", "How many words to list.").optional().min(0).max(100));
};
bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || static_cast<unsigned char>(c) >= 0x80;
}
Counts word_count(const Count &in) {
    std::string lower(in.text);
    for (char &c : lower)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    std::vector<std::pair<std::string_view, std::uint64_t>> found;
    std::unordered_map<std::string_view, std::size_t> places;
    Counts counts{};
    for (std::size_t at = 0; at < lower.size();) {
        std::size_t start = at;
        while (at < lower.size() && (is_letter(lower[at]) || (at > start && lower[at] == '\''))) at++;
        if (at == start) {
            at++;
            continue;
        }
        std::string_view word(lower.data() + start, at - start);
        auto [place, is_new] = places.try_emplace(word, found.size());
        if (is_new) found.emplace_back(word, 0);
        found[place->second].second++;
        counts.words++;
    }
    counts.distinct = found.size();
    counts.lines = static_cast<std::uint64_t>(std::ranges::count(lower, '\n')) + (!lower.empty() && lower.back() != '\n');
    counts.characters =
        static_cast<std::uint64_t>(std::ranges::count_if(lower, [](char c) { return (c & 0xC0) != 0x80; }));
    std::ranges::stable_sort(found, [](const auto &a, const auto &b) { return a.second > b.second; });
    found.resize(std::min<std::size_t>(found.size(), in.top));
    for (const auto &[word, count] : found) counts.top.push_back({std::string(word), count});
    return counts;
}

/* ---- SHA-256 (FIPS 180-4) ---- */
constexpr std::array<std::uint32_t, 64> round_constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

void absorb(std::array<std::uint32_t, 8> &state, const std::uint8_t *block) {
    std::array<std::uint32_t, 64> w;
    for (std::size_t i = 0; i < 16; i++)
        w[i] = static_cast<std::uint32_t>(block[4 * i]) << 24 | static_cast<std::uint32_t>(block[4 * i + 1]) << 16 |
               static_cast<std::uint32_t>(block[4 * i + 2]) << 8 | block[4 * i + 3];
    for (std::size_t i = 16; i < 64; i++) {
        std::uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
               (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t i = 0; i < 64; i++) {
        std::uint32_t one = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) +
                            round_constants[i] + w[i];
        std::uint32_t two = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
    }
    const std::array<std::uint32_t, 8> after{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; i++) state[i] += after[i];
}

struct Text {
    std::string_view text;
    static constexpr auto fields = rho::fields(rho::field(&Text::text, "text", "Any text."));
};
std::string sha256(const Text &in) {
    std::array<std::uint32_t, 8> state{
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };
    const auto *data = reinterpret_cast<const std::uint8_t *>(in.text.data());
    std::size_t whole = in.text.size() / 64 * 64, rest = in.text.size() - whole, blocks = rest < 56 ? 1 : 2;
    for (std::size_t at = 0; at < whole; at += 64) absorb(state, data + at);
    std::array<std::uint8_t, 128> tail{};
    std::copy_n(data + whole, rest, tail.begin());
    tail[rest] = 0x80;
    for (std::size_t n = 0; n < 8; n++)
        tail[blocks * 64 - 1 - n] = static_cast<std::uint8_t>(std::uint64_t{in.text.size()} * 8 >> 8 * n);
    for (std::size_t n = 0; n < blocks; n++) absorb(state, tail.data() + 64 * n);
    std::string hex(64, '0');
    for (std::size_t n = 0; n < 64; n++) hex[n] = "0123456789abcdef"[state[n / 8] >> (28 - n % 8 * 4) & 15];
    return hex;
}

} // namespace

RHO_GUEST(
    rho::tool("echo", "Gives a value back.", [](const Echo &in) { return rho::ok(rebuilt(in.value)); }),
    rho::tool("answer", "Answers in a shape.", answer),
    rho::tool("ask_host", "Asks the host.", ask_host)
        .capability("clock.now", "kv.get")
        .example("{'capability': 'kv.get', 'arguments': {'key': 'a'}}", "{'ok': {'ok': {'value': 1}}}",
                 "[[{'capability': 'kv.get', 'arguments': {'key': 'a'}}, {'ok': {'value': 1}}]]"),
    rho::tool("log", "Logs a text.", [](const Line &in) { return rho_log_str(in.level, rho::str(in.text)), rho::ok(); }),
    rho::tool("word_count", "Counts the words, lines and characters of a text.", word_count).read_only(),
    rho::tool("sha256", "The SHA-256 of a text, in hex.", sha256).read_only())
