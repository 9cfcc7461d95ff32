"""Install Weir into the virtual environment whose Python runs this: `python install.py standalone,dev` (the extras).

Requirements that follow, such as `Django==6.0.*`, replace what constraints.txt says about the same packages.

uv does in seconds what takes pip a minute. uv does not read pip's configuration, so this program passes that on: the
index, the certificate, the constraints. If uv is not available, cannot do what the configuration says, or fails, pip
installs the same, and one sentence says why.
"""

import ast
import os
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent
CONSTRAINTS = ("-c", "constraints.txt")
OF_YOUR_APPS = ("-r", "local/requirements.txt")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
UV = (sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable, "--compile-bytecode")
PIP_SECTIONS = ("global", "install", ":env:")  # a later one wins
# Options of pip, and the variables that tell uv the same. Variables that the user has set stay.
VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "proxy": "ALL_PROXY",
}
SEPARATORS = {"extra-index-url": " ", "trusted-host": " ", "find-links": ","}  # of uv's lists; pip's are white space
UNTOLD = {"no-binary", "only-binary", "require-hashes"}  # they limit what may be installed


class NotWithUv(Exception):
    """uv cannot install Weir here; the message says why."""


def configuration(listing: str) -> dict[str, str]:
    """Return what `pip config list` says, with the value of each option that takes effect."""
    found: dict[str, dict[str, str]] = {section: {} for section in PIP_SECTIONS}
    for line in listing.splitlines():
        if match := re.fullmatch(r"(global|install|:env:)\.([\w-]+)=(['\"].*)", line):
            section, option, value = match.groups()
            found[section][option] = ast.literal_eval(value)
    return found["global"] | found["install"] | found[":env:"]


def told(options: dict[str, str]) -> dict[str, str]:
    """Return the variables that tell uv what these options tell pip; raises NotWithUv for an option without one."""
    options = {option: value.strip() for option, value in options.items() if value.strip()}
    if untold := sorted(UNTOLD & options.keys()):
        raise NotWithUv(f"pip's configuration sets {untold[0]}, which uv is not told")
    for option in SEPARATORS.keys() & options.keys():
        options[option] = SEPARATORS[option].join(options[option].split())
    env = {variable: options[option] for option, variable in VARIABLES.items() if option in options}
    if "extra-index-url" in options:
        env["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # as pip does: the wanted version, from whichever index has it
    return env


def limits(options: dict[str, str]) -> tuple[str, ...]:
    """Return the options that name the constraints of pip's configuration: uv reads such files as pip does."""
    return tuple(word for file in options.get("constraint", "").split() for word in (CONSTRAINTS[0], file))


def install_with_uv(wanted: tuple[str, ...], quiet: tuple[str, ...]) -> None:
    """Install what is wanted; raises NotWithUv."""
    options = configuration(_pip_says("config", "list"))
    env = told(options) | os.environ
    if find_spec("uv") is None:
        _pip_says("install", "--quiet", "--only-binary", ":all:", *CONSTRAINTS, "uv")
    if subprocess.run([*UV, *quiet, *limits(options), *wanted], cwd=CHECKOUT, env=env, check=False).returncode:
        raise NotWithUv("uv failed")


def _pip_says(*arguments: str) -> str:
    """Return what pip writes; raises NotWithUv with its last words if it fails."""
    result = subprocess.run([*PIP, *arguments], cwd=CHECKOUT, check=False, capture_output=True, text=True)
    if result.returncode:
        words = result.stderr.strip().rpartition("\n")[2]
        raise NotWithUv(f"pip {arguments[0]} failed ({words})")
    return result.stdout


def constraints(instead: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options that name the constraints, without those of packages for which there is a requirement."""
    if not instead:
        return CONSTRAINTS
    lines = (CHECKOUT / CONSTRAINTS[1]).read_text().splitlines(keepends=True)
    names = {_package(requirement) for requirement in instead}
    file = Path(sys.prefix) / CONSTRAINTS[1]
    file.write_text("".join(line for line in lines if _package(line) not in names))
    return (CONSTRAINTS[0], str(file))


def _package(requirement: str) -> str:
    """Return the name that a requirement begins with, as an index compares names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def main(extras: str, *instead: str) -> int:
    """Install, and say with which tool and how long it took; returns pip's exit status if pip had to do it."""
    began_at = time.monotonic()
    wanted = (*constraints(instead), *OF_YOUR_APPS, "-e", f".[{extras}]", *instead)
    quiet = () if sys.stderr.isatty() else ("--quiet",)
    print(f"Installing Weir [{extras}] into {Path(sys.prefix).name} with uv ...", flush=True)
    try:
        install_with_uv(wanted, quiet)
    except NotWithUv as why:
        print(f"uv is not used, as {why}: pip installs the same, which takes a minute.", flush=True)
        status = subprocess.run([*PIP, "install", *quiet, *wanted], cwd=CHECKOUT, check=False).returncode
        if status:
            return status
    print(f"Installed Weir [{extras}] in {time.monotonic() - began_at:.0f} s.", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
