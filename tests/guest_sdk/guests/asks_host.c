/* Asks the host for a capability and hands on what it says. */
#include "rho.h"

static rho_answer asks_host(rho_value arguments) {
    rho_out *wanted = rho_new_out(), *out = rho_new_out();
    rho_value reply;
    rho_put_value(wanted, arguments);
    bool granted = rho_host_call("some.capability", wanted, &reply);
    rho_put_map(out);
    rho_set_bool(out, "granted", granted);
    rho_set_value(out, "reply", reply);
    rho_end(out);
    return rho_ok(out);
}

RHO_TOOLS({"asks_host", asks_host})
