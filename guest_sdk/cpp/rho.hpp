/* rho.hpp: write a tool for rho_wasm in C++23. One header over rho.h; README.md beside this begins with a tool.
 *
 *   struct Greet {
 *       std::string_view name;
 *       static constexpr auto fields = rho::fields(rho::field(&Greet::name, "name", "Whom to greet."));
 *   };
 *   RHO_GUEST(rho::tool("greet", "Greets somebody.", [](const Greet &in) { return "hello " + std::string(in.name); }))
 *
 * No exceptions and no RTTI. Constructors of globals run when the guest is built; destructors of globals never run.
 * What the standard library throws elsewhere writes a line to the call's log and traps, as all misuse does.
 */
#ifndef RHO_HPP
#define RHO_HPP
#pragma GCC system_header

#include "rho.h"

#include <array>
#include <bit>
#include <concepts>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <limits>
#include <new>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace rho {

using Text = std::string_view;             /* UTF-8 */
using Bytes = std::span<const std::uint8_t>;

inline rho_str str(Text text) { return {text.data(), text.size()}; }
inline Text text(rho_str text) { return {text.data, text.size}; }
inline void debug(Text text) { rho_log_str(RHO_DEBUG, str(text)); }
inline void info(Text text) { rho_log_str(RHO_INFO, str(text)); }
inline void warning(Text text) { rho_log_str(RHO_WARNING, str(text)); }
inline void error(Text text) { rho_log_str(RHO_ERROR, str(text)); }

/* ---- memory: what is freed is used again, by powers of two ---- */
namespace detail {
struct Block { Block *next; };
struct alignas(16) Head { std::uint32_t level; }; /* in front of what was allocated: it has 2^level bytes, or more than fit a level */
inline constexpr std::uint32_t levels = 24;
inline std::array<Block *, levels> freed{};

inline void *allocate(std::size_t size) {
    std::uint64_t wanted = std::uint64_t{size} + sizeof(Head);
    std::uint32_t level = wanted <= 32 ? 5u : static_cast<std::uint32_t>(std::bit_width(wanted - 1));
    Block *block = level < levels ? freed[level] : nullptr;
    if (block != nullptr) freed[level] = block->next;
    else {
        std::uint64_t room = level < levels ? std::uint64_t{1} << level : wanted;
        block = room > SIZE_MAX ? nullptr : static_cast<Block *>(rho_try_new(static_cast<std::size_t>(room)));
        if (block == nullptr) return nullptr;
    }
    Head *head = new (static_cast<void *>(block)) Head{level};
    return head + 1;
}
inline void release(void *pointer) {
    if (pointer == nullptr) return;
    Head *head = static_cast<Head *>(pointer) - 1;
    std::uint32_t level = head->level;
    if (level < levels) freed[level] = new (static_cast<void *>(head)) Block{freed[level]};
}
inline std::size_t room(void *pointer) {
    return (std::size_t{1} << (static_cast<Head *>(pointer) - 1)->level) - sizeof(Head);
}
inline void *allocate_or_panic(std::size_t size) {
    void *pointer = allocate(size);
    if (pointer == nullptr) rho_panic("no memory left");
    return pointer;
}
} // namespace detail

/* ---- reading ---- */
class Value;
template <class T> bool read(Value from, T &to);

/* The items of a list, or the pairs of a map: `for (Value item : value.items())`, `for (auto [key, item] : value.pairs())`. */
template <class Item> struct Items {
    struct Iterator {
        rho_items left;
        rho_str key{};
        rho_value value{};
        bool more = false;
        Iterator &operator++() {
            if constexpr (std::same_as<Item, Value>) more = rho_next(&left, &value);
            else more = rho_next_pair(&left, &key, &value);
            return *this;
        }
        Item operator*() const {
            if constexpr (std::same_as<Item, Value>) return Item(value);
            else return {text(key), Value(value)};
        }
        bool operator==(std::default_sentinel_t) const { return !more; }
    };
    rho_items all;
    Iterator begin() const {
        Iterator first{all};
        return ++first;
    }
    std::default_sentinel_t end() const { return {}; }
};

