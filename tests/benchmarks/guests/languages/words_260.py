def run(text: str) -> str:
    counts: dict[str, int] = {}
    for word in text.lower().split():
        counts[word] = counts.get(word, 0) + 1
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return ", ".join(f"{word} {count}" for word, count in ranked[:10])
