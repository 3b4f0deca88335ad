from conftest import Evenbeat


def test_json_has_exactly_the_promised_keys(evenbeat: Evenbeat) -> None:
    result = evenbeat("explain", "0 3 * * *", "--second", "0", "--json")
    assert result.json == {
        "text": "At 03:00 every day, UTC time.",
        "resolved": "0 3 * * *",
        "warnings": [
            "'0' pins the minute, so all such tasks start together: 'H 3 * * *' runs as often and spreads them"
        ],
    }


def test_the_resolved_form_is_shown_to_people_where_it_differs(evenbeat: Evenbeat) -> None:
    assert "resolved:" in evenbeat("explain", "@daily", "--name", "x").out
    assert "resolved:" not in evenbeat("explain", "5 4 * * *").out


def test_the_rule_of_days_is_told(evenbeat: Evenbeat) -> None:
    either = evenbeat("explain", "H 0 13 * 5", "--json").json
    both = evenbeat("explain", "H 0 13 * 5", "--days", "and", "--json").json
    assert "or on Friday (whichever matches)" in either["text"]
    assert 'days = "and"' in either["warnings"][0]
    assert "if it's on Friday" in both["text"]
    assert both["warnings"] == []


def test_an_event_is_explained_too(evenbeat: Evenbeat) -> None:
    assert evenbeat("explain", "@shutdown", "--json").json == {
        "text": "At every orderly stop of the node.",
        "resolved": None,
        "warnings": [],
    }


def test_square_brackets_in_what_the_user_wrote_are_shown_as_they_are(evenbeat: Evenbeat) -> None:
    result = evenbeat("explain", "[bold] * * * *")
    assert result.code == 2
    assert "'[BOLD]'" in result.err
