"""Facts that are remembered about many sites or fetches: a limited number of entries; the oldest are forgotten."""

from collections import OrderedDict
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Remembered(OrderedDict[Key, Value]):
    """The `most` entries that were noted last, the oldest first. Not safe for several threads."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def note(self, key: Key, value: Value) -> None:
        """Make this the newest entry; it replaces an older entry of the same key."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
