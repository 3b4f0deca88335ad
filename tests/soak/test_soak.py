"""A short soak; `make soak` is the long one."""

import soak


def test_a_node_does_not_gather_descriptors_or_processes() -> None:
    samples, status = soak.soak(8_000)
    assert {"succeeded", "failed", "timeboxed", "broken"} <= status.outcomes.keys(), "all of the mix has happened"
    middle = len(samples) // 2
    assert max(s.descriptors for s in samples[middle:]) <= max(s.descriptors for s in samples[:middle]) + 8
    assert max(s.processes for s in samples) <= 1 + 1 + 2 + 4 + 1


def test_growth_is_found() -> None:
    flat = [soak.Sample(i, 100 << 20, 80, 8, 10 << 20) for i in range(100)]
    leaking = [sample._replace(memory=sample.memory + i * (1 << 20)) for i, sample in enumerate(flat)]
    forgetful = [sample._replace(descriptors=sample.descriptors + i) for i, sample in enumerate(flat)]
    assert soak.growth(flat) == []
    assert "memory grew" in soak.growth(leaking)[0]
    assert "descriptors grew" in soak.growth(forgetful)[0]
