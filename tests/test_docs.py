from pathlib import Path

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


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# Who is told what, and when\n\n## `ack`, comment\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](there.md#who-is-told-what-and-when) [b](there.md#ack-comment) [c](#here) [d](there.md)\n"
    )
    assert list(broken_links(page)) == []
    page.write_text("[a](there.md#when) [b](gone.md) [c](#here) [d](https://example.org/#x) [e](gone.md#here)\n")
    assert list(broken_links(page)) == ["there.md#when", "gone.md", "#here", "gone.md"]


def test_a_page_that_lies_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    lie = "```console\n$ evenbeat explain '0 3 * * *' --second 0\nAt noon.\n```\n"
    assert "At 03:00 every day" in rendered(lie)
    assert rendered(lie) != lie
    with pytest.raises(AssertionError):
        rendered("```python\nassert 1 == 2\n```\n")