/* A value that was received. It is a view: good until the call ends. */
class Value {
  public:
    Value() : raw_{null, null + 1} {}
    explicit Value(rho_value raw) : raw_(raw) {}
    rho_value raw() const { return raw_; }
    rho_kind kind() const { return rho_kind_of(raw_); }
    std::size_t size() const { return rho_count(raw_); } /* of a list or map, else 0 */
    Items<Value> items() const { return {rho_items_of(raw_)}; }                  /* of what is no list, none */
    Items<std::pair<Text, Value>> pairs() const { return {rho_pairs_of(raw_)}; } /* of what is no map, none */
    /* Nothing where it is of another kind, or does not fit. */
    template <class T> std::optional<T> as() const {
        T found{};
        return read(*this, found) ? std::optional<T>(std::move(found)) : std::nullopt;
    }
    std::optional<Value> get(Text key) const {
        for (auto [name, value] : pairs())
            if (name == key) return value;
        return std::nullopt;
    }
    template <class T> T get_or(Text key, T otherwise) const {
        std::optional<Value> found = get(key);
        return found ? found->as<T>().value_or(std::move(otherwise)) : otherwise;
    }
    /* Of an integer below -2^63, which no type holds: the value is -1 - this. */
    std::optional<std::uint64_t> negative() const {
        std::uint64_t number;
        return rho_as_negative(raw_, &number) ? std::optional(number) : std::nullopt;
    }

  private:
    static constexpr std::uint8_t null[] = {0xF6};
    rho_value raw_;
};

/* ---- what a struct of arguments, or of an answer, is made of ---- */
template <class Owner, class T> struct Field {
    T Owner::*member;
    const char *name, *description;
    bool may_be_missing = false;
    std::optional<double> least{}, most{};
    std::array<const char *, 16> choices{};
    const char *written = nullptr;

    /* It need not be given, and then keeps what the struct begins with. A std::optional never need be. */
    constexpr Field optional() const { return with([](Field &made) { made.may_be_missing = true; }); }
    /* Of a number, of the length of a text (of bytes: of their base64), of the items of a list. */
    constexpr Field min(double bound) const { return with([bound](Field &made) { made.least = bound; }); }
    constexpr Field max(double bound) const { return with([bound](Field &made) { made.most = bound; }); }
    template <class... Texts> constexpr Field one_of(Texts... texts) const {
        static_assert(sizeof...(texts) <= 16, "at most 16 choices");
        return with([texts...](Field &made) { made.choices = {texts...}; });
    }
    /* JSON, in the place of all that is made of the type. */
    constexpr Field schema(const char *json) const { return with([json](Field &made) { made.written = json; }); }

  private:
    template <class Change> constexpr Field with(Change change) const {
        Field made = *this;
        change(made);
        return made;
    }
};
template <class Owner, class T>
constexpr Field<Owner, T> field(T Owner::*member, const char *name, const char *description = "") {
    return {member, name, description};
}
template <class... Fields> constexpr std::tuple<Fields...> fields(Fields... all) { return {all...}; }

namespace detail {
template <class T> concept Described = requires { T::fields; };
template <class T> inline constexpr bool is_optional = false;
template <class T> inline constexpr bool is_optional<std::optional<T>> = true;
template <class T> concept Texts = std::convertible_to<const T &, Text>;
template <class T> concept Byte = std::same_as<std::remove_cv_t<T>, std::uint8_t> || std::same_as<std::remove_cv_t<T>, std::byte>;
template <class T> concept Blob = std::ranges::contiguous_range<T> && Byte<std::ranges::range_value_t<T>>;
template <class T> concept Maps = std::ranges::range<T> && requires { typename T::key_type; typename T::mapped_type; };
template <class T> concept Lists = std::ranges::range<T> && !Texts<T> && !Blob<T> && !Maps<T>;
template <class T> concept Growing = Lists<T> && requires(T to) { to.push_back(std::declval<typename T::value_type>()); };

template <class T, class Visit> constexpr void each_field(Visit visit) {
    std::apply([&](const auto &...all) { (visit(all), ...); }, T::fields);
}

template <std::integral T> bool read_integer(rho_value from, T &to) {
    if constexpr (std::is_signed_v<T>) {
        std::int64_t whole;
        if (!rho_as_int(from, &whole) || !std::in_range<T>(whole)) return false;
        to = static_cast<T>(whole);
    } else {
        std::uint64_t whole;
        if (!rho_as_uint(from, &whole) || !std::in_range<T>(whole)) return false;
        to = static_cast<T>(whole);
    }
    return true;
}
template <Described T> const char *first_wrong(Value from, T &to) {
    const char *wrong = nullptr;
    each_field<T>([&](const auto &field) {
        using Member = std::remove_cvref_t<decltype(to.*field.member)>;
        if (wrong != nullptr) return;
        std::optional<Value> found = from.get(field.name);
        if (!found) {
            if (!field.may_be_missing && !is_optional<Member>) wrong = field.name;
        } else if (!read(*found, to.*field.member)) wrong = field.name;
    });
    return wrong;
}
} // namespace detail

