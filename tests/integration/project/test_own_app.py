"""What its owner adds to a checkout is in the folder `local`: no file of Weir's is changed, and the image has it."""

import re
import shutil
from pathlib import Path

import pytest

from project.checkout import CHECKOUT
from tests.run_python import run_forked

SETTINGS = """\
from project.settings import INSTALLED_APPS

INSTALLED_APPS += ["shop"]
TIME_ZONE = "Europe/Vienna"
SHOP_API_KEY = "choose-your-own"
"""
URLS = """\
from django.urls import path

from shop.views import home

urlpatterns = [path("", home), path("shop/", home, name="shop")]
"""
VIEWS = """\
from django.http import HttpRequest, HttpResponse


def home(request: HttpRequest) -> HttpResponse:
    return HttpResponse("my home")
"""
TESTS = """\
from django.test import SimpleTestCase


class ShopTest(SimpleTestCase):
    def test_home(self) -> None:
        self.assertEqual(self.client.get("/shop/").content, b"my home")
"""
LOOK = """
from django.conf import settings
from django.test import Client
from django.urls import reverse
import shop.views
settings.ALLOWED_HOSTS = ["testserver"]
apps = settings.INSTALLED_APPS
print(settings.TIME_ZONE, settings.SHOP_API_KEY, apps.count("shop"), "weir.ops" in apps)
print(reverse("shop"), reverse("admin:index"), Client().get("/").content.decode(), Client().get("/livez").status_code)
"""


def python(checkout: Path, *arguments: str, at: str = ".") -> str:
    """Return what a program of the checkout writes; it must end well."""
    variables = {"DJANGO_SECRET_KEY": "only-for-this-step", "PYTHONPATH": str(checkout)}
    return run_forked(*arguments, folder=checkout / at, **variables)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a checkout of what the image gets, by .dockerignore, with an app that `startapp` made."""
    tmp_path = tmp_path_factory.mktemp("image")
    for line in (CHECKOUT / ".dockerignore").read_text().splitlines():
        if line.startswith("!") and (name := line[1:]) and (CHECKOUT / name).is_dir():
            shutil.copytree(CHECKOUT / name, tmp_path / name, symlinks=True)  # with its byte code: it is not made anew
        elif line.startswith("!"):
            shutil.copy(CHECKOUT / line[1:], tmp_path / line[1:])
    python(tmp_path, "../manage.py", "startapp", "shop", at="local")
    (tmp_path / "local" / "settings.py").write_text(SETTINGS)
    (tmp_path / "local" / "urls.py").write_text(URLS)
    (tmp_path / "local" / "shop" / "views.py").write_text(VIEWS)
    (tmp_path / "local" / "shop" / "tests.py").write_text(TESTS)
    (tmp_path / "local" / "shop" / "static").mkdir()
    (tmp_path / "local" / "shop" / "static" / "shop.css").write_text("/* mine */")
    return tmp_path


def test_the_image_has_an_app_of_ones_own(image: Path) -> None:
    """As the Dockerfile makes it: settings, URLs, modules and static files."""
    python(image, "manage.py", "collectstatic", "--no-input")
    assert (image / "staticfiles" / "shop.css").is_file()
    told = python(image, "manage.py", "shell", "--verbosity", "0", "-c", LOOK).splitlines()
    assert [line for line in told if "{" not in line] == [
        "Europe/Vienna choose-your-own 1 True",
        "/shop/ /admin/ my home 200",
    ]


def test_its_tests_run_and_its_types_are_read(image: Path) -> None:
    """By the same commands as ever; mypy knows what the settings add."""
    assert "\nOK\n" in python(image, "manage.py", "test", "shop")
    (image / "use.py").write_text(
        "import local.settings, shop.views\nreveal_type(local.settings.SHOP_API_KEY)\nreveal_type(shop.views.home)\n"
    )
    told = python(image, "-m", "mypy", "--follow-imports=silent", "--cache-dir=.mypy", "use.py")
    assert re.search(r'use.py:2: note: Revealed type is "(builtins\.)?str"', told)
    assert "django.http.response.HttpResponse" in told
