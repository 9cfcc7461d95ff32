"""Published ways to reach an address that is forbidden with a URL, an answer of DNS or a redirect that looks harmless.

The one table of them, for the parser and the guard alone (unit/test_bypass_forms.py) and for the whole fetcher
(integration/test_forbidden_addresses.py). PORT stands for the port of whatever listens at the forbidden address.
"""

# ruff: noqa: RUF001  characters that look like others are what half of the table is about

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """A URL, what is special about it, and what its refusal says."""

    what: str
    url: str
    refusal: str

    def at(self, port: int) -> str:
        """Return the URL with this port."""
        return self.url.replace("PORT", str(port))


NUMBER = "neither a name nor an IPv4 address in its usual form"
NO_NAME = "is not a host name"
ZONE = "IPv6 zone"
NO_IPV6 = "is not an IPv6 address"
CREDENTIALS = "contains credentials"
BACKSLASH = "backslash"
CONTROL = "control characters"
NO_HOST = "no host"
NOT_WHOLE = "not a URL: write it whole"
SCHEME = "only http and https"
PORTS = "[Pp]ort"
LOOPBACK = "is loopback"
# The name passes, and the resolver is asked for it: the guard refuses what it resolves to.
RESOLVES = "resolves to .* is loopback"
RESOLVES_HARMLESSLY = r"allowed\.example resolves to"  # so the forbidden host is not asked