/* Whether `from` is a T that fits. */
template <class T> bool read(Value from, T &to) {
    rho_value raw = from.raw();
    if constexpr (std::same_as<T, Value>) return to = from, true;
    else if constexpr (detail::is_optional<T>) {
        if (from.kind() == RHO_NULL) return to = std::nullopt, true;
        return read(from, to.emplace());
    } else if constexpr (std::same_as<T, bool>) return rho_as_bool(raw, &to);
    else if constexpr (std::integral<T>) return detail::read_integer(raw, to);
    else if constexpr (std::floating_point<T>) {
        double number;
        if (!rho_as_float(raw, &number)) return false;
        to = static_cast<T>(number);
        return true;
    } else if constexpr (std::same_as<T, Text> || std::same_as<T, std::string>) {
        rho_str found;
        if (!rho_as_text(raw, &found)) return false;
        to = T(text(found));
        return true;
    } else if constexpr (detail::Blob<T>) {
        rho_str found; /* JSON has no bytes: base64 text is taken for them */
        if (!rho_to_bytes(raw, &found)) return false;
        const auto *data = reinterpret_cast<const std::ranges::range_value_t<T> *>(found.data);
        to = T(data, data + found.size);
        return true;
    } else if constexpr (detail::Described<T>) return from.kind() == RHO_MAP && detail::first_wrong(from, to) == nullptr;
    else if constexpr (detail::Maps<T>) {
        if (from.kind() != RHO_MAP) return false;
        for (auto [key, value] : from.pairs())
            if (!read(value, to[typename T::key_type(key)])) return false;
        return true;
    } else if constexpr (detail::Growing<T>) {
        if (from.kind() != RHO_ARRAY) return false;
        if constexpr (requires { to.reserve(from.size()); }) to.reserve(from.size());
        for (Value item : from.items()) {
            typename T::value_type one{};
            if (!read(item, one)) return false;
            to.push_back(std::move(one));
        }
        return true;
    } else static_assert(!sizeof(T), "rho: nothing reads a value of this type");
}

/* ---- writing ---- */
class Out;
/* JSON as a value, for what is easier to write than to put together; single quotes do as well as double ones. */
struct Json { const char *text; };

template <class T> void put(rho_out *out, const T &value) {
    if constexpr (std::same_as<T, Value>) rho_put_value(out, value.raw());
    else if constexpr (std::same_as<T, Json>) rho_put_json(out, value.text);
    else if constexpr (std::same_as<T, std::nullptr_t> || std::same_as<T, std::nullopt_t>) rho_put_null(out);
    else if constexpr (detail::is_optional<T>) {
        if (value) put(out, *value);
        else rho_put_null(out);
    } else if constexpr (std::same_as<T, bool>) rho_put_bool(out, value);
    else if constexpr (std::signed_integral<T>) rho_put_int(out, value);
    else if constexpr (std::unsigned_integral<T>) rho_put_uint(out, value);
    else if constexpr (std::floating_point<T>) rho_put_float(out, static_cast<double>(value));
    else if constexpr (detail::Texts<T>) rho_put_str(out, str(value));
    else if constexpr (detail::Blob<T>) rho_put_bytes(out, std::ranges::data(value), std::ranges::size(value));
    else if constexpr (requires { value.raw_out(); }) rho_put_value(out, value.raw());
    else if constexpr (detail::Described<T>) {
        rho_put_map(out);
        detail::each_field<T>([&](const auto &field) {
            const auto &member = value.*field.member;
            if constexpr (detail::is_optional<std::remove_cvref_t<decltype(member)>>)
                if (!member) return;
            rho_put_key(out, field.name);
            put(out, member);
        });
        rho_end(out);
    } else if constexpr (detail::Maps<T>) {
        rho_put_map(out);
        for (const auto &[key, item] : value) rho_put_key_str(out, str(key)), put(out, item);
        rho_end(out);
    } else if constexpr (detail::Lists<T>) {
        rho_put_array(out);
        for (const auto &item : value) put(out, item);
        rho_end(out);
    } else static_assert(!sizeof(T), "rho: nothing writes a value of this type");
}

