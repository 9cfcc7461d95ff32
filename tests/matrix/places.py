"""Where the matrix keeps what it makes: below `.weir/matrix`, which can be deleted at any time."""

from project.checkout import CHECKOUT

ROOT = CHECKOUT / ".weir" / "matrix"
PROGRAMS = ROOT / "programs"
ENVIRONMENTS = ROOT / "environments"
STAND_INS = ROOT / "stand-ins"
LOGS = ROOT / "logs"
HOME = ROOT / "home"  # of the servers of the run that is going on
PAGE = CHECKOUT / "docs" / "reference" / "versions.md"
