"""Pages of Django's admin, as a browser asks for them."""

from django.test import Client
from django.urls import reverse


def page(client: Client, name: str, *arguments: object, **query: str) -> str:
    """Return a page that must answer 200."""
    response = client.get(reverse(name, args=arguments), query)
    assert response.status_code == 200
    return response.content.decode()


def act(client: Client, model: str, action: str, *ids: object) -> str:
    """Return the page that an action on some rows leads to."""
    url = reverse(f"{model}_changelist")
    return client.post(url, {"action": action, "_selected_action": ids}, follow=True).content.decode()
