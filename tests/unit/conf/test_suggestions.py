from tests.cases import for_each
from weir.conf.texts.suggestions import did_you_mean


@for_each(
    ("given", "suggested"),
    [
        ("forcast", " Did you mean forecast?"),
        ("pasue", " Did you mean pause?"),
        ("resum", " Did you mean resume?"),
        ("list", ""),
        ("", ""),
    ],
)
def test_the_closest_word_is_suggested_where_one_is_close(given: str, suggested: str) -> None:
    assert did_you_mean(given, ["forecast", "pause", "resume"]) == suggested
