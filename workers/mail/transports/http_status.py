"""Decides whether the status of an HTTP reply (RFC 9110, 15) refuses us, refuses this e-mail, or says nothing."""

# A wrong URL, which was moved (301, 307, 308) or does not exist (404, 405). The others refuse our key or our rate.
_ABOUT_US = frozenset({301, 307, 308, 401, 402, 403, 404, 405, 407, 429})
# The request can never succeed, whenever it is sent. 408, 409 and 425 are not among these, because they are about one
# attempt only; nor is any status that is not known.
_ABOUT_EMAIL = frozenset({400, 406, 410, 411, 413, 414, 415, 422, 431, 451})
LONGEST_WAIT_S = 3_600.0  # the longest wait that a reply may ask for: after an hour the relay is tried again
_LONGEST_NUMBER = 9  # digits


def is_about_us(status: int) -> bool:
    """Return whether the e-mail was certainly not accepted, and no other e-mail would have been."""
    return status in _ABOUT_US


def is_about_email(status: int) -> bool:
    """Return whether this e-mail was certainly not accepted, and will never be."""
    return status in _ABOUT_EMAIL


def retry_after_s(header: object) -> float:
    """Return the seconds that Retry-After asks for, an hour at most; 0 for a date, or an unreadable value."""
    text = str(header or "").strip()
    is_number = text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER
    return min(float(text), LONGEST_WAIT_S) if is_number else 0.0
