"""Archives and packings are read within bounds, whatever they claim; what is not read is a doubt, with what to do."""

import gzip
import io
import os
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases import for_each
from tests.unit.mail.evidence.test_formats import ours, saved, syslog
from tests.unit.mail.evidence.test_verdicts import AROUND, verdict
from weir.workers.mail.evidence.formats import files
from weir.workers.mail.evidence.formats.packings import Damaged
from weir.workers.mail.evidence.verdicts import LogOutcome

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Pack = Callable[..., bytes]
LOG = ("\n".join([*AROUND, *ours(syslog)]) + "\n").encode()


def tape(content: bytes, number: int = 1, changed: float = 0) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for _ in range(number):
            member = tarfile.TarInfo("mail.log")
            member.size, member.mtime = len(content), changed
            archive.addfile(member, io.BytesIO(content))
    return target.getvalue()


def zipped(content: bytes, number: int = 1) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for at in range(number):
            archive.writestr(f"mail.log.{at}", content)
    return target.getvalue()


@pytest.mark.parametrize("changed", [-(2.0**60), -1, 2.0**40, 2.0**60, 1e300])
def test_a_tape_may_claim_any_time(tmp_path: Path, changed: float) -> None:
    """Also one that is no date."""
    assert verdict(saved(tmp_path, tape(LOG, changed=changed))).outcome is LogOutcome.ACCEPTED


def test_a_file_may_have_been_changed_at_any_time(tmp_path: Path) -> None:
    """Some file systems take what is no date."""
    [name] = saved(tmp_path, LOG)
    for changed in (0, 2**33, 2**37, 2**40, 2**52):
        os.utime(name, (changed, changed))
        with files.opened([name]) as [opened]:
            assert opened.changed <= files.LATER_THAN_ALL


@pytest.mark.parametrize("pack", [tape, zipped])
def test_a_damaged_archive_is_no_error(tmp_path: Path, pack: Pack) -> None:
    """Whichever of its bytes is another one."""
    for at in range(0, min(len(pack(LOG)), 1_600), 7):
        packed = bytearray(pack(LOG))
        packed[at] ^= 0xFF
        verdict(saved(tmp_path, bytes(packed)))


@pytest.mark.parametrize("pack", [tape, zipped])
def test_an_archive_of_too_many_files_is_read_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Pack
) -> None:
    """What is in the others is a doubt."""
    monkeypatch.setattr(files, "MOST_FILES", 3)
    content = ("\n".join(AROUND) + "\n").encode()
    many = pack(content, 4)
    found = verdict(saved(tmp_path, content, many))
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert "more than 3 files: unpack it" in found.why


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress, lambda data: gzip.compress(zstd.compress(data))])
def test_what_becomes_too_much_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Pack
) -> None:
    """A file of some kilobytes may be packed from any number; what has as many on the disk is read."""
    monkeypatch.setattr(files, "MOST_UNPACKED", 2**20)
    bomb = pack(LOG + b"\0" * 2**24)
    seen: list[int] = []
    with files.opened(saved(tmp_path, bomb)) as [opened], pytest.raises(Damaged, match="unpack it"):
        seen.extend(map(len, opened.lines()))
    assert len(LOG) < sum(seen) < 2**21
    assert verdict(saved(tmp_path, bomb)).outcome is LogOutcome.ACCEPTED
    with files.opened(saved(tmp_path, LOG + b" " * 2**22 + b"\n")) as [opened]:
        assert sum(map(len, opened.lines())) > 2**22


@for_each("name", ["/dev/zero", "/"])
def test_what_is_no_file_is_refused(name: str) -> None:
    """Some have no end."""
    with pytest.raises(files.CannotBeRead, match="neither a file nor a pipe"), files.opened([name]):
        pass
