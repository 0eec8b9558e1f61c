/* A job behind the guest ABI of rho_wasm: {"text": ...} in, text out. JOB is the tool that it is called by. */
static rho_answer run(rho_value arguments) {
    rho_str text;
    if (!rho_get_text(arguments, "text", &text)) return rho_failed("text is missing");
    uint8_t answer[64];
    size_t size = job((const uint8_t *)text.data, text.size, answer);
    rho_out *out = rho_new_out();
    rho_put_str(out, (rho_str){(const char *)answer, size});
    return rho_ok(out);
}

RHO_TOOLS({JOB, run})
