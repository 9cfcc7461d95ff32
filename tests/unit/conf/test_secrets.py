"""Where a secret is looked for, and what is said of one that is not there."""

import os
from pathlib import Path

import pytest
from pytest_django import Settings

from weir.conf import secrets
from weir.conf.live import mistakes


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
    settings.WEIR_SECRETS = {"SHOP": "of the setting"}
    assert secrets.secret("SHOP") == "of the setting"


def test_a_file_that_is_replaced_counts_soon(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "SHOP").write_text("old")
    assert secrets.secret("SHOP") == "old"
    (folder / "SHOP").write_text("new\r\n")
    assert secrets.secret("SHOP") == "old"
    monkeypatch.setattr(secrets, "CACHED_S", 0.0)
    assert secrets.secret("SHOP") == "new"


def test_a_secret_that_is_not_known_says_what_to_set(folder: Path) -> None:  # noqa: ARG001  it is empty
    said = "set WEIR_SECRET_SHOP, WEIR_SECRETS, or a file SHOP in WEIR_SECRETS_DIR"
    with pytest.raises(secrets.SecretUnusable, match=said):
        secrets.secret("SHOP")


def test_an_empty_secret_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that a deployment left empty, or a file that holds a line end alone."""
    monkeypatch.setenv("WEIR_SECRET_SHOP", "")
    (folder / "OTHER").write_text("\n")
    for name in ("SHOP", "OTHER"):
        with pytest.raises(secrets.SecretUnusable, match=f"the secret {name} is empty"):
            secrets.secret(name)


@pytest.mark.parametrize(
    ("content", "said"), [(b"hidden\xff", "UnicodeDecodeError"), (b"hidden" * 11_000, "more than 65,536 bytes")]
)
def test_a_file_that_is_no_secret_is_not_cut_nor_said(folder: Path, content: bytes, said: str) -> None:
    (folder / "SHOP").write_bytes(content)
    with pytest.raises(secrets.SecretUnusable, match=said) as refused:
        secrets.secret("SHOP")
    assert "hidden" not in str(refused.value)


def test_a_folder_in_the_place_of_the_file_is_said(folder: Path) -> None:
    (folder / "SHOP").mkdir()
    with pytest.raises(secrets.SecretUnusable, match=r"the file of the secret SHOP .* IsADirectoryError"):
        secrets.secret("SHOP")


@pytest.mark.parametrize(
    "given", ["SHOP=hidden", [("SHOP", "hidden")], {"SHOP": 1}, {"SHOP": b"hidden"}, {1: "hidden"}]
)
def test_a_setting_that_is_no_secrets_is_not_quoted(settings: Settings, given: object) -> None:
    settings.WEIR_SECRETS = given
    [sentence] = mistakes()
    assert "WEIR_SECRETS must be a dict of names and texts" in sentence
    assert "hidden" not in sentence


def test_a_pipe_holds_up_nothing(folder: Path) -> None:
    """It would hold up all sites."""
    os.mkfifo(folder / "SHOP")
    with pytest.raises(secrets.SecretUnusable, match="the secret SHOP is empty"):
        secrets.secret("SHOP")


def test_keys_are_separated_by_blanks_and_few(settings: Settings) -> None:
    """Work for each request is bounded by their number."""
    settings.WEIR_SECRETS = {"NEW": " new\n old\t", "BLANK": " \n", "MANY": "key " * (secrets.MOST_KEYS + 1)}
    assert secrets.keys("NEW") == ["new", "old"]
    for name, sentence in (("BLANK", "the secret BLANK is blank"), ("MANY", "at most 8 keys: take old ones out")):
        with pytest.raises(secrets.SecretUnusable, match=sentence):
            secrets.keys(name)