/* A map or a list that is being written. It ends with its scope; meanwhile nothing is written around it. */
class Open {
  public:
    Open(const Open &) = delete;
    Open &operator=(const Open &) = delete;
    ~Open() { rho_end(out_); }

  protected:
    explicit Open(rho_out *out) : out_(out) {}
    rho_out *out_;
};
class List;
class Map : public Open {
  public:
    template <class T> Map &set(Text key, const T &value) { return rho_put_key_str(out_, str(key)), put(out_, value), *this; }
    Map map(Text key);
    List list(Text key);

  private:
    friend class Out;
    friend class List;
    explicit Map(rho_out *out) : Open(out) { rho_put_map(out); }
};
class List : public Open {
  public:
    template <class T> List &add(const T &value) { return put(out_, value), *this; }
    Map map() { return Map(out_); }
    List list() { return List(out_); }

  private:
    friend class Out;
    friend class Map;
    explicit List(rho_out *out) : Open(out) { rho_put_array(out); }
};
inline Map Map::map(Text key) { return rho_put_key_str(out_, str(key)), Map(out_); }
inline List Map::list(Text key) { return rho_put_key_str(out_, str(key)), List(out_); }

/* One value that is written part by part: `Out out; { Map map = out.map(); map.set("n", 1); } return rho::ok(out);` */
class Out {
  public:
    Out() : out_(rho_new_out()) {}
    Map map() { return Map(out_); }
    List list() { return List(out_); }
    template <class T> Out &put(const T &value) { return rho::put(out_, value), *this; }
    /* Of the integers below -2^63: -1 - `number`. */
    Out &put_negative(std::uint64_t number) { return rho_put_negative(out_, number), *this; }
    rho_out *raw_out() const { return out_; }
    rho_value raw() const {
        if (out_->depth != 0 || out_->size == 0) rho_panic("a value that is empty, or not closed");
        return {out_->data, out_->data + out_->size};
    }

  private:
    rho_out *out_;
};

/* ---- answers ---- */
namespace detail {
template <class T> const rho_out *encoded(const T &value) {
    if constexpr (requires { value.raw_out(); }) return value.raw_out();
    else {
        rho_out *out = rho_new_out();
        put(out, value);
        return out;
    }
}
inline rho_str kept(Text text) {
    char *copy = RHO_NEW(char, text.size() + 1);
    rho__copy(copy, text.data(), text.size());
    return {copy, text.size()};
}
} // namespace detail

class [[nodiscard]] Answer {
  public:
    explicit Answer(rho_answer raw) : raw_(raw) {}
    rho_answer raw() const { return raw_; }
    /* Details go to the host's screens, never to the model; on ok and failed. */
    template <class T> Answer details(const T &value) const { return Answer(rho_with_details(raw_, detail::encoded(value))); }
    /* A png, jpeg, webp or gif, at most 16 of them, on ok. `data` must live until the call ends. */
    Answer image(const char *mime_type, Bytes data) const {
        return Answer(rho_with_image(raw_, mime_type, data.data(), data.size()));
    }

  private:
    rho_answer raw_;
};
template <class T> Answer ok(const T &value) { return Answer(rho_ok(detail::encoded(value))); }
inline Answer ok() { return ok(nullptr); }
/* The tool reports that it could not do what was asked: say what the model should do. No crash, no strike. */
template <class T> Answer failed(const T &reason) { return Answer(rho_failed_with(detail::encoded(reason))); }
/* The tool itself is at fault: counts as a crash. */
inline Answer raised(Text message, Text type = {}, std::initializer_list<Text> trace = {}) {
    Out out;
    {
        Map map = out.map();
        map.set("message", message);
        if (!type.empty()) map.set("type", type);
        if (trace.size() > 0) map.set("trace", trace);
    }
    return Answer(rho_answer{.shape = RHO_RAISED, .value = out.raw_out()});
}
inline Answer ask_user(Text question) { return Answer(rho_answer{.shape = RHO_ASK_USER, .text = detail::kept(question)}); }
/* `options` is a map. */
template <class T> Answer ask_user(Text question, const T &options) {
    return Answer(rho_answer{.shape = RHO_ASK_USER, .text = detail::kept(question), .value = detail::encoded(options)});
}
template <class T = std::nullptr_t> Answer halt(Text reason, const T &value = nullptr) {
    return Answer(rho_answer{.shape = RHO_HALT, .text = detail::kept(reason), .value = detail::encoded(value)});
}

