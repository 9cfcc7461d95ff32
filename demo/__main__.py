"""`python -m demo`: `manage.py demo`, with its environment from the start.

`manage.py demo` learns its home after it has read the settings, and so has to start itself again (`home.enter`), which
takes a second or two.
"""

import argparse
import os
import runpy
import sys
from pathlib import Path

from demo import home
from project.checkout import CHECKOUT


def main(arguments: list[str]) -> None:
    """Run the command. Only `--home` is read here; the command reads, and checks, all of the arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--home", type=Path, nargs="?", default=home.DEFAULT)
    known, _ = parser.parse_known_args(arguments)
    os.environ.update(home.environment((known.home or home.DEFAULT).expanduser().resolve()))
    manage = str(CHECKOUT / "manage.py")
    sys.argv = [manage, "demo", *arguments]
    runpy.run_path(manage, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
