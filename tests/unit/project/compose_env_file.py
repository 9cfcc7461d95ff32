"""How Docker Compose reads a value in an `env_file`: compose-go, dotenv/parser.go, extractVarValue (of 2026-07)."""


def value_of(written: str) -> str:
    """Return what stands after the = as a container gets it; raise ValueError where `$` would be replaced."""
    quote = written[:1] if written[:1] in {"'", '"'} else ""
    value = _quoted(written, quote) if quote else written.partition(" #")[0].rstrip()
    if quote != "'" and "$" in value:
        raise ValueError("a variable")
    return value


def _quoted(written: str, quote: str) -> str:
    chars, escaped = "", False
    for char in written[1:]:
        if char == quote and not escaped:
            return chars
        if char == "\\" and not escaped:
            escaped = True
            continue
        chars += char if char == quote or not escaped else f"\\{char}"
        escaped = False
    raise ValueError("no end")
