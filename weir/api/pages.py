"""Pages for people about each kind of problem, and the answer at paths that have no operation."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from weir.api.http import problems
from weir.api.http.problems import NOT_FOUND, Problem


def problem(request: HttpRequest, name: str) -> HttpResponse:
    """Show the page about a kind of problem."""
    kind = problems.KINDS.get(name)
    return nothing(request) if kind is None else render(request, "weir/api/problem.html", {"kind": kind})


def nothing(request: HttpRequest) -> HttpResponse:
    """Answer at a path that has no operation."""
    document = reverse("weir_api:v1:openapi-json")
    return Problem(NOT_FOUND, f"There is nothing at {request.path}: {document} has all that there is.").response()
