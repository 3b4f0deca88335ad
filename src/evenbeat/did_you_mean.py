"""Suggestions for an unknown word: a similar known word, or the list of known ones, both of limited length."""

from collections.abc import Collection
from difflib import get_close_matches
from itertools import islice
from typing import Final

LONGEST: Final = 64
"""Characters of a word that is compared: nobody mistypes a longer one by a letter."""
MOST_COMPARED: Final = 5_000
"""Known words that one is compared with; 5,000 take about 50 ms."""
MOST_LISTED: Final = 20


def nearest_words(word: str, known: Collection[str], n: int = 1, cutoff: float = 0.6) -> list[str]:
    """The known words that look most like it; none if the word is too long, or too many are known."""
    if len(word) > LONGEST or len(known) > MOST_COMPARED:
        return []
    return get_close_matches(word, known, n=n, cutoff=cutoff)


def list_known(known: Collection[str], none: str = "none") -> str:
    """The known words for a message, in their order; of many only the first, and how many more there are."""
    first = ", ".join(islice(known, MOST_LISTED))
    more = len(known) - MOST_LISTED
    return f"{first} and {more:,} more" if more > 0 else first or none
