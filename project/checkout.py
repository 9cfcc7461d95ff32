"""The folder that holds this code, with manage.py and the Procfile."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
LOCAL = CHECKOUT / "local"  # what its owner adds: settings, URLs, apps. No version of Weir has code there