/* ---- the host ---- */
struct HostError { Text kind, message; };
template <class T> std::expected<Value, HostError> host_call(const char *capability, const T &arguments) {
    rho_value reply;
    if (rho_host_call(capability, detail::encoded(arguments), &reply)) return Value(reply);
    Value error(reply);
    return std::unexpected(HostError{error.get_or("kind", Text("")), error.get_or("message", Text(""))});
}
inline std::expected<Value, HostError> host_call(const char *capability) { return host_call(capability, Json{"{}"}); }
/* host_call("kv.put", {{"key", "count"}, {"value", 3}}) */
struct Argument {
    const char *name;
    Out value;
    template <class T> Argument(const char *name, const T &value) : name(name) { this->value.put(value); }
};
inline std::expected<Value, HostError> host_call(const char *capability, std::initializer_list<Argument> arguments) {
    Out out;
    {
        Map map = out.map();
        for (const Argument &each : arguments) map.set(each.name, each.value);
    }
    return host_call(capability, out);
}
/* For a part of a URL, as the value in a query: all but A-Z a-z 0-9 - . _ ~ is percent-encoded (RFC 3986, 2.1). */
inline Text url_part(Text part) { return text(rho_url_part(str(part))); }
/* One value of JSON from elsewhere; nothing where it is none, or nested deeper than 64. Where a key occurs twice, `get`
 * finds the first: look up what you need of it, and do not hand on the whole. */
inline std::optional<Value> read_json(Text json) {
    rho_value value;
    return rho_read_json(str(json), &value) ? std::optional(Value(value)) : std::nullopt;
}
/* The call's context, a map: "call_id", "values" and what else the host gives. */
inline Value context() { return Value(rho_context()); }

/* ---- schemas ---- */
namespace detail {
template <class T> void put_schema(rho_out *out);

template <class T> constexpr const char *bound_name(bool low) {
    if constexpr (is_optional<T>) return bound_name<typename T::value_type>(low);
    else if constexpr (std::integral<T> || std::floating_point<T>) return low ? "minimum" : "maximum";
    else if constexpr (Texts<T> || Blob<T>) return low ? "minLength" : "maxLength"; /* of bytes: of their base64 */
    else return low ? "minItems" : "maxItems";
}
template <class T> void set_bound(rho_out *out, bool low, double bound) {
    rho_put_key(out, bound_name<T>(low));
    if (bound == static_cast<double>(static_cast<std::int64_t>(bound))) rho_put_int(out, static_cast<std::int64_t>(bound));
    else rho_put_float(out, bound);
}
/* Those that were said, and those that the type has: what a model sends then fits. */
template <class T, class F> void set_bounds(rho_out *out, const F &field) {
    std::optional<double> least = field.least, most = field.most;
    if constexpr (std::integral<T> && !std::same_as<T, bool> && sizeof(T) <= 4) {
        if (!least) least = static_cast<double>(std::numeric_limits<T>::min());
        if (!most) most = static_cast<double>(std::numeric_limits<T>::max());
    } else if constexpr (std::unsigned_integral<T> && !std::same_as<T, bool>) {
        if (!least) least = 0;
    }
    if (least) set_bound<T>(out, true, *least);
    if (most) set_bound<T>(out, false, *most);
    if (field.choices[0] == nullptr) return;
    rho_put_key(out, "enum"), rho_put_array(out);
    for (const char *choice : field.choices)
        if (choice != nullptr) rho_put_text(out, choice);
    rho_end(out);
}

template <class T> void set_type(rho_out *out) {
    if constexpr (is_optional<T>) set_type<typename T::value_type>(out);
    else if constexpr (std::same_as<T, bool>) rho_set_text(out, "type", "boolean");
    else if constexpr (std::integral<T>) rho_set_text(out, "type", "integer");
    else if constexpr (std::floating_point<T>) rho_set_text(out, "type", "number");
    else if constexpr (Texts<T>) rho_set_text(out, "type", "string");
    else if constexpr (Blob<T>) {
        rho_set_text(out, "type", "string");
        rho_set_text(out, "contentEncoding", "base64");
    } else if constexpr (Described<T>) {
        rho_set_text(out, "type", "object");
        rho_put_key(out, "properties"), rho_put_map(out);
        std::size_t needed = 0;
        each_field<T>([&](const auto &field) {
            using Member = std::remove_cvref_t<decltype(std::declval<T>().*field.member)>;
            if (field.written != nullptr) {
                rho__json_in(rho__json.tool, "schema of field", field.name, 0);
                rho_set_json(out, field.name, field.written);
            } else {
                rho_put_key(out, field.name), rho_put_map(out);
                set_type<Member>(out);
                if (*field.description != '\0') rho_set_text(out, "description", field.description);
                set_bounds<Member>(out, field);
                rho_end(out);
            }
            needed += !field.may_be_missing && !is_optional<Member>;
        });
        rho_end(out);
        if (needed > 0) {
            rho_put_key(out, "required"), rho_put_array(out);
            each_field<T>([&](const auto &field) {
                using Member = std::remove_cvref_t<decltype(std::declval<T>().*field.member)>;
                if (!field.may_be_missing && !is_optional<Member>) rho_put_text(out, field.name);
            });
            rho_end(out);
        }
        rho_set_bool(out, "additionalProperties", false);
    } else if constexpr (Maps<T>) {
        rho_set_text(out, "type", "object");
        rho_put_key(out, "additionalProperties"), put_schema<typename T::mapped_type>(out);
    } else if constexpr (Lists<T>) {
        rho_set_text(out, "type", "array");
        rho_put_key(out, "items"), put_schema<std::ranges::range_value_t<T>>(out);
    }
}
template <class T> void put_schema(rho_out *out) {
    rho_put_map(out);
    set_type<T>(out);
    rho_end(out);
}
struct Nothing { static constexpr std::tuple<> fields{}; };
/* Of a function, or of what is called as one. */
template <class F> struct Signature : Signature<decltype(&F::operator())> {};
template <class R> struct Signature<R (*)()> { using Result = R; using Arguments = Nothing; };
template <class R, class A> struct Signature<R (*)(A)> { using Result = R; using Arguments = std::remove_cvref_t<A>; };
template <class R, class C> struct Signature<R (C::*)() const> : Signature<R (*)()> {};
template <class R, class C, class A> struct Signature<R (C::*)(A) const> : Signature<R (*)(A)> {};
} // namespace detail

