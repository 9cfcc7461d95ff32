"""URLs for logging in and out."""

from django.urls import path

from project.logins import views
from weir.postgres.own_commits import leave_commits_to

urlpatterns = [
    path("", views.sign_in, name="sign-in"),
    path("out/", views.sign_out, name="sign-out"),
    path("with/<str:token>/", views.sign_in_by_link, name="sign-in-by-link"),
]
leave_commits_to(urlpatterns)
