"""Whatever bytes a log has, it is read without an error, and silence beside bytes that are no lines proves nothing."""

import os
from datetime import UTC, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.mail.evidence.test_formats import FORMATS, PACKED, others, ours
from tests.unit.mail.evidence.test_verdicts import ALL_DAY, ATTEMPT, OURS, SINCE
from weir.workers.mail.evidence import reading
from weir.workers.mail.evidence.formats import files
from weir.workers.mail.evidence.verdicts import LogOutcome, judge

CHANGED = SINCE + timedelta(hours=2)
PIECES = st.one_of(
    st.binary(max_size=30),
    st.sampled_from(
        [b"\n", b"\0", b"\r", b"\x1b[0m", b"\xff\xfe", b"{", b"}", b'"', b"[", b"]", b" ", b": ", b"<22>1 "]
    ),
    st.sampled_from(
        [b"Nov 23 12:00:01 ", b"Feb 29 ", b"9999-12-31T23:59:59-12:00 ", b"99999999999.9 ", b"Mon 2026-02-30 "]
    ),
    st.sampled_from(
        [b"mail-1 | ", b"2026-11-23T12:00:01Z stdout P ", b'{"__REALTIME_TIMESTAMP":"', b'{"log":"', b"exim[7]: "]
    ),
)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """A log in one of the forms, in which some places have something else."""
    written = FORMATS[draw(st.sampled_from([*FORMATS]))]
    content = "\n".join(others(written, "mx1", every=30) + ours(written, "mx1")).encode()
    for _ in range(draw(st.integers(0, 6))):
        begin = draw(st.integers(0, len(content)))
        content = content[:begin] + draw(PIECES) + content[begin + draw(st.integers(0, 200)) :]
    try:
        return PACKED[draw(st.sampled_from([*PACKED]))](content)
    except UnicodeDecodeError:  # no text: it cannot be encoded otherwise
        return content


@settings(max_examples=300, deadline=None)
@given(content=st.one_of(logs(), st.lists(PIECES, max_size=40).map(b"".join)))
def test_no_log_is_an_error(content: bytes) -> None:
    """Nor is one of other bytes taken for one that is complete."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "mail.log")
        path.write_bytes(content)
        os.utime(path, (CHANGED.timestamp(),) * 2)
        with files.opened([str(path)]) as opened:
            found = judge(ATTEMPT, reading.read(opened, [OURS], UTC), ALL_DAY)
    assert found.outcome is not LogOutcome.NOT_ACCEPTED or OURS.encode() not in content, found
