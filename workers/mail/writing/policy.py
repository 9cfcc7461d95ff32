"""Tells Python's e-mail package how to write the e-mails that Weir gives it."""

from email.policy import EmailPolicy
from functools import lru_cache
from typing import Any, Final
from uuid import uuid4

from weir.workers.mail.headers import words
from weir.workers.mail.headers.lines import HeaderValue

# The headers that Python writes of each part. They have few values, and Python parses each of them at length.
_OF_PARTS: Final = frozenset({"content-type", "content-transfer-encoding", "mime-version"})
_MOST_KEPT: Final = 256  # headers


class _Policy(EmailPolicy):
    """Writes e-mails in seven bits, which each relay takes, so that no e-mail must be written anew for some relay.

    A header that is already in its written form (HeaderValue) stays unchanged. A header of an attached e-mail stays
    unchanged, too, except that words beyond ASCII are encoded. Python writes only the headers with the types of texts.
    """

    def header_max_count(self, name: str) -> int | None:
        """Return how many headers of this name there may be. Python makes a class to answer this."""
        return _max_count(name.lower())

    def header_store_parse(self, name: str, value: object) -> tuple[str, Any]:
        """Keep a header that is already in its written form."""
        if isinstance(value, HeaderValue):
            return name, value
        if type(value) is str and name.lower() in _OF_PARTS:
            return name, _of_part(name, value)
        return super().header_store_parse(name, value)

    def header_fetch_parse(self, name: str, value: str) -> Any:  # noqa: ANN401  as in EmailPolicy
        """Return a type that is already in its written form as it is: Python's generator only reads its text."""
        if isinstance(value, HeaderValue) and name.lower() == "content-type":
            return value.replace(self.linesep, "")
        return super().header_fetch_parse(name, value)

    def fold(self, name: str, value: str) -> str:
        """Return the header as it is transmitted, with its line ends."""
        if isinstance(value, HeaderValue):
            return f"{name}: {value}{self.linesep}"
        if not hasattr(value, "fold"):
            return f"{name}: {words.in_ascii(value)}{self.linesep}"
        if name.lower() in _OF_PARTS:
            return _folded_of_part(name, value)
        folded: str = super().fold(name, value)
        return folded

    def fold_binary(self, name: str, value: str) -> bytes:
        """Return the header as bytes: an address may have letters beyond ASCII (RFC 6532)."""
        return self.fold(name, value).encode()


# The headers of an attached e-mail are not folded anew, because they may be signed.
POLICY = _Policy(linesep="\r\n", cte_type="7bit", refold_source="none")
_PYTHONS = EmailPolicy(linesep=POLICY.linesep, cte_type=POLICY.cte_type, refold_source=POLICY.refold_source)


def new_boundary() -> str:
    """Return what stands between the parts of an e-mail: nobody can guess it, and no encoded line has `=_`.

    Python would take a number that it finds in no part, and compile a pattern for this each time.
    """
    return f"=_{uuid4().hex}"


@lru_cache(_MOST_KEPT)
def _max_count(name: str) -> int | None:
    return _PYTHONS.header_max_count(name)


@lru_cache(_MOST_KEPT)
def _of_part(name: str, value: str) -> Any:  # noqa: ANN401  a header of Python's, which cannot be changed
    return _PYTHONS.header_store_parse(name, value)[1]


@lru_cache(_MOST_KEPT)
def _folded_of_part(name: str, value: str) -> str:
    folded: str = _PYTHONS.fold(name, value)
    return folded
