import re


def run(text: str) -> str:
    slowest: dict[str, int] = {}
    for level, part, took in re.findall(r"^\S+ (WARN|ERROR) \[(\w+)\] .* in (\d+) ms$", text, re.MULTILINE):
        key = level + " " + part
        slowest[key] = max(slowest.get(key, 0), int(took))
    return ", ".join(f"{key} {slowest[key]}" for key in sorted(slowest))
