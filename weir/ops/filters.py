"""Filters of a list: fields of a form whose values stand in the URL, so that a filtered list can be linked to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

LONGEST: Final = 500  # characters of a value, unless the list says otherwise
CURSOR: Final = "after"
LONGEST_CURSOR: Final = 4_000  # characters: an e-mail address that is not ASCII makes the longest, some 2,600


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text that the visitor types."""

    name: str
    label: str
    longest: int = LONGEST

    def read(self, value: str | None) -> str:
        return (value or "").strip()[: self.longest].replace("\0", "")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of some values, or none of them, which means any; another text counts as the default."""

    name: str
    label: str
    values: Sequence[str] | Callable[[], Sequence[str]]
    default: str = ""

    @property
    def options(self) -> Sequence[str]:
        return self.values() if callable(self.values) else self.values

    def read(self, value: str | None) -> str:
        if value is None:
            return self.default
        return value if value in ("", *self.options) else self.default


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What the URL says, for the form and for the query."""

    filters: "PageFilters"
    values: Mapping[str, str]
    cursor: str = ""

    def __iter__(self) -> Iterator[tuple[Text | Choice, str]]:
        return ((each, self.values[each.name]) for each in self.filters.fields)

    def __str__(self) -> str:
        """Say what is chosen, as the form does: Site: a.example, Status: 503."""
        return ", ".join(f"{each.label}: {value}" for each, value in self if value) or "all"

    @property
    def key(self) -> str:
        """The key of this page of the list: two pages with the same key show the same."""
        return self.query(self.cursor)

    def query(self, cursor: str = "") -> str:
        """Return the query string of this list from a cursor on."""
        return urlencode({**self.values, **({CURSOR: cursor} if cursor else {})})


@dataclass(frozen=True, init=False)
class PageFilters:
    """The fields of a list's form."""

    fields: tuple[Text | Choice, ...] = field(default=())

    def __init__(self, *fields: Text | Choice) -> None:
        object.__setattr__(self, "fields", fields)

    def read(self, query: Mapping[str, str]) -> Chosen:
        """Return the values that the URL's query has."""
        values = {each.name: each.read(query.get(each.name)) for each in self.fields}
        return Chosen(filters=self, values=values, cursor=query.get(CURSOR, "")[:LONGEST_CURSOR])
