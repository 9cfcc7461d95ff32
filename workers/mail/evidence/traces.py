"""Finds Message-IDs of ours in a text, whatever else the text says, and however it escapes them.

Each Message-ID has twelve random hexadecimal digits, and no way to escape a text changes digits. So the digits are
looked for, with one look-up for each place in a run of digits, whatever the number of Message-IDs. No release makes a
Message-ID without these digits. If there is one, it is looked for as a word of which only letters and digits count.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator

RANDOM = 12  # digits
_RUNS = re.compile(rf"[0-9A-Fa-f]{{{RANDOM},}}")
_IN_OURS = re.compile(rf"-([0-9a-f]{{{RANDOM}}})@")
_WORDS = re.compile(r"[^\s<>\"'(),;]+")
_NOT_PLAIN = re.compile(r"[^0-9a-z]")


class Traces:
    """Finds the given Message-IDs in texts."""

    def __init__(self, message_ids: Collection[str]) -> None:
        self._by_digits: dict[str, list[str]] = defaultdict(list)
        self._by_word: dict[str, list[str]] = defaultdict(list)
        for message_id in message_ids:
            lower = message_id.lower()
            if digits := _IN_OURS.findall(lower):
                self._by_digits[digits[-1]].append(message_id)
            else:
                self._by_word[_NOT_PLAIN.sub("", lower)].append(message_id)

    def find(self, text: str) -> Iterator[str]:
        """Yield the Message-IDs that a text has, or seems to have."""
        for run in _RUNS.findall(text):
            lower = run.lower()
            for at in range(len(lower) - RANDOM + 1):
                yield from self._by_digits.get(lower[at : at + RANDOM], ())
        if self._by_word:
            for word in _WORDS.findall(text.lower()):
                yield from self._by_word.get(_NOT_PLAIN.sub("", word), ())
