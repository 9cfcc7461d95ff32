"""The address guard is a table: what is not globally routable unicast is refused, to the edges of each network.

How such an address is disguised is in tests/unit/fetcher/test_bypass_forms.py.
"""

import re

import pytest

from tests.cases import for_each
from weir.conf.texts.networks import networks, ports
from weir.workers.fetches.addresses import AddressRefused, Allowed, check_address

PUBLIC = (
    "1.1.1.1",
    "8.8.8.8",
    "9.9.9.9",
    "93.184.215.14",
    "151.101.1.140",
    "172.15.255.255",  # just below 172.16.0.0/12
    "172.32.0.0",  # just above
    "11.0.0.0",
    "100.63.255.255",  # just below the carriers' 100.64.0.0/10
    "100.128.0.0",
    "169.253.255.255",
    "192.167.255.255",
    "168.63.129.15",  # beside Azure's host service
    "168.63.129.17",
    "192.88.98.255",  # beside 6to4's relays
    "192.88.100.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
    "2a00:1450:4001:82a::200e",
    "2606:4700::5efe:8.8.8.8",  # ISATAP with a public address
    "2606:4700::1:5efe:a00:1",  # not ISATAP, but nearly
    "64:ff9b::8.8.8.8",  # NAT64 with a public address: RFC 6052, 3.1
    "64:ff9b::172.15.255.255",
)

REFUSED = (
    # this host
    "0.0.0.0",  # noqa: S104
    "0.1.2.3",
    "::",
    # loopback
    "127.0.0.1",
    "127.255.255.254",
    "::1",
    # private
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "fc00::1",
    "fdff:ffff::1",
    # link-local, with the metadata services of clouds
    "169.254.0.1",
    "169.254.169.254",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    # carrier-grade NAT (RFC 6598)
    "100.64.0.1",
    "100.127.255.254",
    # multicast and broadcast
    "224.0.0.1",
    "239.255.255.255",
    "ff02::1",
    "ff0e::1",
    "255.255.255.255",
    # reserved, documentation, benchmarks
    "240.0.0.1",
    "192.0.0.1",
    "192.0.0.8",
    "192.0.2.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "2001:db8::1",
    "3fff::1",
    "100::1",
    "5f00::1",
    # site-local (RFC 3879)
    "fec0::1",
    "feff::1",
    # IPv4-mapped
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:8.8.8.8",
    # IPv4-compatible
    "::10.0.0.1",
    "::8.8.8.8",
    # NAT64 (RFC 6052, RFC 8215)
    "64:ff9b::10.0.0.1",
    "64:ff9b::172.16.0.0",
    "64:ff9b::192.0.0.170",
    "64:ff9b::",
    "64:ff9b::1",
    "64:ff9b:0:0:0:1:808:808",  # just above it
    "64:ff9a:ffff:ffff:ffff:ffff:808:808",  # just below
    "64:ff9b:1::8.8.8.8",
    # 6to4 (RFC 3056, retired by RFC 7526)
    "2002:7f00:1::1",
    "2002:a00:1::1",
    "2002:c0a8:101::1",
    "2002:808:808::1",
    # Teredo (RFC 4380), whose client address is hidden in inverted bits
    "2001::1",
    # zone ids do not help
    "::1%1",
)


@for_each("address", PUBLIC)
def test_a_public_address_passes(address: str) -> None:
    """Public addresses may be fetched from, up to the edges of networks that are not public."""
    check_address(address, ())


@for_each("address", REFUSED)
def test_an_address_that_is_not_public_is_refused_by_name(address: str) -> None:
    """The refusal names the address, says what it is, and how to allow it."""
    with pytest.raises(AddressRefused) as refusal:
        check_address(address, ())
    assert str(refusal.value).startswith(f"{address} is ")
    assert "WEIR_FETCH_ALLOW_NETS" in str(refusal.value)


