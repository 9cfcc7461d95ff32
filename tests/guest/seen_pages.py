"""Weir's pages below a prefix of the foreign project's, behind its login; what it has of its own stays as it was."""

from django.contrib.auth.models import User
from django.core import checks
from django.test import TestCase, TransactionTestCase
from django.urls import reverse

from weir.notifications import inbox
from weir.workers.mail import outbox
from weir.workers.mail.models import Email


class Pages(TransactionTestCase):
    """The operators' pages, behind the project's login."""

    PATHS = ("", "sites/", "fetches/", "unread/", "emails/", "audit/")

    def test_a_stranger_is_led_to_the_projects_login(self) -> None:
        answer = self.client.get("/weir/sites/")
        self.assertRedirects(answer, "/members/login/?next=/weir/sites/", fetch_redirect_response=False)

    def test_each_page_is_shown_below_the_prefix(self) -> None:
        self.client.force_login(User.objects.create_superuser("root"))
        for path in self.PATHS:
            answer = self.client.get(f"/weir/{path}")
            assert answer.status_code == 200, path
            self.assertContains(answer, 'href="/weir/fetches/"')
            self.assertNotContains(answer, "Sign out")
        with self.settings(WEIR_LOGOUT_URL="/members/logout/"):
            self.assertContains(self.client.get("/weir/"), 'action="/members/logout/"')

    def test_where_to_sign_out_is_checked(self) -> None:
        for to, told in {"": [], "/members/logout/": [], "login": [], "logout": ["weir.E035"]}.items():
            with self.settings(WEIR_LOGOUT_URL=to):
                assert [found.id for found in checks.run_checks(tags=["urls"])] == told
        with self.settings(WEIR_LOGOUT_URL="logout", ROOT_URLCONF="weir.api.urls"):  # without these pages
            assert checks.run_checks(tags=["urls"]) == []

    def test_who_may_not_see_them_is_told_so(self) -> None:
        self.client.force_login(User.objects.create_user("kim"))
        self.assertContains(self.client.get("/weir/"), "Not for this account", status_code=403)

    def test_an_email_has_no_link_to_an_admin_that_is_not_there(self) -> None:
        self.client.force_login(User.objects.create_superuser("root"))
        outbox.send_once("guest.hello", "1", to="kim@a.example")
        page = self.client.get(f"/weir/emails/{Email.objects.get().pk}/")
        self.assertContains(page, "kim@a.example")
        self.assertNotContains(page, "admin")

    def test_machines_are_answered_without_a_login(self) -> None:
        with self.settings(WEIR_METRICS_FOR_LOOPBACK=True):
            assert self.client.get("/weir/metrics").status_code == 200
        assert self.client.get("/members/bell/").status_code == 401


class Bell(TransactionTestCase):
    """The bell, without its middleware: that only makes polls cheap."""

    def test_it_counts_and_tells_a_poll_that_nothing_has_changed(self) -> None:
        kim = User.objects.create_user("kim")
        inbox.notify(kim.pk, "news", "Hello")
        self.client.force_login(kim)
        first = self.client.get("/members/bell/")
        assert first.json() == {"unread": 1}
        again = self.client.get("/members/bell/", headers={"If-None-Match": first.headers["ETag"]})
        assert again.status_code == 304


class Names(TestCase):
    """Names of URLs are the project's."""

    def test_namespaces_of_the_project_lead_where_they_led(self) -> None:
        names = ("ops:overview", "bell:count", "api:status")
        assert [reverse(name) for name in names] == ["/ours/ops/", "/ours/bell/", "/ours/api/"]
        assert [found for found in checks.run_checks() if (found.id or "").startswith("urls.")] == []

    def test_its_error_pages_stay_its_own(self) -> None:
        """Weir's templates have no 404.html, which Django would take for any page."""
        answer = self.client.get("/nothing/")
        assert answer.status_code == 404
        self.assertNotContains(answer, "Weir", status_code=404)
