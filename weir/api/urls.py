"""The API's URLs: its operations, its OpenAPI document, a page that shows this document, and the pages about problems.

Include them where you like: `path("api/", include("weir.api.urls"))`. No middleware is needed.
"""

from django.urls import URLPattern, URLResolver, path, re_path

from weir.api import answers, pages
from weir.api.v1 import api
from weir.postgres.own_commits import leave_commits_to

app_name = "weir_api"
urlpatterns: list[URLPattern | URLResolver] = [
    path("problems/<slug:name>", pages.problem, name="problem"),
    path("", api.urls),
    re_path("", pages.nothing),
]
answers.wrap(urlpatterns)
leave_commits_to(urlpatterns)
