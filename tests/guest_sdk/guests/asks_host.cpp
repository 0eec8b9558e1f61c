// Asks the host with arguments of any types, and reads JSON that another wrote.
#include "rho.hpp"

struct City {
    std::string_view name;
    static constexpr auto fields = rho::fields(rho::field(&City::name, "name", "Which one."));
};

static rho::Answer keep(const City &in) {
    const std::vector<int> days{1, 2};
    auto reply = rho::host_call("kv.put", {{"key", in.name}, {"value", days}, {"if_absent", true}, {"expected", nullptr}});
    if (!reply) return rho::failed(std::string(reply.error().kind) + ": " + std::string(reply.error().message));
    return rho::ok(reply->get_or("stored", false));
}

static rho::Answer reads(const City &in) {
    auto json = rho::read_json(in.name);
    return json ? rho::ok(*json) : rho::failed("no JSON");
}

RHO_GUEST(rho::tool("keep", "Keeps something.", keep)
              .capability("kv.put")
              .example("{'name': 'Oslo'}", "{'ok': true}",
                       "[[{'capability': 'kv.put', 'arguments': {'key': 'Oslo', 'value': [1, 2], 'if_absent': true, "
                       "'expected': null}}, {'ok': {'stored': true}}]]"),
          rho::tool("reads", "Reads JSON.", reads),
          rho::tool("part", "Makes a part of a URL.", [](const City &in) { return rho::ok(rho::url_part(in.name)); }))
