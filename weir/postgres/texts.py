"""Text that PostgreSQL can store."""


def storable(text: str, most: int) -> str:
    """Return the first `most` characters, with a substitute for each that PostgreSQL refuses: NUL, lone surrogates."""
    return text[:most].replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
