"""Bodies are unpacked within bounds: tables of what came, and what is stored of it."""

import gzip
import random
import re
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from functools import cache, partial

import brotli

from tests.cases import for_each
from tests.proportion import proportion, spent_s
from tests.unit.wire.test_leniencies import table
from weir.workers.fetches.fetcher.results.decoding import MOST_S, Decoded, codings, decoded
from weir.workers.fetches.jobs import Flaw

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CAP = 5 * 2**20
PAGE = b"<html>Weir</html>"
LONG = random.Random(5).randbytes(100_000)  # noqa: S311  bytes that no compression shortens
PACKED = brotli.compress(LONG)  # takes long
gzipped = partial(gzip.compress, mtime=0)
SKIPPED = b"\x50\x2a\x4d\x18" + bytes(4)  # a frame of zstd that holds nothing


def raw_deflate(content: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(content) + packer.flush()


def read(encoding: str, body: bytes, most: int = CAP, *, is_whole: bool = True) -> Decoded:
    return decoded(body, codings(encoding.split("\n")), most, is_whole=is_whole)


def test_all_values_of_content_encoding_are_one_list() -> None:
    """RFC 9110, 5.3: header lines and commas mean the same; empty members and identity mean nothing."""
    for values, names in [
        ([], []),
        ([""], []),
        (["identity"], []),
        (["gzip"], ["gzip"]),
        (["identity", "gzip"], ["gzip"]),
        (["", "gzip"], ["gzip"]),
        ([" , ,GZip\t, Identity ,"], ["gzip"]),
        (["gzip", "gzip"], ["gzip", "gzip"]),
        (["br, gzip", "utf-8"], ["br", "gzip", "utf-8"]),
    ]:
        assert codings(values) == names, values


WELL = [
    ("", PAGE),
    ("identity", PAGE),
    ("gzip", gzipped(PAGE)),
    ("GZip", gzipped(PAGE)),
    ("x-gzip", gzipped(PAGE)),
    ("deflate", zlib.compress(PAGE)),
    ("br", brotli.compress(PAGE)),
    ("zstd", zstd.compress(PAGE)),
    (" gzip , identity ", gzipped(PAGE)),
    ("identity\ngzip", gzipped(PAGE)),
    ("\ngzip", gzipped(PAGE)),
    ("gzip\ngzip", gzipped(gzipped(PAGE))),
    ("deflate, gzip", gzipped(zlib.compress(PAGE))),
    ("gzip, deflate", raw_deflate(gzipped(PAGE))),
    ("br, gzip", gzipped(brotli.compress(PAGE))),
    ("gzip\nzstd", zstd.compress(gzipped(PAGE))),
]
# Bodies that are read, by what the table of docs/explanation/wire.md says of them.
LENIENT = {
    "a name that is none (`utf-8`, `none`, `aws-chunked`, `gzip;`)": [
        *(
            (name, PAGE)
            for name in ("utf-8", "none", "aws-chunked", "gzip;", "binary", "8bit", "null", "text", "chunked")
        ),
        *((name, PAGE) for name in ("bogus", "UTF-8")),
        ("aws-chunked, gzip", gzipped(PAGE)),
        ("gzip, aws-chunked", gzipped(PAGE)),
        ("gzip\nnull", gzipped(PAGE)),
    ],
    "gzip or zlib without its trailer, or the end of it": [
        *(("gzip", gzipped(PAGE)[:-missing]) for missing in range(1, 9)),
        *(("deflate", zlib.compress(PAGE)[:-missing]) for missing in range(1, 5)),
    ],
    "gzip, zlib or zstd with bytes behind its end, or with one more stream of which nothing comes": [
        ("gzip", gzipped(PAGE) + bytes(100)),
        ("gzip", gzipped(PAGE) + b"no stream"),
        ("deflate", zlib.compress(PAGE) + b"no stream"),
        ("zstd", zstd.compress(PAGE) + bytes(100)),
        ("gzip", gzipped(PAGE) + gzipped(b"")[:12]),
    ],
    "deflate without zlib's header": [("deflate", raw_deflate(PAGE))],
    "gzip called deflate, and the contrary": [("deflate", gzipped(PAGE)), ("gzip", zlib.compress(PAGE))],
    "several gzip or zstd streams, one behind the other": [
        ("gzip", gzipped(PAGE[:5]) + gzipped(PAGE[5:9]) + gzipped(PAGE[9:])),
        ("zstd", SKIPPED + zstd.compress(PAGE[:9]) + SKIPPED + zstd.compress(PAGE[9:]) + SKIPPED),
    ],
}
NAMELESS = next(iter(LENIENT))


def test_the_table_has_each_leniency() -> None:
    assert [row[0] for row in table("What the encoding is")] == list(LENIENT)


def test_a_body_is_stored_without_its_encoding() -> None:
    """Whichever encodings a site uses, in whichever spelling and order, and leniently where others are."""
    lenient = [each for what, bodies in LENIENT.items() if what != NAMELESS for each in bodies]
    for encoding, body in WELL + lenient:
        assert read(encoding, body) == Decoded(content=PAGE), (encoding, body)
    for encoding, body in (("gzip", gzipped(LONG)[:-5]), ("deflate", zlib.compress(LONG)[:-3])):
        assert read(encoding, body) == Decoded(content=LONG), encoding


def test_an_empty_body_is_empty_in_every_encoding() -> None:
    """Sites send the header without a body, too."""
    for encoding in ("", "gzip", "deflate", "br", "zstd", "gzip, br"):
        assert read(encoding, b"") == Decoded(content=b""), encoding


def test_a_name_that_is_no_encoding_leaves_the_body_as_it_came() -> None:
    """Sites mean nothing by it. What they do mean is undone, and what was taken as it came is said."""
    for encoding, body in LENIENT[NAMELESS]:
        found = read(encoding, body)
        assert (found.content, found.flaw) == (PAGE, Flaw.ODD), encoding
        assert found.reason.startswith("taken as it came: no encoding is called "), encoding
    assert len(read(", ".join(["x"] * 10_000), PAGE).reason) < 200


@for_each(
    ("encoding", "body", "flaw", "reason", "content"),
    [
        ("gzip", gzipped(PAGE)[:-9], Flaw.CUT, "ends too early", PAGE[:0]),
        ("gzip", gzipped(PAGE)[:-8] + b"\xff", Flaw.CUT, "ends too early", PAGE),  # a checksum that is another one
        ("gzip", gzipped(LONG)[:50_000], Flaw.CUT, "ends too early", LONG[:49_000]),
        ("gzip", gzipped(PAGE) + gzipped(LONG)[:9_000], Flaw.CUT, "ends too early", PAGE + LONG[:8_000]),
        ("deflate", zlib.compress(LONG)[:50_000], Flaw.CUT, "ends too early", LONG[:49_000]),
        ("deflate", raw_deflate(LONG)[:50_000], Flaw.CUT, "ends too early", LONG[:49_000]),
        ("br", PACKED[:50_000], Flaw.CUT, "ends too early", LONG[:49_000]),
        ("zstd", zstd.compress(LONG)[:-1], Flaw.CUT, "ends too early", b""),
        ("gzip, gzip", gzipped(gzipped(LONG))[:50_000], Flaw.CUT, "ends too early", LONG[:49_000]),
        ("gzip", PAGE, Flaw.BROKEN, "broken: .*incorrect header", PAGE),
        ("deflate", b"\xff" + PAGE, Flaw.BROKEN, "broken", b"\xff" + PAGE),
        ("br", PAGE, Flaw.BROKEN, "broken", PAGE),
        ("br", brotli.compress(PAGE) + b"more", Flaw.BROKEN, "broken", b""),
        ("zstd", PAGE, Flaw.BROKEN, "broken", PAGE),
        ("gzip", gzipped(PAGE)[:-8] + bytes(8), Flaw.BROKEN, "broken: .*incorrect data check", b""),
        ("gzip", gzipped(LONG)[:50_000] + bytes(60_000), Flaw.BROKEN, "broken", LONG[:45_000]),
        ("gzip, gzip, gzip", PAGE, Flaw.BROKEN, "encoded 3 times over", PAGE),
        ("gzip, br", PAGE, Flaw.BROKEN, "broken", PAGE),
        ("gzip", gzipped(PAGE) + gzipped(b"")[:10] + b"\xff" * 20, Flaw.ODD, "left out", PAGE),
    ],
)
def test_of_a_flawed_body_what_came_of_it_is_returned(
    encoding: str, body: bytes, flaw: Flaw, reason: str, content: bytes
) -> None:
    """One that ends early is cut; a broken one is broken for good. Where nothing can be read, it is as it came."""
    found = read(encoding, body)
    assert found.flaw is flaw
    assert found.content.startswith(content)
    assert re.search(reason, found.reason)


ENCODED = [
    ("", LONG),
    ("gzip", gzipped(LONG)),
    ("deflate", zlib.compress(LONG)),
    ("deflate", raw_deflate(LONG)),
    ("gzip, gzip", gzipped(gzipped(LONG))),
    ("br", PACKED),
    ("br, gzip", gzipped(PACKED)),
]


def test_of_a_body_that_is_too_large_the_beginning_is_returned() -> None:
    """One byte more than the cap tells that there was more, whether all of it was read or not."""
    most = 60_000
    for encoding, body in ENCODED:
        for raw, is_whole in ((body, True), (body[: most + 4_096], False)):
            found = read(encoding, raw, most, is_whole=is_whole)
            assert (found.content, found.flaw) == (LONG[: most + 1], Flaw.TOO_LARGE), (encoding, is_whole)
            assert found.reason == "the body is larger than 60000 bytes (WEIR_FETCH_MAX_BODY)"


def test_of_a_body_that_was_not_read_to_its_end_an_early_end_is_no_flaw() -> None:
    """What is missing was left out by Weir."""
    for encoding, body in ENCODED[1:]:
        found = read(encoding, body[:50_000], 60_000, is_whole=False)
        assert found.flaw is Flaw.NONE, encoding
        assert LONG.startswith(found.content), encoding


def test_the_cap_counts_what_is_stored() -> None:
    """A body of exactly the cap passes, one byte more does not, however small it was on the wire."""
    for pack in (bytes, gzipped, zlib.compress, raw_deflate, brotli.compress, zstd.compress):
        name = {bytes: "", gzipped: "gzip", brotli.compress: "br", zstd.compress: "zstd"}.get(pack, "deflate")
        for size, flaw in ((999, Flaw.NONE), (1_000, Flaw.NONE), (1_001, Flaw.TOO_LARGE)):
            assert read(name, pack(bytes(size)), 1_000).flaw is flaw, (name, size)


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzipped,
    "deflate": zlib.compress,
    "br": partial(brotli.compress, quality=3),
    "zstd": zstd.compress,
}


