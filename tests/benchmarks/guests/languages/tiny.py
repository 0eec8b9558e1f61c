def run(text: str) -> str:
    return "Hello, " + text + "!"
