"""What operators can do to endpoints of webhooks."""

from typing import Final

from weir.ops import forms
from weir.ops.deeds import Deed
from weir.workers.webhooks import actions as webhooks

WEBHOOKS: Final = {
    "add": Deed(
        title="Add an endpoint",
        explains="Webhooks are sent there for what ends from now on.",
        action=webhooks.ADD,
        form=forms.AddEndpoint,
        do=lambda actor, _all, values: webhooks.add(actor, **values),
    ),
}
ENDPOINT: Final = {
    "pause": Deed(
        title="Pause",
        explains="Nothing is sent there until it is resumed; events wait as long as they are kept.",
        action=webhooks.PAUSE,
        do=lambda actor, endpoint_id, values: webhooks.pause(actor, endpoint_id, why=values["why"]),
    ),
    "resume": Deed(
        title="Resume",
        explains="What has waited is sent now.",
        action=webhooks.RESUME,
        do=lambda actor, endpoint_id, values: webhooks.resume(actor, endpoint_id, why=values["why"]),
    ),
    "test": Deed(
        title="Send a test",
        explains="A webhook of the type webhook.test is sent, which tells of nothing.",
        action=webhooks.TEST,
        do=lambda actor, endpoint_id, values: webhooks.send_test(actor, endpoint_id, why=values["why"]),
    ),
    "remove": Deed(
        title="Remove",
        explains="Nothing is sent there any more; its webhooks that have not started are cancelled.",
        action=webhooks.REMOVE,
        do=lambda actor, endpoint_id, values: webhooks.remove(actor, endpoint_id, why=values["why"]),
    ),
}