@cache
def zeros(encoding: str) -> bytes:
    return PACKERS[encoding](bytes(100_000_000))


def test_a_bomb_is_refused_in_bounded_memory() -> None:
    """A hundred million zeros in a few kilobytes cost a few times the cap, however deep they are packed."""
    for encoding in PACKERS:
        for names, bomb in ((encoding, zeros(encoding)), (f"{encoding}, gzip", gzipped(zeros(encoding)))):
            tracemalloc.start()
            try:
                assert read(names, bomb, 1_000_000).flaw is Flaw.TOO_LARGE
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert peak < 5_000_000, names


def test_a_zstd_body_may_need_no_more_memory_than_its_rfc_allows() -> None:
    """RFC 9659: a window of 8 MiB, and no more."""
    for log, flaw in ((23, Flaw.NONE), (24, Flaw.BROKEN)):
        packer = zstd.ZstdCompressor(
            options={zstd.CompressionParameter.window_log: log, zstd.CompressionParameter.content_size_flag: 0}
        )
        body = packer.compress(PAGE * 1_000) + packer.flush()
        assert read("zstd", body).flaw is flaw, log


def hostile() -> dict[str, tuple[str, bytes]]:
    """Return bodies within the cap that hold next to nothing, and take as long to read as may be."""
    members = gzipped(b"") * (CAP // len(gzipped(b"")))
    frames = SKIPPED * (CAP // len(SKIPPED))
    empty = zstd.compress(b"")
    return {
        "empty gzip members": ("gzip", members),
        "the same, packed": ("gzip, gzip", gzipped(members)),
        "the same, packed by brotli": ("gzip, br", brotli.compress(members, quality=3)),
        "frames to skip": ("zstd", frames),
        "the same, packed ": ("zstd, gzip", gzipped(frames)),
        "empty frames": ("zstd", empty * (CAP // len(empty))),
        "members of one byte": ("gzip", gzipped(b"x") * (CAP // len(gzipped(b"x")))),
        "empty blocks": ("deflate", b"\x78\x9c" + b"\x00\x00\x00\xff\xff" * (CAP // 5)),
        "empty blocks, packed": ("deflate, gzip", gzipped(b"\x78\x9c" + b"\x00\x00\x00\xff\xff" * (CAP // 5))),
        "zeros": ("gzip, gzip", gzipped(zeros("gzip"))),
        "zeros by brotli": ("br, gzip", gzipped(zeros("br"))),
        "zeros by zstd": ("zstd, br", brotli.compress(zeros("zstd"))),
    }


def overspent(budget_s: float, read_it: Callable[[], object]) -> float:
    """Return the time beyond this budget, as a multiple of what zlib takes for an honest body."""
    honest = partial(gzip.decompress, gzipped(PAGE * (CAP // len(PAGE))))
    return proportion(lambda: spent_s(read_it) - budget_s, lambda: spent_s(honest), 1)


def test_no_body_takes_longer_than_its_budget() -> None:
    """Whatever it consists of, and but for the last step: results of others wait behind it."""
    costly = set()
    for name, (encoding, body) in hostile().items():
        found: list[Decoded] = []
        assert overspent(MOST_S, lambda: found.append(read(encoding, body))) < 1, name  # noqa: B023  called at once
        if found[0].flaw is Flaw.TOO_LONG:
            costly.add(name)
            assert "takes more than 0.08 s of the processor" in found[0].reason
    assert {"empty gzip members", "the same, packed", "frames to skip", "empty frames"} <= costly


def test_any_bytes_have_a_content_or_a_flaw() -> None:
    """Bodies that were changed, cut or joined at random: no error of a library comes through, and no bound breaks."""
    chance = random.Random(7)  # noqa: S311
    contents = (PAGE, LONG[:3_000], bytes(90_000))
    packed = [(name, pack(content)) for name, pack in PACKERS.items() for content in contents]
    for _ in range(3_000):
        name, body = chance.choice(packed)
        changed = bytearray(body)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(changed) + 1)
            if chance.random() < 0.3:
                changed[place:] = chance.choice(packed)[1]
            else:
                changed[place : place + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 2))
        names = [name] if chance.random() < 0.7 else [chance.choice([*PACKERS]), name]
        found = decoded(bytes(changed), names, 60_000)
        assert len(found.content) <= 60_001
        assert bool(found.reason) is (found.flaw is not Flaw.NONE)


def test_a_budget_of_ones_own_is_kept() -> None:
    """A first try ends soon."""
    encoding, body = hostile()["the same, packed by brotli"]
    found: list[Decoded] = []
    assert overspent(0.01, lambda: found.append(decoded(body, codings([encoding]), CAP, budget_s=0.01))) < 1
    assert found[0].flaw is Flaw.TOO_LONG
