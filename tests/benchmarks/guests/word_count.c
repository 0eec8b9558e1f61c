/* How many words, parted by white space, the text has. */
static size_t job(const uint8_t *text, size_t size, uint8_t *answer) {
    uint64_t words = 0;
    bool inside = false;
    for (size_t i = 0; i < size; i++) {
        bool space = text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r');
        words += !space && !inside;
        inside = !space;
    }
    return write_number(words, answer);
}
