/* As many turns as the text says, each of which needs the one before, so that no compiler can leave one out. */
static size_t job(const uint8_t *text, size_t size, uint8_t *answer) {
    uint64_t turns = read_number(text, size);
    uint32_t state = 1;
    for (uint64_t turn = 0; turn < turns; turn++) state = state * 1664525u + 1013904223u;
    return write_number(state, answer);
}
