"""Patterns of names: * stands for any text, ? for any character."""

import re
from functools import lru_cache


def is_pattern(name: str) -> bool:
    """Whether a name is a pattern, which may match several names."""
    return "*" in name or "?" in name


def matches_pattern(pattern: str, name: str) -> bool:
    """Does the whole name match?"""
    return pattern_regex(pattern).match(name) is not None


@lru_cache(maxsize=256)
def pattern_regex(pattern: str) -> re.Pattern[str]:
    """Each star matches as little as possible and never backtracks, so that many stars cost no more than one."""
    *parts, last = ("".join("." if char == "?" else re.escape(char) for char in part) for part in pattern.split("*"))
    if not parts:
        return re.compile(f"(?:{last})\\Z", re.DOTALL)
    first, *between = parts
    stars = "".join(f"(?>.*?{part})" for part in between if part)
    return re.compile(f"{first}{stars}.*{last}\\Z", re.DOTALL)
