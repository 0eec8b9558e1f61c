/* Decimal text both ways: jobs read and write text, so that no guest pays for another's encoding. */
static uint64_t read_number(const uint8_t *text, size_t size) {
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++) number = number * 10 + (text[i] - '0');
    return number;
}

static size_t write_number(uint64_t number, uint8_t *text) {
    size_t size = 1;
    for (uint64_t rest = number; rest >= 10; rest /= 10) size++;
    for (size_t i = size; i-- > 0; number /= 10) text[i] = (uint8_t)('0' + number % 10);
    return size;
}
