"""Paths: the one form in which the path of a URL and that of a rule are compared (RFC 9309, 2.2.2). Pure.

An octet means the same, plain or escaped: `:` and `%3A`, `a` and `%61`, `é` and `%C3%A9`. In this form, each octet that
a URL may have plain is plain, and every other octet is escaped, with capital digits. Some escapes do not mean the same
as the plain character, and stay escapes (`ESCAPED_ALWAYS`):

- Before the first `?`, an escaped `/` or `?` is data, and a plain one separates: `/a%2Fb` is not `/a/b`. After the
  first `?`, plain and escaped ones mean the same, as in the RFC's table.
- `*` and `$` that stand for themselves are escaped, because plain ones have a special meaning in a rule.

A `%` that does not begin an escape stands for itself, and is written `%25`.
"""

import re
from string import ascii_letters, digits, hexdigits

PLAIN = frozenset(ascii_letters + digits + "-._~" + ":/?#[]@!$&'()*+,;=")  # RFC 3986: unreserved and reserved
ESCAPED_ALWAYS = frozenset("/?#*$")  # escapes of these characters stay escapes
_PATH = re.compile(r"[/?].*", re.DOTALL)  # after an authority
_ODD = re.compile(rf"[^{re.escape(''.join(sorted(PLAIN)))}\n]")
_CHANGING = re.compile("%(?!25|[89A-F][0-9A-F])")  # not the escapes that are most common in hostile files
_AS_ESCAPES = {code: f"%{code:02X}" for code in range(256) if chr(code) not in PLAIN | {"%", "\n"}}
_UNESCAPED = {
    high + low: chr(code) if chr(code) in PLAIN - ESCAPED_ALWAYS else f"%{code:02X}"
    for high in hexdigits
    for low in hexdigits
    for code in [int(high + low, 16)]
}


def canonical(text: str) -> str:
    """Return paths, one a line, in the form above, except that an escaped `/` or `?` stays so after the `?`, too.

    `*` and `$` stay as they are written.
    """
    if not _ODD.search(text):
        return text
    text = text.replace("%%", "%25%").replace("%%", "%25%")  # of several % in a row, all but the last
    first, *rest = _CHANGING.split(text)
    text = first + "".join([_UNESCAPED.get(part[:2], "%25" + part[:2]) + part[2:] for part in rest])
    if not text.isascii():
        text = text.encode(errors="replace").decode("latin-1")
    return text.translate(_AS_ESCAPES)


def with_plain_query(path: str) -> str:
    """Return a canonical path whose query, if it has one, has each `/` and `?` plain."""
    if "%2F" not in path and "%3F" not in path:
        return path
    head, mark, query = path.partition("?")
    return head + mark + plain(query)


def plain(text: str) -> str:
    """Return the text with each `/` and `?` plain, as in a query."""
    return text.replace("%2F", "/").replace("%3F", "?")


def path_of(url: str) -> str:
    """Return the path and query of a URL, `/` at least, in the form above."""
    found = _PATH.search(url.partition("#")[0].partition("://")[2])
    path = canonical(found[0].removeprefix("/")) if found else ""
    return with_plain_query("/" + path.replace("*", "%2A").replace("$", "%24"))
