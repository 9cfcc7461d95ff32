"""The User-Agent that sites see: the product token that robots.txt files name, and whether it has a contact. Pure."""

import re

_TOKEN = re.compile(r"\s*([^/\s]*)")
_CONTACT = re.compile(r"https?://[^\s/]+\.[^\s/]+|[^\s@:]+@[^\s@/]+\.[^\s@/]+", re.IGNORECASE)


def product_token(user_agent: str) -> str:
    """Return the name that a robots.txt uses for Weir: the text before the first `/` or blank."""
    found = _TOKEN.match(user_agent)
    return found[1] if found else ""


def has_contact(user_agent: str) -> bool:
    """Return whether the user agent names a web page or an e-mail address, so that a site's operator can complain."""
    return bool(_CONTACT.search(user_agent))
