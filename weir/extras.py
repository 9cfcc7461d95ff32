"""Packages that only some projects need, each with an extra: `pip install "django-weir[api]"`."""

from importlib.util import find_spec


def need(package: str, *, extra: str, user: str) -> None:
    """Raise ModuleNotFoundError if a package that `user` needs is missing; the message names the extra to install."""
    if find_spec(package) is None:
        message = f'{user} needs the package {package}, which is not installed: pip install "django-weir[{extra}]"'
        raise ModuleNotFoundError(message, name=package)