/* ---- tools ---- */
template <class F> struct Tool {
    using Arguments = typename detail::Signature<F>::Arguments;
    using Result = typename detail::Signature<F>::Result;

    const char *name, *description;
    F run;
    bool is_read_only = false, is_destructive = false, is_idempotent = false;
    std::uint32_t timeout = 0;
    const char *more = nullptr;
    std::array<const char *, 8> capabilities{};
    std::array<rho_asking_example, 8> examples{};

    constexpr Tool read_only() const { return with([](Tool &made) { made.is_read_only = true; }); }
    constexpr Tool destructive() const { return with([](Tool &made) { made.is_destructive = true; }); }
    constexpr Tool idempotent() const { return with([](Tool &made) { made.is_idempotent = true; }); }
    constexpr Tool timeout_ms(std::uint32_t number) const { return with([number](Tool &made) { made.timeout = number; }); }
    constexpr Tool metadata(Json json) const { return with([json](Tool &made) { made.more = json.text; }); }
    /* What the tool may ask the host for; at most 8. */
    template <class... Texts> constexpr Tool capability(Texts... names) const {
        static_assert(sizeof...(names) <= 8, "at most 8 capabilities");
        return with([names...](Tool &made) { made.capabilities = {names...}; });
    }
    /* JSON: {"name": "Ada"} and {"ok": ...}, {"error": ...}; at most 8. `host` is [[host-request, host-reply], ...]. */
    constexpr Tool example(const char *arguments, const char *answer, const char *host = nullptr) const {
        return with([arguments, answer, host](Tool &made) {
            for (rho_asking_example &free : made.examples)
                if (free.arguments == nullptr) return void(free = {arguments, host, answer});
            rho_panic("at most 8 examples");
        });
    }

    rho_answer call(rho_value raw) const {
        if constexpr (std::same_as<Arguments, detail::Nothing>) return answer(run());
        else if constexpr (std::same_as<Arguments, Value>) return answer(run(Value(raw)));
        else {
            Arguments arguments{};
            const char *wrong = detail::first_wrong(Value(raw), arguments);
            if (wrong == nullptr) return answer(run(arguments));
            return failed(std::string(wrong) + " is missing, or is no value that fits").raw();
        }
    }
    void declare(rho_out *out) const {
        rho_put_map(out);
        rho__json_in(name, "schema", nullptr, 0);
        rho_set_text(out, "name", name);
        rho_set_text(out, "description", description);
        rho_put_key(out, "input_schema");
        if constexpr (std::same_as<Arguments, Value>) rho_put_json(out, "{'type': 'object'}");
        else detail::put_schema<Arguments>(out);
        if constexpr (detail::Described<Result>) rho_put_key(out, "output_schema"), detail::put_schema<Result>(out);
        rho__set_part(out, name, "metadata", more);
        if (timeout > 0) rho_set_uint(out, "timeout_ms", timeout);
        if (is_read_only) rho_set_bool(out, "read_only", true);
        if (is_destructive) rho_set_bool(out, "destructive", true);
        if (is_idempotent) rho_set_bool(out, "idempotent", true);
        if (examples[0].arguments != nullptr) {
            rho_put_key(out, "examples"), rho_put_array(out);
            for (std::size_t at = 0; at < examples.size() && examples[at].arguments != nullptr; at++)
                rho__put_example(out, name, at + 1, examples[at]);
            rho_end(out);
        }
        rho_end(out);
    }

  private:
    template <class T> static rho_answer answer(const T &value) {
        if constexpr (std::same_as<T, Answer>) return value.raw();
        else return ok(value).raw();
    }
    template <class Change> constexpr Tool with(Change change) const {
        Tool made = *this;
        change(made);
        return made;
    }
};
/* `run` takes a struct with `fields`, a Value, or nothing; and answers an Answer, or a value that is ok. */
template <class F> constexpr Tool<F> tool(const char *name, const char *description, F run) {
    return {name, description, run};
}

