"""Refuses what must not be in the text of a header, wherever the text comes from."""

import re

# Characters that could end a header: all control characters, and the separators of lines and paragraphs. Also halves of
# surrogate pairs, which are not text.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class CannotBeWritten(ValueError):
    """This e-mail can never be written; the message says why."""


def refuse_controls(text: str, where: str) -> None:
    """Raise CannotBeWritten if the text has a line break or another control character, which could end a header."""
    if _CONTROLS.search(text):
        raise CannotBeWritten(f"There is a line break or a control character in {where}: {text!r}.")
