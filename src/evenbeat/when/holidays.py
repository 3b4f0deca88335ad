"""Public holidays by country, from the library `holidays` (the extra `evenbeat[holidays]`)."""

from datetime import date
from functools import lru_cache
from typing import Any
from warnings import catch_warnings, simplefilter

from evenbeat.did_you_mean import nearest_words
from evenbeat.model import Invalid


def check_holidays(where: str) -> None:
    """Refuse a country or part of it that the library does not know, and say which it does."""
    known = _library().list_supported_countries(include_aliases=True)
    country, _, part = where.partition("-")
    if country not in known:
        near = nearest_words(country, known, n=3, cutoff=0.5)
        hint = f", did you mean {' or '.join(near)}?" if near else ", accepted: two-letter codes such as DE, FR, US"
        raise Invalid(f"no holidays are known for {country!r}{hint}")
    if part and not _spelled(part, known[country]):
        parts = ", ".join(known[country]) or "none"
        raise Invalid(f"{country} has no part {part!r}, accepted: {parts}")


@lru_cache(maxsize=4096)
def holiday_dates(where: str, year: int) -> tuple[date, ...]:
    """The public holidays of a year, those moved from a weekend included."""
    country, _, part = where.partition("-")
    if part:
        part = _spelled(part, _library().list_supported_countries(include_aliases=True)[country])
    with catch_warnings():
        # The library warns about years for which it must estimate; its best guess is what there is.
        simplefilter("ignore")
        found = _library().country_holidays(country, subdiv=part or None, years=year)
    return tuple(sorted(day for day in found if day.year == year))


def _spelled(part: str, parts: list[str]) -> str:
    """The part as the library spells it (Flemish, BY), whatever its case; empty if it has no such part."""
    return next((p for p in parts if p.upper() == part.upper()), "")


def _library() -> Any:
    try:
        import holidays  # noqa: PLC0415 - an extra, loaded only where a period asks for it
    except ImportError:
        raise Invalid("holidays need the extra: pip install 'evenbeat[holidays]'") from None
    return holidays
