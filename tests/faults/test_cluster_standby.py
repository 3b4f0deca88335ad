"""A standby is promoted: schedulers go on by what the database knows, and nothing is lost.

An asynchronous one lacks the last commits: `make test` forgets a few seconds once, `make faults` (EVENBEAT_FAULTS=full)
more often and for longer. A synchronous one lacks nothing that was ever confirmed.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from breakable_cluster import BreakableCluster, Servers
from budget import IS_FULL
from cluster_tasks import mixed
from postgres_standby import PrimaryAndStandby, promoted_with_a_loss

from evenbeat.testing.nats_server import NatsServer

PROMOTIONS = range(5 if IS_FULL else 1)
LOSSES = [1.0, 4.0, 8.0] * 2 if IS_FULL else [3.0]


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path_factory.mktemp("nats"), 3, options=("--no_advertise",))
    server.start()
    yield server
    server.kill()


@pytest.mark.parametrize("seconds", LOSSES)
def test_an_asynchronous_standby_is_promoted(tmp_path: Path, nats: NatsServer, seconds: float) -> None:
    pair = PrimaryAndStandby()
    cluster = BreakableCluster(tmp_path, Servers(pair.primary, nats), mixed(tmp_path))
    try:
        cluster.begin()
        before = {program.pid for program in cluster.programs.values()}
        pair.follow()
        with cluster.fault("promote-standby"):
            since = promoted_with_a_loss(pair, seconds)
            cluster.note("forgotten", str(since))
        assert before == {program.pid for program in cluster.programs.values()}, "none of them ended"
        assert all(program.is_alive for program in cluster.programs.values())
        assert cluster.lasting_findings() == [], cluster.tails()
    finally:
        cluster.close()
        pair.close()


@pytest.mark.parametrize("times", PROMOTIONS)
def test_a_synchronous_standby_is_promoted_and_nothing_is_missing(tmp_path: Path, nats: NatsServer, times: int) -> None:
    """No moment is forgiven: whatever a run has written down, the promoted server accounts for."""
    pair = PrimaryAndStandby()
    cluster = BreakableCluster(tmp_path, Servers(pair.primary, nats), mixed(tmp_path))
    try:
        cluster.begin()
        pair.follow()
        pair.be_synchronous()
        cluster.live_on()
        pids = {program.pid for program in cluster.programs.values()}
        cluster.wait_for_run("long", "slow")
        with cluster.fault("promote-synchronous-standby"):
            pair.promote()
        assert pids == {program.pid for program in cluster.programs.values()}, "none of them ended"
        assert "contradicts what it had confirmed" not in cluster.tails(most=10_000), "none missed anything"
        assert cluster.lasting_findings() == [], cluster.tails()
    finally:
        cluster.close()
        pair.close()
