"""Pages for people: what each kind of problem means. And the answer at a path that has no operation."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from weir.api.http import problems
from weir.api.http.problems import NOT_FOUND, Problem


def problem(request: HttpRequest, name: str) -> HttpResponse:
    """Show what a kind of problem means."""
    kind = problems.KINDS.get(name)
    return nothing(request) if kind is None else render(request, "weir/api/problem.html", {"kind": kind})


def nothing(request: HttpRequest) -> HttpResponse:
    """Answer at a path that has no operation."""
    document = reverse("weir_api:v1:openapi-json")
    return Problem(NOT_FOUND, f"There is nothing at {request.path}: {document} has all that there is.").response()
