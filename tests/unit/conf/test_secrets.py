"""Where a secret is looked for, and what is said of one that is not there."""

from pathlib import Path

import pytest
from pytest_django import Settings

from weir.conf import secrets


@pytest.fixture
def folder(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of secrets, of which nothing is remembered."""
    monkeypatch.setattr(secrets, "_files", {})
    settings.WEIR_SECRETS_DIR = str(tmp_path)
    return tmp_path


def test_the_setting_comes_before_the_variable_and_the_variable_before_the_file(
    folder: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "SHOP").write_text("of the file\n")
    assert secrets.secret("SHOP") == "of the file"
    monkeypatch.setenv("WEIR_SECRET_SHOP", "of the variable")
    assert secrets.secret("SHOP") == "of the variable"
    settings.WEIR_SECRETS = {"SHOP": "of the setting", "OTHER": lambda: "of a function"}
    assert (secrets.secret("SHOP"), secrets.secret("OTHER")) == ("of the setting", "of a function")


def test_a_file_that_is_replaced_counts_soon(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "SHOP").write_text("old")
    assert secrets.secret("SHOP") == "old"
    (folder / "SHOP").write_text("new\r\n")
    assert secrets.secret("SHOP") == "old"
    monkeypatch.setattr(secrets, "CACHED_S", 0.0)
    assert secrets.secret("SHOP") == "new"


def test_a_secret_that_is_not_known_says_what_to_set(folder: Path) -> None:  # noqa: ARG001  it is empty
    with pytest.raises(secrets.SecretMissing, match="set WEIR_SECRET_SHOP, or WEIR_SECRETS, for the fetchers"):
        secrets.secret("SHOP")


@pytest.mark.parametrize("value", ["", "hidden\r\nHost: x", "hidden\0", "hidden\n\n", "hüdden", " hidden"])
def test_a_secret_that_no_header_can_have_is_not_said(folder: Path, value: str) -> None:
    (folder / "SHOP").write_text(value)
    with pytest.raises(secrets.SecretMissing, match="printable ASCII, on one line") as refused:
        secrets.secret("SHOP")
    assert "dden" not in str(refused.value)


def test_a_setting_that_is_no_text_is_refused(settings: Settings) -> None:
    settings.WEIR_SECRETS = {"SHOP": lambda: None}
    with pytest.raises(secrets.SecretMissing):
        secrets.secret("SHOP")
