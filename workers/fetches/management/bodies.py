"""Types for argparse: the bodies of requests on the command line, as texts or files."""

import argparse
import json
from pathlib import Path
from typing import Any


def body(text: str) -> bytes:
    """Return the bytes of a text in UTF-8, or of the file after an @."""
    if not text.startswith("@"):
        return text.encode(errors="surrogateescape")  # bytes that are not UTF-8 stay what they are
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text[1:]} cannot be read: {error.strerror}") from error


def json_body(text: str) -> Any:  # noqa: ANN401  what the JSON says
    """Return what the JSON says, in a text or in the file after an @."""
    try:
        found = json.loads(body(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be JSON: {error}") from error
    if found is None:
        raise argparse.ArgumentTypeError("must not be null: pass it as --body, with a header")
    return found


def form_field(text: str) -> tuple[str, str]:
    """Return the name and the value of a field such as colour=blue."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"must be a field such as colour=blue, not {text!r}")
    return name, value
