"""The folder that holds this code, with manage.py and the Procfile."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
LOCAL = CHECKOUT / "local"  # for the owner's own settings, URLs and apps; Weir has no code there
