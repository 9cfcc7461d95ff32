"""Tells Python's e-mail package how to write the e-mails that Weir gives it."""

from email.policy import EmailPolicy
from typing import Any

from weir.workers.mail.headers import words
from weir.workers.mail.headers.lines import HeaderValue


class _Policy(EmailPolicy):
    """Writes e-mails in seven bits, which each relay takes, so that no e-mail must be written anew for some relay.

    A header that is already in its written form (HeaderValue) stays unchanged. A header of an attached e-mail stays
    unchanged, too, except that words beyond ASCII are encoded. Python writes only the headers with the types of texts.
    """

    def header_store_parse(self, name: str, value: object) -> tuple[str, Any]:
        """Keep a header that is already in its written form."""
        return (name, value) if isinstance(value, HeaderValue) else super().header_store_parse(name, value)

    def fold(self, name: str, value: str) -> str:
        """Return the header as it is transmitted, with its line ends."""
        if isinstance(value, HeaderValue):
            return f"{name}: {value}{self.linesep}"
        if not hasattr(value, "fold"):
            return f"{name}: {words.in_ascii(value)}{self.linesep}"
        folded: str = super().fold(name, value)
        return folded

    def fold_binary(self, name: str, value: str) -> bytes:
        """Return the header as bytes: an address may have letters beyond ASCII (RFC 6532)."""
        return self.fold(name, value).encode()


# The headers of an attached e-mail are not folded anew, because they may be signed.
POLICY = _Policy(linesep="\r\n", cte_type="7bit", refold_source="none")
