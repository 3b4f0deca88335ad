"""Nodes that share a store: who has which task, how it goes from one to the other, and what others ask of them."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cluster_nodes import Cluster, Member, cluster, sleeping, task
from msgspec.structs import replace
from waiting import eventually_async

from evenbeat.client.store_based import LocalClient
from evenbeat.core import partition_ownership
from evenbeat.core.task import Flag
from evenbeat.load.config import BadFileError
from evenbeat.model import HOUR, PARTITION_COUNT, Cause, Instant, Outcome, RunKind, State, partition_of
from evenbeat.store.contract import Filter, ProblemFilter
from evenbeat.store.problem_records import ProblemRecord
from evenbeat.testing.postgres_server import PostgresServer
from evenbeat.wire.replies import Forbidden
from evenbeat.wire.requests import ApplyFiles, GetCluster, GetLiveTaskState

MANY = 24
"""Tasks, of which each of two nodes is sure to get some."""
Scenario = Callable[[Cluster], Coroutine[None, None, None]]


@pytest.fixture
def run_scenario(newest_postgres: PostgresServer, nats_url: str, tmp_path: Path) -> Callable[[Scenario], None]:
    """Run a scenario in a cluster of its own."""

    def run(scenario: Scenario) -> None:
        async def whole() -> None:
            async with cluster(newest_postgres.create_database(), nats_url, tmp_path) as made:
                await scenario(made)

        asyncio.run(whole())

    return run


def test_a_node_alone_has_everything_and_who_joins_gets_a_share(run_scenario: Callable[[Scenario], None]) -> None:
    async def scenario(c: Cluster) -> None:
        names = {f"t{i}" for i in range(100)}
        await c.add(*(task(name, 3600) for name in names))
        one = await c.start()
        assert one.names == names
        phases = {entry.task.name: entry.task.schedule.phase for entry in c.store.entries()}
        two = await c.start()
        await eventually_async(lambda: len(two.names) + len(one.names) == len(names) and two.names, "a share")
        assert one.names | two.names == names
        assert not one.names & two.names
        view = c.store.view()
        owners = partition_ownership.partition_owners([lease.node for lease in view.leases])
        await eventually_async(lambda: c.store.view().holders == owners, "the assignment")
        assert phases == {entry.task.name: entry.task.schedule.phase for entry in c.store.entries()}
        assert two.node.status().tasks == len(names) or await _sums_up(two, len(names))

    run_scenario(scenario)


async def _sums_up(member: Any, tasks: int) -> bool:
    await eventually_async(lambda: member.node.status().tasks == tasks, "the status of all")
    return True


def test_a_node_that_leaves_hands_everything_over_and_nothing_is_missed(
    run_scenario: Callable[[Scenario], None],
) -> None:
    async def scenario(c: Cluster) -> None:
        await c.start_worker()
        tasks = [task(f"t{i}", tolerance=990_000) for i in range(8)]  # a slow machine may be late by most of a second
        await c.add(*tasks, task("long", 3600, "sleep", "3"))
        one, two = await c.start(), await c.start()
        await eventually_async(lambda: one.names and two.names and all(c.runs(f"t{i}") for i in range(8)), "first runs")
        await c.do(lambda client: client.run_now(["long"], wait=False))
        await eventually_async(lambda: any(run.ended is None and run.started for run in c.runs("long")), "the long run")
        leaving, staying = (one, two) if "long" in one.names else (two, one)
        c.members.remove(leaving)
        await leaving.stop()
        await eventually_async(lambda: len(staying.names) == 9, "the takeover")
        await eventually_async(lambda: c.runs("long")[0].ended, "the end of the long run")
        assert c.runs("long")[0].outcome is Outcome.SUCCEEDED
        await asyncio.sleep(1.5)
        for i in range(8):
            entry = c.store.find(f"t{i}")
            assert entry is not None
            accounted = [run.nominal for run in c.runs(f"t{i}") if run.kind is RunKind.GRID]
            for skip in c.store.skips(entry.number):  # a slow machine may be late by more than an interval
                accounted += range(skip.first, skip.last + 1, 1_000_000)
            assert {b - a for a, b in pairwise(sorted(accounted))} == {1_000_000}

    run_scenario(scenario)


def test_what_no_worker_has_taken_goes_out_again_after_a_handover(run_scenario: Callable[[Scenario], None]) -> None:
    names = [f"t{i}" for i in range(MANY)]

    async def scenario(c: Cluster) -> None:
        await c.add(*(sleeping(name, pool="far") for name in names))
        one = await c.start()
        await c.do(lambda client: client.run_now(names, wait=False))
        await eventually_async(lambda: all(c.runs(name) for name in names), "claims")
        two = await c.start()
        await eventually_async(lambda: two.names, "a share")
        await c.start_worker("far")
        await eventually_async(lambda: all(c.runs(name)[0].ended for name in names), "the runs")
        assert one.names
        assert {c.runs(name)[0].outcome for name in names} == {Outcome.SUCCEEDED}
        assert [c.runs(name) for name in names if len(c.runs(name)) != 1] == []

    run_scenario(scenario)


@pytest.mark.parametrize("is_handed_over", [False, True])
def test_a_task_that_is_removed_and_comes_back_while_it_runs_is_the_same(
    run_scenario: Callable[[Scenario], None], tmp_path: Path, *, is_handed_over: bool
) -> None:
    log, hold = tmp_path / "log", tmp_path / "hold"
    script = f"echo start >> {log}; while [ -e {hold} ]; do sleep 0.02; done; echo end >> {log}"

    async def scenario(c: Cluster) -> None:
        hold.touch()
        await c.start_worker()
        await c.add(job := sleeping("job", "sh", "-c", script))
        number = c.store.find("job").number  # type: ignore[union-attr]
        one = await c.start()
        await c.do(lambda client: client.run_now(["job"], wait=False))
        await eventually_async(log.exists, "the run")
        await c.do(lambda client: client.remove(Filter(names=("job",))))
        await eventually_async(lambda: not one.names, "the removal")
        if is_handed_over:
            two = await c.start()
            c.members.remove(one)
            await one.stop()
            await eventually_async(lambda: two.node.turns.pending_runs, "the takeover")
            one = two
        await c.add(job)
        assert c.store.find("job").number == number  # type: ignore[union-attr]
        await eventually_async(lambda: one.names, "the return")
        await c.do(lambda client: client.run_now(["job"], wait=False))
        assert len(one.node.turns.pending_runs) == 1
        hold.unlink()
        await eventually_async(lambda: log.read_text().split() == ["start", "end"] * 2, "the next run")
        await eventually_async(lambda: [run.outcome for run in c.runs("job")] == [Outcome.SUCCEEDED] * 2, "both ends")

    run_scenario(scenario)


def test_a_node_whose_lease_was_taken_starts_over_and_keeps_nothing(run_scenario: Callable[[Scenario], None]) -> None:
    async def scenario(c: Cluster) -> None:
        await c.start_worker()
        await c.add(*(task(f"t{i}") for i in range(8)))
        one = await c.start()
        await eventually_async(lambda: all(c.runs(f"t{i}") for i in range(8)), "first runs")
        before = one.membership.lease.id
        with psycopg.connect(c.dsn, autocommit=True) as connection:
            connection.execute("UPDATE evenbeat.leases SET expires = 0")
        view = c.store.view()
        assert c.store.revoke_expired_lease(before, view.leases[0].epoch)
        await eventually_async(
            lambda: one.membership.others.fenced == 1 and one.membership.lease.id != before, "a new identity"
        )
        await eventually_async(lambda: len(one.names) == 8, "a new start")
        seen = {name: len(c.runs(name)) for name in one.names}
        await eventually_async(lambda: all(len(c.runs(name)) > count for name, count in seen.items()), "runs after it")
        for i in range(8):
            nominal = [run.nominal for run in c.runs(f"t{i}") if run.kind is RunKind.GRID]
            assert len(nominal) == len(set(nominal))

    run_scenario(scenario)


def test_problems_go_with_their_tasks_from_node_to_node(
    run_scenario: Callable[[Scenario], None], tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    names = [f"t{i}" for i in range(MANY)]

    def counted(member: Member) -> int:
        return sum(member.node.tasks.problems.count_by_state().values())

    def open_problems(c: Cluster) -> list[ProblemRecord]:
        """But for their holds: a check that another node takes over awaits a fresh result, from its next turn on."""
        return [replace(problem, hold="", held_since=None) for problem in c.store.problems()]

    async def scenario(c: Cluster) -> None:
        await c.start_worker()
        command = ("test", "-e", str(mended))
        await c.add(*(sleeping(name, *command, check=True, attempts=1) for name in names[::2]))
        await c.add(*(sleeping(name, *command) for name in names[1::2]))
        one = await c.start()
        await c.do(lambda client: client.run_now(names, wait=True))
        opened = open_problems(c)
        assert sorted(problem.task for problem in opened) == sorted(names)
        assert {(problem.cause, problem.state) for problem in opened} == {
            (Cause.STATE, State.WARNING),
            (Cause.FAILED, State.CRITICAL),
        }
        two = await c.start()
        await eventually_async(lambda: two.names and len(one.names) + len(two.names) == MANY, "a share")
        assert (counted(one), counted(two)) == (len(one.names), len(two.names))
        assert open_problems(c) == opened
        c.members.remove(one)
        await one.stop()
        await eventually_async(lambda: len(two.names) == MANY, "the takeover")
        assert counted(two) == MANY
        assert open_problems(c) == opened
        mended.touch()
        await c.do(lambda client: client.run_now(names, wait=True))
        assert counted(two) == 0
        closed = c.store.problems(ProblemFilter(is_open=None))
        assert [(p.id, p.opened, p.closed is None) for p in closed] == [(p.id, p.opened, False) for p in opened]

    run_scenario(scenario)


def test_a_node_whose_lease_was_taken_has_the_problems_again(run_scenario: Callable[[Scenario], None]) -> None:
    async def scenario(c: Cluster) -> None:
        await c.start_worker()
        await c.add(*(sleeping(name, "false") for name in ("a", "b")))
        one = await c.start()
        await c.do(lambda client: client.run_now(["a", "b"], wait=True))
        opened = c.store.problems()
        with psycopg.connect(c.dsn, autocommit=True) as connection:
            connection.execute("UPDATE evenbeat.leases SET expires = 0")
        assert c.store.revoke_expired_lease(one.membership.lease.id, c.store.view().leases[0].epoch)
        await eventually_async(lambda: one.membership.others.fenced >= 1 and one.names == {"a", "b"}, "a new start")
        assert one.node.tasks.problems.count_by_state()[State.CRITICAL] == 2
        assert c.store.problems() == opened

    run_scenario(scenario)


def test_changes_by_anybody_reach_whoever_has_the_task(run_scenario: Callable[[Scenario], None]) -> None:
    async def scenario(c: Cluster) -> None:
        one, two = await c.start(), await c.start()
        held = one.membership.partitions, two.membership.partitions
        await eventually_async(lambda: sum(len(some.held) for some in held) == PARTITION_COUNT, "shares")
        await c.add(*(task(f"t{i}", 3600) for i in range(30)))
        await eventually_async(lambda: len(one.names) + len(two.names) == 30, "the news")
        assert one.names
        assert two.names
        await c.do(lambda client: client.set("t3", task("t3", 1800)))
        holder = one if "t3" in one.names else two
        row = holder.node.tasks.names.find("t3")
        assert row is not None
        await eventually_async(lambda: holder.node.tasks.columns.every[row] == 1800 * 1_000_000, "the change")
        from evenbeat.store.contract import Filter

        await c.do(lambda client: client.remove(Filter(names=("t1*",))))
        await eventually_async(lambda: len(one.names) + len(two.names) == 19, "the removal")

    run_scenario(scenario)


def test_what_only_the_holder_can_do_is_passed_on_to_it(run_scenario: Callable[[Scenario], None]) -> None:
    names = [f"t{i}" for i in range(MANY)]

    async def scenario(c: Cluster) -> None:
        await c.start_worker()
        checks = [task(name, 3600, check=True, passive=True) for name in ("check", "check2")]
        await c.add(*(sleeping(name, "echo", name) for name in names), *checks)
        one, two = await c.start(), await c.start()
        await eventually_async(
            lambda: len(one.names) + len(two.names) == MANY + 2 and one.names and two.names, "shares"
        )
        ended = await c.do(lambda client: client.run_now(names, wait=True))
        found = sorted((end.task, end.outcome, end.output) for end in ended)
        assert found == sorted((name, "succeeded", f"{name}\n") for name in names)
        assert len([change for change in c.store.changes("t1") if change.action == "forced"]) == 1
        for name in ("check", "check2"):
            taken = await c.do(partial(_submit_down, name))
            assert taken.state is State.CRITICAL
        # The same, asked of each node.
        numbers = {entry.task.name: entry.number for entry in c.store.entries()}
        for member in (one, two):
            perform = member.membership.requests.perform
            assert perform is not None
            here = next(name for name in names if name in member.names)
            reply = await perform(GetLiveTaskState(numbers[here]))
            assert reply is not None and reply.moment is not None
            await eventually_async(partial(_knows_all, member), "news of the others")
            reply = await perform(GetCluster())
            assert reply is not None and reply.cluster is not None
            assert {node.id for node in reply.cluster.nodes} == {one.membership.lease.id, two.membership.lease.id}
            assert [worker.name for worker in reply.cluster.workers] == ["worker"]

    run_scenario(scenario)


def _knows_all(member: Member) -> bool:
    """What one node knows of the others is up to a second old."""
    seen = member.membership.others.view()
    return seen is not None and len(seen.nodes) == 2 and len(seen.workers) == 1


def _submit_down(name: str, client: LocalClient) -> Any:
    return client.submit_result(name, 2, "DOWN")


def test_limits_hold_for_all_nodes_together(run_scenario: Callable[[Scenario], None], tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()

    async def scenario(c: Cluster) -> None:
        file = tmp_path / "limits.toml"
        script = f'echo "+ $$" >> {log}; sleep 0.3; echo "- $$" >> {log}'
        file.write_text(
            "[limits]\ntwo = 2\n"
            + "".join(
                f'[tasks.t{i}]\nevery = "1s"\nlimit = "two"\nshell = true\ncommand = {script!r}\n' for i in range(10)
            )
        )
        one, two = await c.start(files=(file,)), await c.start()
        await c.start_worker()
        await c.start_worker()
        await eventually_async(lambda: one.names and two.names, "shares")
        await eventually_async(lambda: log.read_text().count("-") >= 20, "runs")
        running = most = 0
        for line in log.read_text().splitlines():
            running += 1 if line[0] == "+" else -1
            most = max(most, running)
        assert most == 2
        shares = c.store.view().shares.get("two", {})  # none, while a share goes from one to the other
        assert sum(shares.values()) <= 2

    run_scenario(scenario)


def test_slots_and_limits_that_are_set_at_run_time_hold_for_all_nodes(run_scenario: Callable[[Scenario], None]) -> None:
    async def scenario(c: Cluster) -> None:
        c.store.set_settings({"limits:test": '{"db": 4}'})
        await c.add(*(task(f"t{i}", 3600, limit="db") for i in range(MANY)))
        one, two = await c.start(), await c.start()
        await c.do(lambda client: client.set_slots(7))
        await c.do(lambda client: client.set_limit("db", 2))
        for member in (one, two):
            live = member.node.live
            await eventually_async(lambda live=live: (live.slots.most, live.limits["db"].most) == (7, 2), "the news")  # type: ignore[misc]
            assert (live.slots.source, live.limits["db"].source) == ("set by somebody", "set by somebody")
        await eventually_async(lambda: one.node.status().slots <= 7, "the shares")
        await c.do(lambda client: client.set_slots(None))
        await eventually_async(lambda: two.node.live.slots.source == "default", "the reset")

    run_scenario(scenario)


def test_reboot_runs_once_for_a_start_of_the_cluster_and_shutdown_when_the_last_one_stops(
    run_scenario: Callable[[Scenario], None],
) -> None:
    from evenbeat.model import Job, Schedule, Task

    async def scenario(c: Cluster) -> None:
        await c.start_worker()
        both = [Task(f"at {w}", Schedule(cron=f"@{w}"), Job(command=("noop",))) for w in ("reboot", "shutdown")]
        await c.add(*both)
        await c.start()
        await eventually_async(lambda: c.runs("at reboot"), "@reboot")
        await c.start()
        await eventually_async(lambda: all(len(m.membership.partitions.held) > 0 for m in c.members), "shares")
        await c.members.pop(0).stop()
        assert not c.runs("at shutdown")
        await c.members.pop(0).stop()
        assert len(c.runs("at reboot")) == 1
        assert len(c.runs("at shutdown")) == 1
        assert not c.store.view().leases

    run_scenario(scenario)


def test_shutdown_runs_once_when_all_stop_at_once(run_scenario: Callable[[Scenario], None]) -> None:
    from evenbeat.model import Job, Schedule, Task

    async def scenario(c: Cluster) -> None:
        await c.start_worker()
        await c.add(*(Task(f"t{i}", Schedule(cron="@shutdown"), Job(command=("noop",))) for i in range(MANY)))
        for _ in range(3):
            await c.start()
        await eventually_async(lambda: all(m.membership.partitions.held for m in c.members), "shares")
        await asyncio.gather(*(m.stop() for m in c.members))
        c.members.clear()
        assert [len(c.runs(f"t{i}")) for i in range(MANY)] == [1] * MANY
        assert not c.store.view().leases

    run_scenario(scenario)


def test_every_partition_is_asked_for_by_its_number(run_scenario: Callable[[Scenario], None]) -> None:
    async def scenario(c: Cluster) -> None:
        await c.add(*(task(f"t{i}", 3600) for i in range(600)))
        found = [entry.number for p in range(PARTITION_COUNT) for entry in c.store.entries_in([p])]
        assert sorted(found) == sorted(entry.number for entry in c.store.entries())
        assert all(partition_of(entry.number) == 7 for entry in c.store.entries_in([7]))

    run_scenario(scenario)


def test_a_node_whose_file_is_broken_when_it_comes_back_goes_on_with_what_was_last_applied(
    run_scenario: Callable[[Scenario], None], tmp_path: Path
) -> None:
    """Also while another node lives, which knows what the first one says of its files."""
    file = tmp_path / "tasks.toml"
    good = '[limits]\nfew = 2\n[tasks.a]\nevery = "1s"\ncommand = ["noop"]\nlimit = "few"\n'

    async def scenario(c: Cluster) -> None:
        file.write_text(good)
        await c.start_worker()
        first = await c.start(files=(file,))
        await eventually_async(lambda: c.runs("a"), "a run")
        await first.stop()
        file.write_text("[tasks.a\n")
        with pytest.raises(BadFileError, match=r"tasks\.toml:1:"):
            await c.start(files=(file,), is_strict=True)
        broken, other = await c.start(files=(file,)), await c.start()
        assert f"{file}:1:" in broken.node.files_error
        ran = len(c.runs("a"))
        await eventually_async(lambda: len(c.runs("a")) > ran + 1, "it goes on")
        assert f"{file}:1:" in broken.node.status().files
        await eventually_async(lambda: f"{file}:1:" in other.node.status().files, "whoever is asked, it is said")
        file.write_text(good)
        assert broken.membership.requests.perform is not None
        await broken.membership.requests.perform(ApplyFiles((str(file),), "ana"))
        assert broken.node.status().files == "ok"

    run_scenario(scenario)


def test_commands_from_files_only_counts_on_every_node(
    run_scenario: Callable[[Scenario], None], tmp_path: Path
) -> None:
    file = tmp_path / "tasks.toml"
    names = [f"mine-{i}" for i in range(8)]
    tables = "".join(f'[tasks.{name}]\nevery = "1s"\ncommand = ["noop"]\n' for name in names)
    file.write_text(f'[node]\ncommands = "files"\n{tables}')
    file.chmod(0o600)

    async def scenario(c: Cluster) -> None:
        await c.start_worker()
        first = await c.start()
        await c.add(*(task(f"theirs-{i}") for i in range(8)))
        await eventually_async(lambda: all(c.runs(f"theirs-{i}") for i in range(8)), "runs before")
        second = await c.start(files=(file,))
        # The first has not read the file, and goes by what the second has written down.
        await eventually_async(
            lambda: all(c.runs(name) for name in names) and first.names and second.names, "runs of the file"
        )
        theirs = [entry.number for entry in c.store.entries(Filter(owner="test"))]
        for number in theirs:
            reasons = partial(lambda of: [skip.reason for skip in c.store.skips(of, most=100)], number)
            await eventually_async(lambda: "not from a file" in reasons(), "what is not from a file is skipped")  # noqa: B023
        for refused in (
            lambda client: client.request_run(["theirs-0"]),
            lambda client: client.add([task("new")], "somebody"),
            lambda client: client.add([task("new")], f"file:{file}"),
        ):
            with pytest.raises(Forbidden):
                await c.do(refused)
        before = len(c.runs("mine-0"))
        await c.do(lambda client: client.request_run(["mine-0"]))
        await eventually_async(lambda: len(c.runs("mine-0")) > before, "the forced run")
        # A file that says nothing of the node counts for all of them, too, as soon as one is started with it.
        more = [f"more-{i}" for i in range(8)]
        other = tmp_path / "more.toml"
        other.write_text("".join(f'[tasks.{name}]\nevery = "1s"\ncommand = ["noop"]\n' for name in more))
        other.chmod(0o600)
        await c.start(files=(other,))
        await eventually_async(lambda: all(c.runs(name) for name in more), "runs of the other file")
        # What is taken away with its tasks counts no more, for all of them.
        await c.do(lambda client: client.remove(Filter(owner=f"file:{file}")))
        with pytest.raises(Forbidden, match="only the files named"):
            await c.do(lambda client: client.apply([file]))

    run_scenario(scenario)


def test_what_depends_on_checks_of_other_nodes_is_unreachable_with_them(
    run_scenario: Callable[[Scenario], None],
) -> None:
    names = [f"t{i}" for i in range(MANY)]

    def unreachable(c: Cluster) -> set[str]:
        found: set[str] = set()
        for member in c.members:
            tasks = member.node.tasks
            rows = tasks.all_rows()
            found.update(tasks.names.names(rows[tasks.columns.flags[rows] & int(Flag.REACHABLE) == 0]))
        return found

    async def scenario(c: Cluster) -> None:
        await c.start_worker()
        gateway = sleeping("gateway", "sh", "-c", "exit 2", check=True, attempts=1)
        switch = sleeping("switch", check=True, depends=("gateway",))
        await c.add(gateway, switch, *(sleeping(name, depends=("switch",), when_unreachable="skip") for name in names))
        one, two = await c.start(), await c.start()
        await eventually_async(lambda: one.names and two.names and len(one.names | two.names) == MANY + 2, "shares")
        await c.do(lambda client: client.run_now(["gateway"], wait=False))
        everything = {"switch", *names}
        await eventually_async(lambda: unreachable(c) == everything, "news of the check")
        c.members.remove(one)
        await one.stop()
        await eventually_async(lambda: unreachable(c) == everything, "the takeover")
        await c.do(lambda client: client.pause(Filter(names=("gateway",)), paused=True))
        await eventually_async(lambda: unreachable(c) == set(), "the pause")
        three = await c.start()
        await eventually_async(lambda: three.names, "a share")
        await c.do(lambda client: client.pause(Filter(names=("gateway",)), paused=False))
        await eventually_async(lambda: unreachable(c) == everything, "the end of the pause")

    run_scenario(scenario)


def test_all_nodes_hear_of_a_downtime_also_for_dependents(run_scenario: Callable[[Scenario], None]) -> None:
    names = [f"t{i}" for i in range(MANY)]

    def in_downtime(c: Cluster) -> set[str]:
        found: set[str] = set()
        for member in c.members:
            tasks = member.node.tasks
            rows = tasks.all_rows()
            found.update(tasks.names.names(rows[tasks.columns.flags[rows] & int(Flag.DOWNTIME) != 0]))
        return found

    async def scenario(c: Cluster) -> None:
        gateway = sleeping("gateway", check=True, labels={"site": "a"})
        switch = sleeping("switch", check=True, depends=("gateway",))
        await c.add(gateway, switch, *(sleeping(name, depends=("switch",)) for name in names))
        one, two = await c.start(), await c.start()
        await eventually_async(lambda: one.names and two.names and len(one.names | two.names) == MANY + 2, "shares")
        end = Instant(c.store.clock() + HOUR)
        made = await c.do(lambda client: client.add_downtime(labels={"site": "a"}, end=end))
        everything = {"gateway", "switch", *names}
        await eventually_async(lambda: in_downtime(c) == everything, "news of the downtime")
        c.members.remove(one)
        await one.stop()
        await eventually_async(lambda: in_downtime(c) == everything, "the takeover")
        three = await c.start()
        await eventually_async(lambda: three.names, "a share")
        await eventually_async(lambda: in_downtime(c) == everything, "the hand-over")
        await c.do(lambda client: client.end_downtime(made.id))
        await eventually_async(lambda: in_downtime(c) == set(), "the end of the downtime")

    run_scenario(scenario)
