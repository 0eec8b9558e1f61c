def run(text: str) -> str:
    state = 1
    for _ in range(int(text)):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
    return str(state)