FORMS = (
    # IPv4 addresses as only inet_aton(3) reads them
    Form("dotted quad", "http://127.0.0.1:PORT/", LOOPBACK),
    Form("another loopback address", "http://127.127.127.127:PORT/", LOOPBACK),
    Form("two parts", "http://127.1:PORT/", NUMBER),
    Form("three parts", "http://127.0.1:PORT/", NUMBER),
    Form("decimal", "http://2130706433:PORT/", NUMBER),
    Form("octal", "http://017700000001:PORT/", NUMBER),
    Form("hexadecimal", "http://0x7f000001:PORT/", NUMBER),
    Form("hexadecimal in capitals", "http://0X7F000001:PORT/", NUMBER),
    Form("octal parts", "http://0177.0000.0000.0001:PORT/", NUMBER),
    Form("octal parts with more zeros", "http://0000177.0.0.1:PORT/", NUMBER),
    Form("hexadecimal parts", "http://0x7f.0x0.0x0.0x1:PORT/", NUMBER),
    Form("two hexadecimal parts", "http://0x7f.0x1:PORT/", NUMBER),
    Form("parts of each kind", "http://0177.0x0.0.1:PORT/", NUMBER),
    Form("hexadecimal last part", "http://127.0.0.0x1:PORT/", NUMBER),
    Form("zeros in front", "http://127.000.000.001:PORT/", NUMBER),
    Form("parts that overflow", "http://383.256.256.257:PORT/", NUMBER),
    Form("decimal that overflows", "http://6425673729:PORT/", NUMBER),
    Form("hexadecimal that overflows", "http://0xdeadbeef7f000001:PORT/", NUMBER),
    Form("metadata in decimal", "http://2852039166/latest/meta-data/", NUMBER),
    Form("metadata in hexadecimal", "http://0xa9fea9fe/latest/meta-data/", NUMBER),
    Form("metadata in octal", "http://0251.0376.0251.0376/latest/meta-data/", NUMBER),
    Form("zero", "http://0:PORT/", NUMBER),
    Form("zero in hexadecimal", "http://0x0:PORT/", NUMBER),
    Form("all zeros, which connects to this host", "http://0.0.0.0:PORT/", "is unspecified"),
    # trailing dots
    Form("address with a dot", "http://127.0.0.1.:PORT/", LOOPBACK),
    Form("short address with a dot", "http://127.1.:PORT/", NUMBER),
    Form("hexadecimal with a dot", "http://0x7f000001.:PORT/", NUMBER),
    Form("address with two dots", "http://127.0.0.1..:PORT/", NO_NAME),
    Form("localhost with a dot", "http://localhost.:PORT/", RESOLVES),
    # names
    Form("localhost", "http://localhost:PORT/", RESOLVES),
    Form("localhost in capitals", "http://LOCALHOST:PORT/", RESOLVES),
    Form("below localhost", "http://example.localhost:PORT/", RESOLVES),
    Form("localhost.localdomain", "http://localhost.localdomain:PORT/", RESOLVES),
    Form("localhost of IPv6", "http://ip6-localhost:PORT/", RESOLVES),
    Form("a name that says its address", "http://127.0.0.1.nip.io:PORT/", RESOLVES),
    Form("metadata by a long name", "http://metadata.google.internal:PORT/computeMetadata/v1/", RESOLVES),
    Form("metadata by a short name", "http://metadata:PORT/", RESOLVES),
    Form("metadata by an old name", "http://instance-data:PORT/latest/meta-data/", RESOLVES),
    # IPv6, and IPv4 within it
    Form("IPv6 loopback", "http://[::1]:PORT/", LOOPBACK),
    Form("IPv6 loopback in full", "http://[0000:0000:0000:0000:0000:0000:0000:0001]:PORT/", LOOPBACK),
    Form("IPv6 loopback with a quad", "http://[::0.0.0.1]:PORT/", LOOPBACK),
    Form("IPv6 unspecified", "http://[::]:PORT/", "is unspecified"),
    Form("IPv4-mapped", "http://[::ffff:127.0.0.1]:PORT/", LOOPBACK),
    Form("IPv4-mapped in hexadecimal", "http://[::ffff:7f00:1]:PORT/", LOOPBACK),
    Form("IPv4-mapped in full", "http://[0:0:0:0:0:FFFF:7F00:0001]:PORT/", LOOPBACK),
    Form("IPv4-mapped in octal", "http://[::ffff:0177.0.0.1]:PORT/", NO_IPV6),
    Form("IPv4-mapped metadata", "http://[::ffff:a9fe:a9fe]/latest/meta-data/", "is link-local"),
    Form("IPv4-compatible", "http://[::127.0.0.1]:PORT/", LOOPBACK),
    Form("IPv4-translated", "http://[::ffff:0:127.0.0.1]:PORT/", "is reserved"),
    Form("NAT64", "http://[64:ff9b::127.0.0.1]:PORT/", LOOPBACK),
    Form("NAT64 metadata", "http://[64:ff9b::a9fe:a9fe]/latest/meta-data/", "is link-local"),
    Form("NAT64 of a local prefix", "http://[64:ff9b:1::127.0.0.1]:PORT/", "not globally routable"),
    Form("NAT64 of a shorter local prefix", "http://[64:ff9b:1:7f00:0:100::]:PORT/", "not globally routable"),
    Form("6to4", "http://[2002:7f00:1::]:PORT/", "not globally routable"),
    Form("6to4 metadata", "http://[2002:a9fe:a9fe::1]/latest/meta-data/", "not globally routable"),
    Form("Teredo", "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]:PORT/", "is private"),
    Form("ISATAP", "http://[fe80::5efe:127.0.0.1]:PORT/", LOOPBACK),
    Form("ISATAP in a global network", "http://[2606:4700::5efe:127.0.0.1]:PORT/", LOOPBACK),
    Form("ISATAP with the universal bit", "http://[2606:4700::200:5efe:a00:1]:PORT/", "is private"),
    Form("IPv6 zone", "http://[fe80::1%25eth0]:PORT/", ZONE),
    Form("IPv6 zone that is not escaped", "http://[fe80::1%eth0]:PORT/", ZONE),
    Form("IPv6 loopback with a zone", "http://[::1%25lo]:PORT/", ZONE),
    Form("IPv4-mapped with a zone", "http://[::ffff:127.0.0.1%251]:PORT/", ZONE),
    Form("IPv6 with a full-width digit", "http://[::１]:PORT/", NO_IPV6),
    Form("IPv4 in brackets", "http://[127.0.0.1]:PORT/", NO_IPV6),
    Form("an address of the future", "http://[v1.127.0.0.1]:PORT/", NO_IPV6),
    Form("a name behind brackets", "http://[::1].allowed.example:PORT/", NO_IPV6),
    # networks that are not public
    Form("metadata", "http://169.254.169.254/latest/meta-data/", "is link-local"),
    Form("metadata of containers", "http://169.254.170.2/v2/credentials/", "is link-local"),
    Form("metadata over IPv6", "http://[fd00:ec2::254]/latest/meta-data/", "is private"),
    Form("metadata over link-local IPv6", "http://[fe80::a9fe:a9fe]/", "is link-local"),
    Form("metadata among protocol assignments", "http://192.0.0.192/latest/", "not globally routable"),
    Form("metadata among carriers' addresses", "http://100.100.100.200/latest/meta-data/", "not globally routable"),
    Form("metadata at a public address", "http://168.63.129.16/machine?comp=goalstate", "not globally routable"),
    Form("private network of class A", "http://10.0.0.1/", "is private"),
    Form("private network of class B", "http://172.16.0.1/", "is private"),
    Form("private network of class C", "http://192.168.0.1/", "is private"),
    Form("carriers' network", "http://100.64.0.1/", "not globally routable"),
    Form("benchmarks' network", "http://198.18.0.1/", "is private"),
    Form("6to4's relays", "http://192.88.99.1/", "not globally routable"),
    Form("broadcast", "http://255.255.255.255/", "is private"),
    Form("multicast", "http://224.0.0.1/", "is multicast"),
    Form("reserved network", "http://240.0.0.1/", "is private"),
    Form("unique local", "http://[fc00::1]/", "is private"),
    Form("site-local", "http://[fec0::1]/", "not globally routable"),
    # IDNA: characters that are mapped to others, to dots, or to nothing
    Form("full-width digits", "http://１２７.０.０.１:PORT/", LOOPBACK),
    Form("circled digits", "http://①②⑦.⓪.⓪.①:PORT/", LOOPBACK),
    Form("circled numbers", "http://⑯⑨.②⑤④.⑯⑨.②⑤④/latest/meta-data/", "is link-local"),
    Form("bold digits", "http://𝟏𝟐𝟕.𝟎.𝟎.𝟏:PORT/", LOOPBACK),
    Form("superscript digits", "http://¹²⁷.⁰.⁰.¹:PORT/", LOOPBACK),
    Form("Arabic digits", "http://١٢٧.٠.٠.١:PORT/", RESOLVES),
    Form("full-width hexadecimal", "http://０ｘ７ｆ０００００１:PORT/", NUMBER),
    Form("ideographic full stops", "http://127。0。0。1:PORT/", LOOPBACK),
    Form("full-width full stops", "http://127．0．0．1:PORT/", LOOPBACK),
    Form("half-width full stops", "http://127｡0｡0｡1:PORT/", LOOPBACK),
    Form("full-width letters", "http://ｌｏｃａｌｈｏｓｔ:PORT/", RESOLVES),
    Form("circled letters", "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:PORT/", RESOLVES),
    Form("long s", "http://localhoſt:PORT/", RESOLVES),
    Form("dotless i", "http://ıp6-localhost:PORT/", RESOLVES),
    Form("punycode of ASCII", "http://xn--localhost-:PORT/", NO_NAME),
    Form("punycode of circled letters", "http://xn--vuhdqncpe6aj:PORT/", NO_NAME),
    Form("punycode of ideographic full stops", "http://xn--127001-rr3ebb:PORT/", NO_NAME),
    Form("soft hyphen in a name", "http://local\u00adhost:PORT/", RESOLVES),
    Form("soft hyphen in an address", "http://127.0.0.1\u00ad:PORT/", LOOPBACK),
    Form("zero-width space", "http://127.0\u200b.0.1:PORT/", LOOPBACK),
    Form("zero-width joiner", "http://local\u200dhost:PORT/", NO_NAME),
    Form("variation selector", "http://127.0.0.1\ufe0f:PORT/", LOOPBACK),
    Form("full-width solidus", "http://127.0.0.1:PORT／@allowed.example/", CREDENTIALS),
    Form("full-width at sign", "http://allowed.example＠127.0.0.1:PORT/", NUMBER),
    Form("account of, which has a solidus in it", "http://127.0.0.1℀.allowed.example:PORT/", NO_NAME),
    # escapes within the host
    Form("escaped dots", "http://127%2e0%2e0%2e1:PORT/", NO_NAME),
    Form("escaped digits", "http://%31%32%37.0.0.1:PORT/", NUMBER),
    Form("escaped letters", "http://%6c%6f%63%61%6c%68%6f%73%74:PORT/", NO_NAME),
    Form("escaped NUL", "http://127.0.0.1%00.allowed.example:PORT/", NO_NAME),
    Form("escaped number sign", "http://127.0.0.1%23.allowed.example:PORT/", NO_NAME),
    # where does the host begin, and where does it end?
    Form("a harmless user", "http://allowed.example@127.0.0.1:PORT/", CREDENTIALS),
    Form("a harmless user with a port", "http://allowed.example:80@127.0.0.1:PORT/", CREDENTIALS),
    Form("a forbidden user", "http://127.0.0.1:PORT@allowed.example/", CREDENTIALS),
    Form("two at signs", "http://allowed.example:80@127.0.0.1:PORT@allowed.example/", CREDENTIALS),
    Form("no user", "http://@127.0.0.1:PORT/", CREDENTIALS),
    Form("user before a backslash", "http://127.0.0.1:PORT\\@allowed.example/", BACKSLASH),
    Form("backslash before the host", "http://allowed.example\\@127.0.0.1:PORT/", BACKSLASH),
    Form("backslash in the host", "http://127.0.0.1:PORT\\.allowed.example/", BACKSLASH),
    Form("user in the fragment", "http://127.0.0.1:PORT#@allowed.example/", LOOPBACK),
    Form("user in the query", "http://127.0.0.1:PORT?@allowed.example/", LOOPBACK),
    Form("host in the fragment", "http://allowed.example#@127.0.0.1:PORT/", RESOLVES_HARMLESSLY),
    Form("host in the query", "http://allowed.example?@127.0.0.1:PORT/", RESOLVES_HARMLESSLY),
    Form("semicolon", "http://allowed.example;@127.0.0.1:PORT/", CREDENTIALS),
    Form("comma", "http://allowed.example,127.0.0.1:PORT/", NUMBER),
    Form("ampersand", "http://127.0.0.1&allowed.example:PORT/", NO_NAME),
    Form("space behind the host", "http://127.0.0.1 allowed.example:PORT/", NO_NAME),
    Form("space before the host", "http:// 127.0.0.1:PORT/", NUMBER),
    Form("space before the scheme", " http://127.0.0.1:PORT/", LOOPBACK),
    Form("no-break space before the scheme", "\u00a0http://127.0.0.1:PORT/", NOT_WHOLE),
    Form("tab in the host", "http://127.0.\t0.1:PORT/", CONTROL),
    Form("newline in the host", "http://127.0.0.1\n.allowed.example:PORT/", CONTROL),
    Form("newline in the scheme", "ht\ntp://127.0.0.1:PORT/", CONTROL),
    Form("NUL in the host", "http://127.0.0.1\0.allowed.example:PORT/", CONTROL),
    Form("a header behind the host", "http://allowed.example\r\nHost: 127.0.0.1:PORT/", CONTROL),
    # ports
    Form("two ports", "http://127.0.0.1:80:PORT/", PORTS),
    Form("port before an at sign", "http://127.0.0.1:80@allowed.example:PORT/", CREDENTIALS),
    Form("hexadecimal port", "http://127.0.0.1:0x50/", PORTS),
    Form("full-width port", "http://127.0.0.1:８０/", PORTS),
    Form("Arabic port", "http://127.0.0.1:٨٠/", PORTS),
    Form("port with a sign", "http://127.0.0.1:+PORT/", PORTS),
    Form("port that overflows", "http://127.0.0.1:65616/", PORTS),
    Form("port 0", "http://127.0.0.1:0/", PORTS),
    Form("port with zeros in front", "http://127.0.0.1:000PORT/", LOOPBACK),
    Form("empty port", "http://127.0.0.1:/", LOOPBACK),
    # slashes
    Form("no slash", "http:127.0.0.1:PORT/", NO_HOST),
    Form("one slash", "http:/127.0.0.1:PORT/", NO_HOST),
    Form("three slashes", "http:///127.0.0.1:PORT/", NO_HOST),
    Form("two backslashes", "http:\\\\127.0.0.1:PORT/", NO_HOST),
    Form("slash and backslash", "http:/\\127.0.0.1:PORT/", NO_HOST),
    Form("three slashes and a backslash", "http://\\127.0.0.1:PORT/", BACKSLASH),
    Form("no scheme", "//127.0.0.1:PORT/", NOT_WHOLE),
    Form("no scheme, three slashes", "///127.0.0.1:PORT/", NOT_WHOLE),
    Form("no scheme, two backslashes", "\\\\127.0.0.1:PORT/", NOT_WHOLE),
    Form("no scheme, slash and backslash", "/\\127.0.0.1:PORT/", NOT_WHOLE),
    Form("no scheme, no slash", "127.0.0.1:PORT/", NOT_WHOLE),
    # schemes
    Form("scheme in capitals", "HTTP://127.0.0.1:PORT/", LOOPBACK),
    Form("https", "https://127.0.0.1:PORT/", LOOPBACK),
    Form("file", "file:///etc/passwd", SCHEME),
    Form("file with a host", "FILE://127.0.0.1:PORT/etc/passwd", SCHEME),
    Form("gopher", "gopher://127.0.0.1:PORT/_GET", SCHEME),
    Form("dict", "dict://127.0.0.1:PORT/info", SCHEME),
    Form("ftp", "ftp://127.0.0.1:PORT/", SCHEME),
    Form("ldap", "ldap://127.0.0.1:PORT/", SCHEME),
    Form("websocket", "ws://127.0.0.1:PORT/", SCHEME),
    Form("jar", "jar:http://127.0.0.1:PORT!/", SCHEME),
    Form("netdoc", "netdoc:///etc/passwd", SCHEME),
    Form("data", "data:text/html,PORT", SCHEME),
    Form("javascript", "javascript:fetch('http://127.0.0.1:PORT')", SCHEME),
    Form("a Unix socket", "http+unix://%2fvar%2frun%2fdocker.sock/info", SCHEME),
    Form("a Unix socket as a port", "http://unix:/var/run/docker.sock:/info", RESOLVES),
)

# What a name server may answer for a harmless name, all of it forbidden.
ANSWERS = {
    "loopback": ("127.0.0.1",),
    "IPv6 loopback": ("::1",),
    "both loopbacks": ("::1", "127.0.0.1"),
    "unspecified": ("0.0.0.0",),  # noqa: S104  nothing listens there
    "IPv6 unspecified": ("::",),
    "IPv4-mapped": ("::ffff:127.0.0.1",),
    "IPv4-mapped metadata": ("::ffff:a9fe:a9fe",),
    "NAT64": ("64:ff9b::7f00:1",),
    "metadata": ("169.254.169.254",),
    "metadata over IPv6": ("fd00:ec2::254",),
    "link-local with its zone": ("fe80::1%lo",),
    "private networks": ("10.0.0.1", "172.16.0.1", "192.168.0.1"),
    "carriers' network": ("100.64.0.1",),
}
