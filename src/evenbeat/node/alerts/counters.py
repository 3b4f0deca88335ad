"""What became of notifications since the node was started, in numbers."""


class AlertCounters:
    """Counts by outcome: sent, suppressed, waiting (items); delivered, failed, given up (messages)."""

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}

    def add(self, outcome: str, number: int = 1) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + number
