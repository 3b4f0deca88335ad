"""What became of every nominal time and every off-grid run of a task, in a form that two worlds can be compared by."""

from path_world import Skipped, World

from evenbeat.model import SECOND, RunKind

Line = tuple[object, ...]


def timetable(world: World, name: str) -> list[Line]:
    """In the order of nominal times; ranges of skips that follow each other for one reason are one."""
    lines: list[tuple[int, int, Line]] = [
        (ran.nominal, 1, ("ran", ran.kind.word, ran.nominal / SECOND)) for ran in world.history.ran if ran.task == name
    ]
    lines += [
        (s.first, 1, ("refused", s.kind.word, s.first / SECOND, s.reason))
        for s in world.history.skipped
        if s.task == name and s.kind is not RunKind.GRID
    ]
    skipped = [s for s in world.history.skipped if s.task == name and s.kind is RunKind.GRID]
    runs = [
        ran.nominal for ran in world.history.ran if ran.task == name and ran.kind in (RunKind.GRID, RunKind.CATCH_UP)
    ]
    lines += [
        (s.first, 0, ("skipped", s.reason, s.first / SECOND, s.last / SECOND, s.times)) for s in merged(skipped, runs)
    ]
    return [line for _, _, line in sorted(lines, key=lambda line: line[:2])]


def merged(skipped: list[Skipped], runs: list[int]) -> list[Skipped]:
    found: list[Skipped] = []
    for s in sorted(skipped, key=lambda s: s.first):
        before = found[-1] if found else None
        if before is not None and before.reason == s.reason and not any(before.last < run < s.first for run in runs):
            found[-1] = before._replace(last=s.last, times=before.times + s.times)
        else:
            found.append(s)
    return found
