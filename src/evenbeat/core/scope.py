"""What a token may see and do at all: everything, or only tasks of an owner, or with certain labels."""

from collections.abc import Mapping
from typing import NamedTuple


class Scope(NamedTuple):
    """Tasks that fit all of it."""

    owner: str | None = None
    labels: Mapping[str, str] = {}

    def contains(self, owner: str, labels: Mapping[str, str]) -> bool:
        """Does a task of this owner, with these labels, belong to it?"""
        return self.owner in (None, owner) and all(labels.get(key) == value for key, value in self.labels.items())

    def __str__(self) -> str:
        parts = [] if self.owner is None else [f"owner {self.owner}"]
        return ", ".join([*parts, *(f"label {key}={value}" for key, value in self.labels.items())])
