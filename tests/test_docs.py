import pytest
from tools.docs import ROOT, broken_links, pages, rendered

PAGES = [str(page.relative_to(ROOT)) for page in pages()]


@pytest.mark.parametrize("page", PAGES)
def test_every_example_prints_what_the_page_says(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / page).read_text()
    assert rendered(text) == text


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    assert list(broken_links(ROOT / page)) == []


def test_a_page_that_lies_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    lie = "```console\n$ evenbeat explain '0 3 * * *' --second 0\nAt noon.\n```\n"
    assert "At 03:00 every day" in rendered(lie)
    assert rendered(lie) != lie
    with pytest.raises(AssertionError):
        rendered("```python\nassert 1 == 2\n```\n")
