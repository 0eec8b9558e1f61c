/* A job behind Extism's ABI: input and output lie in Extism's own memory and are copied eight bytes at a time. */
#define EXTISM(name) __attribute__((import_module("extism:host/env"), import_name(#name)))
EXTISM(input_length) uint64_t extism_input_length(void);
EXTISM(input_load_u8) uint32_t extism_input_load_u8(uint64_t at);
EXTISM(input_load_u64) uint64_t extism_input_load_u64(uint64_t at);
EXTISM(alloc) uint64_t extism_alloc(uint64_t size);
EXTISM(store_u8) void extism_store_u8(uint64_t at, uint32_t byte);
EXTISM(output_set) void extism_output_set(uint64_t at, uint64_t size);

extern uint8_t __heap_base;

__attribute__((export_name("run"))) int32_t run(void) {
    size_t size = (size_t)extism_input_length();
    uintptr_t start = ((uintptr_t)&__heap_base + 15) & ~(uintptr_t)15;
    size_t pages = (start + size + 65535) / 65536, have = __builtin_wasm_memory_size(0);
    if (pages > have && __builtin_wasm_memory_grow(0, pages - have) == SIZE_MAX) return 1;
    uint8_t *text = (uint8_t *)start, answer[64];
    size_t at = 0;
    for (; size - at >= 8; at += 8) *(uint64_t *)(void *)(text + at) = extism_input_load_u64(at);
    for (; at < size; at++) text[at] = (uint8_t)extism_input_load_u8(at);
    size_t answered = job(text, size, answer);
    uint64_t output = extism_alloc(answered);
    for (at = 0; at < answered; at++) extism_store_u8(output + at, answer[at]);
    extism_output_set(output, answered);
    return 0;
}