template <class... Tools> struct Guest {
    std::tuple<Tools...> tools;

    std::uint64_t call(const void *request, std::size_t size) const {
        return call(request, size, std::index_sequence_for<Tools...>{});
    }
    std::uint64_t declare() const {
        Out out;
        {
            Map map = out.map();
            {
                List all = map.list("tools");
                std::apply([&](const Tools &...each) { (each.declare(out.raw_out()), ...); }, tools);
            }
            List asked = map.list("capabilities");
            std::vector<Text> known;
            std::apply([&](const Tools &...each) { (add(asked, known, each.capabilities), ...); }, tools);
        }
        return rho__packed(out.raw_out());
    }

  private:
    /* rho.h looks a tool up by its name and calls a function of C, which finds the tool itself again by its place: two
     * tools may be of one type. */
    static inline const Guest *current = nullptr;
    template <std::size_t At> static rho_answer handler(rho_value arguments) {
        return std::get<At>(current->tools).call(arguments);
    }
    template <std::size_t... At>
    std::uint64_t call(const void *request, std::size_t size, std::index_sequence<At...>) const {
        const rho_tool table[] = {{std::get<At>(tools).name, &handler<At>}...};
        current = this;
        rho_out *out = rho_new_out();
        rho__put_answer(out, rho__dispatch(table, sizeof...(Tools), sizeof *table, request, size));
        return rho__packed(out);
    }
    static void add(List &asked, std::vector<Text> &known, const std::array<const char *, 8> &names) {
        for (const char *name : names) {
            bool told = name == nullptr;
            for (std::size_t at = 0; at < known.size() && !told; at++) told = known[at] == name;
            if (told) continue;
            known.push_back(name);
            asked.add(Text(name));
        }
    }
};
template <class... Tools> constexpr Guest<Tools...> guest(Tools... tools) { return {{tools...}}; }

} // namespace rho

