"""Texts as PostgreSQL can store them."""


def storable(text: str, most: int) -> str:
    """Return the first `most` characters, with replacements for what PostgreSQL refuses: NUL and lone surrogates."""
    return text[:most].replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