@for_each(
    ("address", "reason"),
    [
        ("127.0.0.1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("10.0.0.1", "private"),
        ("169.254.169.254", "link-local"),
        ("224.0.0.1", "multicast"),
        ("::", "unspecified"),
        ("100.64.0.1", "not globally routable"),
        ("fec0::1", "not globally routable"),
    ],
)
def test_the_refusal_says_what_the_address_is(address: str, reason: str) -> None:
    """The reason tells an operator which kind of network to allow."""
    with pytest.raises(AddressRefused, match=f" is {reason};"):
        check_address(address, ())


@for_each(
    ("address", "allowed"),
    [
        ("127.0.0.1", ["127.0.0.0/8"]),
        ("127.255.0.7", ["127.0.0.0/8"]),
        ("10.1.2.3", ["192.168.0.0/16", "10.1.0.0/16"]),
        ("::1", ["::1/128"]),
        ("fd00::7", ["fd00::/8"]),
        ("fe80::1%eth0", ["fe80::/10"]),
        ("::ffff:127.0.0.1", ["127.0.0.0/8"]),
        ("::ffff:10.1.2.3", ["10.1.0.0/16"]),
        ("64:ff9b::10.1.2.3", ["10.1.0.0/16"]),
        ("64:ff9b::8.8.8.8", ["64:ff9b::/96"]),
    ],
)
def test_an_allowed_network_passes(address: str, allowed: list[str]) -> None:
    """A network that the setting exempts may be fetched from, also where IPv6 carries its address."""
    check_address(address, networks(allowed))


@for_each(
    ("address", "allowed"),
    [
        ("127.0.0.1", ["10.0.0.0/8"]),
        ("10.2.0.1", ["10.1.0.0/16"]),
        ("::1", ["0.0.0.0/0"]),
        ("127.0.0.1", ["::/0"]),
        ("::ffff:10.0.0.1", ["127.0.0.0/8"]),
        ("64:ff9b::7f00:1", ["10.0.0.0/8"]),
    ],
)
def test_an_allowed_network_exempts_nothing_else(address: str, allowed: list[str]) -> None:
    """An exemption goes as far as its network, and never over to the other IP version by its prefix alone."""
    with pytest.raises(AddressRefused):
        check_address(address, networks(allowed))


@for_each("universal_bit", ["", "200:"])
@for_each(
    "prefix",
    ["fd12:3456::", "fe80::", "fec0::", "2001:db8::", "ff02::", "2001:0:1::", "2002:a01:1::", "64:ff9b:1::", "3fff::"],
)
def test_an_address_that_ends_in_an_allowed_one_is_not_that_one(prefix: str, universal_bit: str) -> None:
    """Whoever owns a name can choose what its address ends in: ISATAP's form is possible in any network."""
    address = f"{prefix}{universal_bit}5efe:10.1.0.9"
    with pytest.raises(AddressRefused):
        Allowed(networks=networks(["10.1.0.0/16"])).check(address, 80)


@for_each("address", ["2606:4700::5efe:8.8.8.8", "2606:4700::8.8.8.8"])
def test_a_public_address_that_ends_in_an_allowed_one_has_no_other_ports(address: str) -> None:
    allowed = Allowed(networks=networks(["8.8.8.0/24"]))
    allowed.check(address, 443)
    with pytest.raises(AddressRefused, match="port 22 is not allowed"):
        allowed.check(address, 22)


@for_each("prefix", ["::", "64:ff9b:1::", "::ffff:0:"])
def test_only_what_a_translator_makes_of_an_allowed_address_is_allowed(prefix: str) -> None:
    """Neither IPv4-compatible addresses, nor local NAT64, whose form only its operator knows."""
    with pytest.raises(AddressRefused):
        check_address(f"{prefix}10.1.0.9", networks(["10.1.0.0/16"]))


def test_nat64_has_the_ports_of_the_public_internet() -> None:
    with pytest.raises(AddressRefused, match="port 6379 is not allowed"):
        Allowed().check("64:ff9b::8.8.8.8", 6379)


def test_blank_networks_are_no_networks() -> None:
    """A setting with a comma too many allows nothing by it."""
    assert networks(["", "  ", " 10.0.0.0/8 "]) == networks(["10.0.0.0/8"])


@for_each("text", ["10.0.0.1/8", "example.com", "10.0.0.0/33", "10.0.0.0-10.0.0.9"])
def test_what_is_no_network_is_refused(text: str) -> None:
    """A network that is none raises ValueError, and is never taken for another."""
    with pytest.raises(ValueError, match=r"does not appear to be|has host bits set"):
        networks([text])


@for_each(
    ("texts", "some", "others"),
    [
        (["80", " 443 ", ""], {80, 443}, {0, 79, 8080}),
        (["8000-8002"], {8000, 8001, 8002}, {7999, 8003}),
        (["1-65535"], {1, 25, 65_535}, {0}),
        ([], set(), {80, 443}),
    ],
)
def test_ports_are_numbers_and_ranges(texts: list[str], some: set[int], others: set[int]) -> None:
    assert some <= ports(texts)
    assert not others & ports(texts)


INTRANET = networks(["10.0.0.0/8"])


@for_each(
    ("host", "port", "allowed"),
    [
        ("site.example", 443, Allowed()),
        ("site.example", 6379, Allowed(ports=frozenset({6379}))),
        ("site.example", 6379, Allowed(networks=INTRANET)),  # it may be there: the resolver will know
        ("10.0.0.1", 6379, Allowed(networks=INTRANET)),
        ("::ffff:10.0.0.1", 6379, Allowed(networks=INTRANET)),
    ],
)
def test_a_url_that_may_be_fetched_passes(host: str, port: int, allowed: Allowed) -> None:
    allowed.check_host(host, port)


@for_each(
    ("host", "port", "allowed", "refusal"),
    [
        ("site.example", 6379, Allowed(), "port 6379 is not allowed; WEIR_FETCH_ALLOW_PORTS"),
        ("10.0.0.1", 443, Allowed(), "10.0.0.1 is private; WEIR_FETCH_ALLOW_NETS"),
        ("8.8.8.8", 6379, Allowed(networks=INTRANET), "8.8.8.8: port 6379 is not allowed; WEIR_FETCH_ALLOW_PORTS"),
    ],
)
def test_a_url_that_shows_what_is_forbidden_is_refused(host: str, port: int, allowed: Allowed, refusal: str) -> None:
    with pytest.raises(AddressRefused, match=re.escape(refusal)):
        allowed.check_host(host, port)


def test_a_loopback_address_names_both_remedies() -> None:
    """The setting, and what `manage.py up` has for it; a private address has the setting alone."""
    with pytest.raises(AddressRefused, match=r"WEIR_FETCH_ALLOW_NETS .* `make up ARGS=--allow-loopback`"):
        check_address("127.0.0.1", ())
    with pytest.raises(AddressRefused, match=r"can allow its network$"):
        check_address("10.0.0.1", ())
