"""The User-Agent that sites see: what robots.txt calls us by, and whether it says where to complain. Pure."""

import re

_TOKEN = re.compile(r"\s*([^/\s]*)")
_CONTACT = re.compile(r"https?://[^\s/]+\.[^\s/]+|[^\s@:]+@[^\s@/]+\.[^\s@/]+", re.IGNORECASE)


def product_token(user_agent: str) -> str:
    """Return the name by which groups of a robots.txt are ours: what stands before the first `/` or blank."""
    found = _TOKEN.match(user_agent)
    return found[1] if found else ""


def has_contact(user_agent: str) -> bool:
    """Tell whether it names a web page or an e-mail address where a site's operator can reach somebody."""
    return bool(_CONTACT.search(user_agent))
