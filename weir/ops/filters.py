"""Filters of a list: the fields of a form. Their values are in the URL, so that links can lead to a filtered list."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final
from urllib.parse import urlencode

LONGEST: Final = 500  # characters of a value, unless the list says otherwise
CURSOR: Final = "after"
LONGEST_CURSOR: Final = 4_000  # characters; the longest cursors, with an e-mail address not in ASCII, have some 2,600


@dataclass(frozen=True, kw_only=True)
class Text:
    """A field in which the visitor types text."""

    name: str
    label: str
    longest: int = LONGEST

    def read(self, value: str | None) -> str:
        return (value or "").strip()[: self.longest].replace("\0", "")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of some values, or "" for any of them. Other text in the URL, such as AS_DEFAULT, counts as the default."""

    AS_DEFAULT: ClassVar = "-"  # sent by the form for "the default": no value that can be chosen

    name: str
    label: str
    values: Sequence[str] | Callable[[], Sequence[str]]
    default: str = ""
    # The default holds only while no other field is filled in. Otherwise nothing would be found by a name that is typed
    # into another field, though it is there.
    default_if_alone: bool = False

    @property
    def options(self) -> Sequence[str]:
        return self.values() if callable(self.values) else self.values

    def read(self, value: str | None) -> str:
        return value if value is not None and self.is_chosen(value) else self.default

    def is_chosen(self, value: str | None) -> bool:
        """Return whether the text in the URL is a choice: "" is one, too."""
        return value in ("", *self.options)


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The values in the URL, for the form and for the query."""

    filters: "PageFilters"
    values: Mapping[str, str]
    cursor: str = ""
    defaulted: frozenset[str] = frozenset()  # the fields with `default_if_alone` of which no value was chosen

    def __iter__(self) -> Iterator[tuple[Text | Choice, str]]:
        return ((each, self.values[each.name]) for each in self.filters.fields)

    def __str__(self) -> str:
        """Return the chosen values with the form's labels: "Site: a.example, Status: 503"."""
        return ", ".join(f"{each.label}: {value}" for each, value in self if value) or "all"

    @property
    def key(self) -> str:
        """The key of this page of the list: pages with the same key have the same content."""
        return self.query(self.cursor)

    def query(self, cursor: str = "") -> str:
        """Return the query string of the list's page that begins at the cursor."""
        values = {name: value for name, value in self.values.items() if name not in self.defaulted}
        return urlencode({**values, **({CURSOR: cursor} if cursor else {})})

    def query_with_any(self, name: str) -> str:
        """Return the query string of the list with any value of this field; "" if no other field narrows the list."""
        others = {other: value for other, value in self.values.items() if value and other != name}
        return urlencode({name: "", **others}) if self.values[name] and others else ""


@dataclass(frozen=True, init=False)
class PageFilters:
    """The fields of a list's form."""

    fields: tuple[Text | Choice, ...] = field(default=())

    def __init__(self, *fields: Text | Choice) -> None:
        object.__setattr__(self, "fields", fields)

    def read(self, query: Mapping[str, str]) -> Chosen:
        """Return the values in the URL's query."""
        values = {each.name: each.read(query.get(each.name)) for each in self.fields}
        choices = [each for each in self.fields if isinstance(each, Choice) and each.default_if_alone]
        defaulted = frozenset(each.name for each in choices if not each.is_chosen(query.get(each.name)))
        if any(value for name, value in values.items() if name not in defaulted):
            values |= dict.fromkeys(defaulted, "")
        cursor = query.get(CURSOR, "")[:LONGEST_CURSOR]
        return Chosen(filters=self, values=values, cursor=cursor, defaulted=defaulted)