/* ---- what the compiler and the standard library's headers expect to find; a library that is linked has its own ---- */
extern "C" {
void __wasm_call_ctors(void);
RHO_SHARED void *malloc(std::size_t size) { return rho::detail::allocate(size); }
RHO_SHARED void free(void *pointer) { rho::detail::release(pointer); }
RHO_SHARED void *calloc(std::size_t count, std::size_t size) {
    std::uint64_t all = std::uint64_t{count} * size;
    void *made = all > SIZE_MAX ? nullptr : rho::detail::allocate(static_cast<std::size_t>(all));
    if (made != nullptr) rho__fill(made, 0, static_cast<std::size_t>(all));
    return made;
}
RHO_SHARED void *realloc(void *pointer, std::size_t size) {
    if (pointer == nullptr) return rho::detail::allocate(size);
    std::size_t room = rho::detail::room(pointer);
    if (size <= room) return pointer;
    void *made = rho::detail::allocate(size);
    if (made == nullptr) return nullptr;
    rho__copy(made, pointer, room);
    rho::detail::release(pointer);
    return made;
}
RHO_SHARED void *memchr(const void *from, int wanted, std::size_t size) noexcept {
    const auto *at = static_cast<const unsigned char *>(from);
    for (; size > 0; size--, at++)
        if (*at == static_cast<unsigned char>(wanted)) return const_cast<unsigned char *>(at);
    return nullptr;
}
RHO_SHARED void abort(void) { rho_panic("abort was called"); }
RHO_SHARED int __cxa_atexit(void (*)(void *), void *, void *) noexcept { return 0; }
RHO_SHARED void __cxa_pure_virtual(void) { rho_panic("a pure virtual function was called"); }
RHO_SHARED void *__dso_handle = nullptr;
}
RHO_SHARED void *operator new(std::size_t size) { return rho::detail::allocate_or_panic(size); }
RHO_SHARED void *operator new[](std::size_t size) { return rho::detail::allocate_or_panic(size); }
RHO_SHARED void operator delete(void *pointer) noexcept { rho::detail::release(pointer); }
RHO_SHARED void operator delete[](void *pointer) noexcept { rho::detail::release(pointer); }
RHO_SHARED void operator delete(void *pointer, std::size_t) noexcept { rho::detail::release(pointer); }
RHO_SHARED void operator delete[](void *pointer, std::size_t) noexcept { rho::detail::release(pointer); }
RHO_SHARED void *operator new(std::size_t size, const std::nothrow_t &) noexcept { return rho::detail::allocate(size); }
RHO_SHARED void *operator new[](std::size_t size, const std::nothrow_t &) noexcept { return rho::detail::allocate(size); }
RHO_SHARED const std::nothrow_t std::nothrow{};
_LIBCPP_BEGIN_NAMESPACE_STD
[[noreturn]] RHO_SHARED void __libcpp_verbose_abort(const char *format, ...) noexcept {
    va_list more;
    va_start(more, format);
    string_view said = string_view(format) == "%s" ? va_arg(more, const char *) : format;
    while (said.ends_with('\n')) said.remove_suffix(1);
    rho_log_str(RHO_ERROR, rho::str(said));
    rho__trap();
}
RHO_SHARED size_t __hash_memory(_LIBCPP_NOESCAPE const void *from, size_t size) noexcept { /* FNV-1a */
    const auto *at = static_cast<const unsigned char *>(from);
    uint32_t hash = 2166136261u;
    for (; size > 0; size--, at++) hash = (hash ^ *at) * 16777619u;
    return hash;
}
RHO_SHARED size_t __next_prime(size_t number) {
    if (number <= 2) return number < 1 ? 0 : 2;
    for (number |= 1;; number += 2) {
        bool prime = true;
        for (size_t by = 3; by <= number / by && prime; by += 2) prime = number % by != 0;
        if (prime) return number;
    }
}
_LIBCPP_END_NAMESPACE_STD
template class std::basic_string<char>; /* which is in a library otherwise */

/* RHO_GUEST(rho::tool(...), ...), once, at the end of a file: the manifest is made of it. */
#undef RHO_GUEST
#undef RHO_TOOLS
#define RHO_GUEST(...) \
    static constexpr auto rho__guest = rho::guest(__VA_ARGS__); \
    extern "C" { \
    RHO_EXPORT("_initialize") void _initialize(void); \
    RHO_EXPORT("rho_alloc") void *rho_alloc(std::size_t size); \
    RHO_EXPORT("rho_call") std::uint64_t rho_call(const void *request, std::size_t size); \
    RHO_EXPORT("rho_manifest") std::uint64_t rho_manifest(void); \
    void _initialize(void) { __wasm_call_ctors(); } \
    void *rho_alloc(std::size_t size) { return rho_try_new(size); } \
    std::uint64_t rho_call(const void *request, std::size_t size) { return rho__guest.call(request, size); } \
    std::uint64_t rho_manifest(void) { return rho__guest.declare(); } \
    }

#endif
