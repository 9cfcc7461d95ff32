"""How Python's e-mail package writes what Weir has given it."""

from email.policy import EmailPolicy
from typing import Any

from weir.workers.mail.headers import words
from weir.workers.mail.headers.lines import HeaderValue


class _Policy(EmailPolicy):
    """In seven bits, which each relay takes: an e-mail is never written anew for a relay that takes no more.

    A header that is written already stays as it is, and so does one of an attached e-mail, in ASCII. Python writes
    only those that give the types of texts.
    """

    def header_store_parse(self, name: str, value: object) -> tuple[str, Any]:
        """Keep what is written already."""
        return (name, value) if isinstance(value, HeaderValue) else super().header_store_parse(name, value)

    def fold(self, name: str, value: str) -> str:
        """Return the header with its lines ended."""
        if isinstance(value, HeaderValue):
            return f"{name}: {value}{self.linesep}"
        if not hasattr(value, "fold"):
            return f"{name}: {words.in_ascii(value)}{self.linesep}"
        folded: str = super().fold(name, value)
        return folded

    def fold_binary(self, name: str, value: str) -> bytes:
        """Return the header as bytes: an address may have letters beyond ASCII (RFC 6532)."""
        return self.fold(name, value).encode()


# The headers of an attached e-mail stay as they are: they may be signed.
POLICY = _Policy(linesep="\r\n", cte_type="7bit", refold_source="none")
