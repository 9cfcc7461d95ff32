"""The API below a prefix of the foreign project's, and the foreign project's own API below /api/."""

from typing import Any
from unittest import mock

from django.test import Client, TestCase, TransactionTestCase

from weir.api.tokens import actions, scopes
from weir.workers.audit import acting

PROBLEM = "application/problem+json"


class OwnApi(TestCase):
    """What stands below /api/ is the foreign project's."""

    def test_its_refusals_stay_its_own(self) -> None:
        answer = self.client.post("/api/v3/checks/", b"{", content_type="application/json")
        assert (answer.status_code, answer.json()) == (400, {"error": "could not parse request body"})
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert self.client.get("/api/v3/checks/").json() == {"error": "post it"}
        assert self.client.get("/api/v3/nothing/").headers["Content-Type"] == "text/html; charset=utf-8"

    def test_its_answers_get_no_header_and_lose_no_cookie(self) -> None:
        answer = self.client.post("/api/v3/checks/", b"{}", content_type="application/json")
        assert answer.cookies["seen"].value == "1"
        assert "Cache-Control" not in answer.headers
        assert "Content-Security-Policy" not in answer.headers


class WeirsApi(TransactionTestCase):
    """What Weir's API promises holds where the foreign project has included it."""

    def call(self, method: str, path: str, body: bytes = b"", **headers: str) -> Any:
        return Client(raise_request_exception=False).generic(method, path, body, "application/json", headers=headers)

    def token(self) -> str:
        made = actions.create(acting.of_shell("pat"), "shop", scopes.SCOPES, rate="1000/s", burst=1000)
        return f"Bearer {made.secret}"

    def check(self, answer: Any, status: int, kind: str) -> None:
        assert (answer.status_code, answer.headers["Content-Type"]) == (status, PROBLEM)
        assert answer.json()["type"] == f"/weir/api/problems/{kind}"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Access-Control-Allow-Origin"] == "*"

    def test_what_is_refused_is_a_problem_of_its_prefix(self) -> None:
        token = self.token()
        self.check(self.call("GET", "/weir/api/v1/status"), 401, "unauthenticated")
        self.check(self.call("GET", "/weir/api/v1/nothing"), 404, "not-found")
        self.check(self.call("POST", "/weir/api/v1/nothing"), 404, "not-found")
        self.check(self.call("PATCH", "/weir/api/v1/status"), 405, "method-not-allowed")
        self.check(self.call("POST", "/weir/api/v1/fetches", b"{", authorization=token), 400, "malformed")
        assert self.client.get("/weir/api/problems/malformed").status_code == 200
        assert "/weir/api/openapi.json" in self.call("GET", "/weir/api/nothing").json()["detail"]

    def test_an_error_of_ours_is_a_problem_and_is_told(self) -> None:
        with (
            mock.patch("weir.api.operations.fetches.fetch_way", side_effect=RuntimeError),
            self.assertLogs("django.request", "ERROR") as lines,
        ):
            answer = self.call("GET", "/weir/api/v1/fetches/1", authorization=self.token())
        self.check(answer, 500, "failed")
        assert [bool(record.exc_info) for record in lines.records] == [True], "once, with its traceback"

    def test_a_program_is_answered(self) -> None:
        """Without a login of the project's, which demands one of whoever has no token."""
        body = b'{"urls": ["https://a.example/"]}'
        answer = self.call("POST", "/weir/api/v1/fetches", body, authorization=self.token())
        assert answer.status_code == 202
        assert self.client.get("/weir/api/openapi.json").status_code == 200
        self.assertContains(self.client.get("/weir/api/docs"), "/weir/api/openapi.json")
