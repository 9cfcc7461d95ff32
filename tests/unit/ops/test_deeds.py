"""What operators can do from the pages."""

from weir.ops.actions import DEEDS, TITLES


def test_an_action_has_one_title() -> None:
    """The page after an act knows only the action that was recorded: one fetch is retried by the same as many."""
    assert [deed.title for deed in DEEDS] == [TITLES[deed.action.name] for deed in DEEDS]
