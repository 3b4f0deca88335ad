"""What people do with problems reaches exactly the problems that they mean, and is in the audit of each task."""

from typing import Any

import pytest
from problem_seeds import every_problem, seed_problem

from evenbeat.admin.problem_actions import perform_problem_request
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.model import HOUR, Cause, Instant, Invalid, State
from evenbeat.report.problems import has_acknowledgement
from evenbeat.store.contract import Change, Conflict, Filter
from evenbeat.store.memory import MemoryStore
from evenbeat.store.problem_records import ProblemRecord
from evenbeat.testing.samples import T0, a_task
from evenbeat.wire.replies import NotFound, ProblemsChanged
from evenbeat.wire.requests import COMMENT_LIMIT, AcknowledgeProblems, CommentOnProblems

NOW = Instant(T0 + HOUR)


class People:
    """Three tasks of two owners: `web` and `db` have an open problem, `mail` had one."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.store.create([a_task("web", check=True, team="ops"), a_task("db", check=True)], "ana", T0)
        self.store.create([a_task("mail", check=True, team="ops")], "bob", T0)
        self.web, self.db, self.mail = (seed_problem(self.store, name) for name in ("web", "db", "mail"))
        seed_problem(self.store, "mail", is_open=False, at=T0 + 1)
        self.admin = TaskAdmin(self.store, lambda: NOW)

    def acknowledge(self, *names: str, who: str = "eva", ids: tuple[int, ...] = (), **how: Any) -> ProblemsChanged:
        only = Filter(names, **{key: how.pop(key) for key in ("owner", "labels", "state") if key in how})
        return self._do(AcknowledgeProblems(only, who, ids, **how))

    def comment(self, *names: str, text: str = "hm", ids: tuple[int, ...] = (), **only: Any) -> ProblemsChanged:
        return self._do(CommentOnProblems(Filter(names, **only), "eva", text, ids))

    def _do(self, request: AcknowledgeProblems | CommentOnProblems) -> ProblemsChanged:
        changed = perform_problem_request(self.admin, request).problems
        assert changed is not None
        return changed

    def problem(self, name: str) -> ProblemRecord:
        return next(problem for problem in every_problem(self.store) if problem.task == name)

    def acknowledged(self) -> list[str]:
        return sorted(p.task for p in every_problem(self.store) if has_acknowledgement(p, NOW))

    def audit(self) -> list[Change]:
        return [change for change in self.store.changes() if change.action != "created"]


@pytest.fixture
def people() -> People:
    return People()


def test_an_acknowledgement_has_its_author_words_and_end_and_is_in_the_audit(people: People) -> None:
    done = people.acknowledge("web", comment="on it\nsince nine", until=Instant(NOW + HOUR), sticky=True)
    assert done == ProblemsChanged([people.web], ["web"])
    ack = people.problem("web").acknowledgement
    assert ack is not None
    assert (ack.who, ack.at, ack.comment, ack.until, ack.sticky) == ("eva", NOW, "on it\nsince nine", NOW + HOUR, True)
    (change,) = people.audit()
    assert (change.who, change.action, change.name, change.at) == ("eva", "acknowledged", "web", NOW)
    assert change.detail == f"problem {people.web}, until 2027-01-15T10:00:00+00:00, sticky: on it since nine"


def test_withdrawing_takes_it_back_and_is_refused_where_there_is_none(people: People) -> None:
    people.acknowledge("web")
    assert people.acknowledge("*", is_withdrawn=True, who="kim").tasks == ["web"]
    assert people.acknowledged() == []
    assert [(change.who, change.action) for change in people.audit()] == [
        ("kim", "unacknowledged"),
        ("eva", "acknowledged"),
    ]
    with pytest.raises(Conflict, match="'web' is not acknowledged"):
        people.acknowledge("web", is_withdrawn=True)
    assert len(people.audit()) == 2


@pytest.mark.parametrize(
    ("names", "only", "reached"),
    [
        (("*",), {}, ["db", "web"]),
        (("w?b", "mail"), {}, ["web"]),
        ((), {"owner": "ana"}, ["db", "web"]),
        ((), {"labels": {"team": "ops"}}, ["web"]),
        (("*",), {"owner": "ana", "labels": {"team": "ops"}}, ["web"]),
    ],
)
def test_it_reaches_the_open_problems_of_the_selected_tasks(
    people: People, names: tuple[str, ...], only: dict[str, Any], reached: list[str]
) -> None:
    assert sorted(people.acknowledge(*names, **only).tasks) == reached
    assert people.acknowledged() == reached
    assert sorted(change.name for change in people.audit()) == reached


def test_a_task_is_found_by_its_state_too(people: People) -> None:
    with pytest.raises(Conflict, match="the selected tasks have no open problem"):
        people.acknowledge(state="running")
    assert people.acknowledge(state="unchecked").tasks  # no node has brought results: all of them


@pytest.mark.parametrize(
    ("names", "only", "said"),
    [
        (("wbe",), {}, "there is no task 'wbe'; did you mean 'web'?"),
        (("mail",), {"owner": "ana"}, "there is no task 'mail' with owner ana"),
        (("mial",), {"owner": "ana"}, "there is no task 'mial' with owner ana"),
        (("db",), {"labels": {"team": "ops"}}, "there is no task 'db' with label team=ops"),
        (("web", "nope"), {}, "there is no task 'nope'"),
    ],
)
def test_a_name_that_is_not_there_changes_nothing_and_names_nothing_outside_the_scope(
    people: People, names: tuple[str, ...], only: dict[str, Any], said: str
) -> None:
    for refused in (people.acknowledge, people.comment):
        with pytest.raises(NotFound) as e:
            refused(*names, **only)
        assert str(e.value) == said
    assert people.acknowledged() == []
    assert people.audit() == []


def test_what_has_no_open_problem_is_said_clearly(people: People) -> None:
    for names, ids, said in (
        (("mail",), (), "'mail' has no open problem"),
        (("ma*", "mail"), (), "the selected tasks have no open problems"),
        ((), (people.mail,), f"problem {people.mail} is closed"),
    ):
        with pytest.raises(Conflict, match=said):
            people.acknowledge(*names, ids=ids)
    with pytest.raises(Conflict, match="'mail' has no open problem"):
        people.comment("mail")
    assert people.audit() == []


def test_ids_reach_those_problems_and_only_within_the_selected_tasks(people: People) -> None:
    assert people.acknowledge(ids=(people.web, people.mail)).tasks == ["web"]
    with pytest.raises(NotFound, match=f"there is no problem {people.web}"):
        people.acknowledge(ids=(people.web,), owner="bob")
    with pytest.raises(NotFound, match="there is no problem 99"):
        people.acknowledge(ids=(people.db, 99))
    assert people.acknowledged() == ["web"]


def test_a_comment_is_kept_with_the_problem_even_a_closed_one(people: People) -> None:
    assert people.comment("web", "db", text="looking\ninto it").tasks == ["db", "web"]
    assert people.comment(text="it was the disk", ids=(people.mail,)).ids == [people.mail]
    assert [(note.who, note.action, note.text) for note in people.store.problem_notes(people.mail)] == [
        ("eva", "commented", "it was the disk")
    ]
    details = {change.name: change.detail for change in people.audit()}
    assert details["mail"] == f"problem {people.mail}: it was the disk"
    assert details["web"] == f"problem {people.web}: looking into it"


def test_two_problems_of_a_task_are_one_line_of_the_audit(people: People) -> None:
    other = seed_problem(people.store, "web", cause=Cause.FAILED)
    assert sorted(people.acknowledge("web").ids) == [people.web, other]
    (change,) = people.audit()
    assert change.detail == f"problem {people.web}, {other}"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"until": NOW}, "until: accepted: a time in the future"),
        ({"until": Instant(2**62)}, "until: accepted: a time in the future, before the year 2200"),
        ({"comment": "x" * (COMMENT_LIMIT + 1)}, "comment: 4,097 characters, accepted: at most 4,096"),
        ({"is_withdrawn": True, "comment": "x"}, "withdraw: .*only without comment"),
        ({"is_withdrawn": True, "sticky": True}, "withdraw: "),
        ({"is_withdrawn": True, "until": Instant(NOW + HOUR)}, "withdraw: "),
        ({"comment": "a\x1b[2Jb"}, "U\\+001B"),
        ({"comment": "a\x00b"}, "U\\+0000"),
    ],
)
def test_what_makes_no_sense_is_refused(people: People, how: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        people.acknowledge("web", **how)
    assert people.acknowledged() == []


@pytest.mark.parametrize("text", ["", " \n ", "x" * (COMMENT_LIMIT + 1), "\x9b2J"])
def test_a_comment_has_words_that_can_be_read(people: People, text: str) -> None:
    with pytest.raises(Invalid, match="text: "):
        people.comment("web", text=text)
    assert people.audit() == []


def test_it_counts_until_the_problem_is_worse_unless_it_is_sticky(people: People) -> None:
    seed_problem(people.store, "web", State.WARNING, opened=T0 + 5)  # another problem supersedes the first
    people.acknowledge("web", "db", sticky=False)
    seed_problem(people.store, "web", State.CRITICAL, opened=T0 + 5, at=T0 + 9)
    assert people.acknowledged() == ["db"]
    people.acknowledge("web", sticky=True)
    assert people.acknowledged() == ["db", "web"]
