from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from import_accounting import copy_of_corpus, tasks_of, texts_of

from evenbeat.load.config import BadFileError, FilePosition
from evenbeat.load.importers.jenkins import find_jenkins_files, import_jenkins
from evenbeat.load.importers.jenkins_steps import command_of_steps, jenkins_variables, step_command
from evenbeat.load.importers.report import ImportReport, ImportResult
from evenbeat.load.importers.xml_tree import XmlElement, parse_xml
from evenbeat.model import HOUR, MINUTE, SECOND, Days, Hash, NotifyContact, Schedule


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copy_of_corpus("jenkins", tmp_path)


def imported(root: Path) -> ImportResult:
    report = ImportReport()
    return import_jenkins(find_jenkins_files([root], report), "UTC", report, f"{root}/secrets")


def of_job(
    inside: str, builders: str = "<hudson.tasks.Shell><command>true</command></hudson.tasks.Shell>"
) -> ImportResult:
    trigger = "<triggers><hudson.triggers.TimerTrigger><spec>H 3 * * *</spec></hudson.triggers.TimerTrigger></triggers>"
    text = f"<project>{trigger}\n{inside}\n<builders>{builders}</builders></project>"
    return import_jenkins([(text, "jobs/a/config.xml")])


# The corpus


def test_all_jobs_of_a_home_with_its_folders_are_found(root: Path) -> None:
    tasks = tasks_of(imported(root))
    assert {name: task.enabled for name, task in tasks.items()} == {
        "build": False,
        "cleanup": True,
        "cleanup (after nightly-backup (2))": True,
        "deploy": False,
        "nightly-backup": True,
        "nightly-backup (2)": True,
        "old": False,
        "team/pipeline": False,
        "team/report": True,
        "team/report (2)": True,
        "team/report (after nightly-backup)": True,
        "team/report (after nightly-backup (2))": True,
        "tools": True,
    }


def test_a_job_keeps_its_times_its_limits_and_its_people(root: Path) -> None:
    result = imported(root)
    task = tasks_of(result)["nightly-backup"]
    assert task.schedule == Schedule(
        cron="H H(1-4) * * *", zone="Europe/Berlin", hash=Hash.JENKINS, days=Days.AND, second=0
    )
    assert task.timebox == 90 * MINUTE
    assert (task.limit, task.pool) == ("storage", "storage")
    assert result.document["limits"]["storage"] == 2
    assert task.notify == (NotifyContact("ops@example.org, storage@example.org"),)
    assert (task.retries, task.backoff, task.backoff_max) == (3, 300 * SECOND, 3 * HOUR)
    assert task.labels == {"description": "Backup of the shop", "display_name": "Nightly backup"}
    assert task.job.env["TARGET"] == "vault one"
    assert task.job.env["MODE"] == "incremental"
    assert task.job.cwd == f"{root}/out"
    assert tasks_of(result)["tools"].timebox is None


def test_a_timer_sets_its_parameters(root: Path) -> None:
    tasks = tasks_of(imported(root))
    first, second = tasks["team/report"], tasks["team/report (2)"]
    assert (first.job.env["AUDIENCE"], first.job.env["FORMAT"]) == ("board", "pdf")
    assert (second.job.env["AUDIENCE"], second.job.env["FORMAT"]) == ("all", "html")
    assert first.limit == second.limit == "team/report"


def test_secrets_are_files_and_passwords_are_shown_nowhere(root: Path) -> None:
    result = imported(root)
    assert result.secrets == {"team-report-API_TOKEN": "correct horse", "jenkins-DEPLOY_TOKEN": "battery staple"}
    shown = "\n".join([*texts_of(result), *map(str, result.omissions), *map(str, result.warnings)])
    for secret in ("correct horse", "battery staple", "hunter2", "AQAAABAAAAAQ"):
        assert secret not in shown


def test_what_is_not_carried_over_is_named_with_its_reason(root: Path) -> None:
    result = imported(root)
    found = {f"{Path(one.file).parent.name}: {one.what}": one.why for one in result.omissions}
    assert "checks nothing out" in found["build: scm hudson.plugins.git.GitSCM https://git.example.org/shop.git"]
    assert "only shell steps" in found["build: hudson.tasks.Maven"]
    assert "credentials stay with Jenkins" in found["deploy: SecretBuildWrapper TOKEN"]
    assert "only addresses" in found["nightly-backup: recipients: $CULPRITS"]
    assert "a pipeline is no list of commands" in found["pipeline: definition"]
    assert "only timers" in found["report: triggers/hudson.triggers.SCMTrigger"]
    warnings = "\n".join(one.message for one in result.warnings)
    assert "build is written disabled" in warnings
    assert "it uses BUILD_NUMBER, which only Jenkins sets" in warnings
    assert "the parameter KEY (PasswordParameterDefinition) has no value here" in warnings


SAID_IN_ANOTHER_FORM = {  # elements whose value is in the result in another form, or says nothing, by their paths
    *("keepDependencies", "canRoam", "disabled", "blockBuildWhenDownstreamBuilding", "blockBuildWhenUpstreamBuilding"),
    *("triggers/hudson.triggers.TimerTrigger/spec", "builders/hudson.tasks.Shell/command", "concurrentBuild"),
    "triggers/org.jenkinsci.plugins.parameterizedscheduler.ParameterizedTimerTrigger/parameterizedSpecification",
    "properties/org.jenkinsci.plugins.workflow.job.properties.PipelineTriggersJobProperty/triggers/"
    "hudson.triggers.TimerTrigger/spec",
    "triggers/jenkins.triggers.ReverseBuildTrigger/upstreamProjects",
    "publishers/hudson.tasks.BuildTrigger/childProjects",
    *(f"publishers/hudson.tasks.BuildTrigger/threshold/{tag}" for tag in ("name", "ordinal", "color", "completeBuild")),
    *(f"publishers/hudson.tasks.Mailer/{tag}" for tag in ("recipients", "sendToIndividuals")),
    "publishers/hudson.tasks.Mailer/dontNotifyEveryUnstableBuild",
    *(
        f"publishers/com.chikli.hudson.plugin.naginator.NaginatorPublisher/{tag}"
        for tag in ("rerunIfUnstable", "delay/increment", "delay/max", "maxSchedule")
    ),
    "buildWrappers/EnvInjectBuildWrapper/info/propertiesContent",
    "buildWrappers/hudson.plugins.build__timeout.BuildTimeoutWrapper/strategy/timeoutMinutes",
    *(
        f"properties/hudson.plugins.throttleconcurrents.ThrottleJobProperty/{tag}"
        for tag in ("throttleEnabled", "throttleOption", "limitOneJobWithMatchingParams")
    ),
    "properties/hudson.model.ParametersDefinitionProperty/parameterDefinitions/hudson.model.StringParameterDefinition/trim",
}
ZEROS = {"maxConcurrentPerNode", "maxConcurrentTotal"}


def test_every_element_of_the_corpus_is_in_the_result_or_in_the_report(root: Path) -> None:
    result = imported(root)
    texts = texts_of(result)
    lost = []
    for file in root.rglob("*.xml"):
        if "builds" in file.parts:
            continue
        places = {one.place for one in result.omissions if one.file == str(file)}
        root_element = parse_xml(file.read_text(), str(file))
        is_whole = root_element.place in places or root_element.tag == "slave"
        lost += (
            []
            if is_whole
            else [f"{file}:{one.place.line}: {path}" for path, one in _unsaid(root_element, places, texts)]
        )
    assert lost == []


def _unsaid(
    element: XmlElement, places: Collection[FilePosition | None], texts: set[str], path: str = ""
) -> Iterator[tuple[str, XmlElement]]:
    for child in element.children:
        here = f"{path}/{child.tag}".lstrip("/")
        if child.place in places:
            continue
        text = child.text.strip()
        is_said = here in SAID_IN_ANOTHER_FORM or (child.tag in ZEROS and text == "0") or text in texts
        if text and not is_said:
            yield here, child
        yield from _unsaid(child, places, texts, here)


def test_each_line_of_a_timer_and_each_variable_is_in_the_result_or_in_the_report(root: Path) -> None:
    """What stands in one element is many things."""
    result = imported(root)
    named = {one.what: one.why for one in result.omissions}
    assert "# every night" in named
    assert "not a name" in str([*named])
    assert named["MODE=full"] == "it is for the form in which a person starts the job"
    assert "description of TARGET: Where to" in named
    assert "belongs into the tasks that run there" in named["SCRATCH"]
    assert named["maxConcurrentPerNode of the category storage: 1"] == "a limit counts on all workers together"
    assert "the other settings of hudson" in named


def test_variables_of_all_jobs_are_theirs_and_secret_ones_are_files(root: Path) -> None:
    result = imported(root)
    tasks = tasks_of(result)
    assert {task.job.env["SITE"] for task in tasks.values() if task.enabled} == {"berlin"}
    assert tasks["cleanup"].job.env["DEPLOY_TOKEN"] == f"file:{root}/secrets/jenkins-DEPLOY_TOKEN"
    assert result.secrets["jenkins-DEPLOY_TOKEN"] == "battery staple"


def test_a_parameter_counts_before_a_variable_of_all_jobs() -> None:
    home = (
        "<hudson><x><hudson.slaves.EnvironmentVariablesNodeProperty><envVars><tree-map><string>A</string><string>all"
        "</string></tree-map></envVars></hudson.slaves.EnvironmentVariablesNodeProperty></x></hudson>"
    )
    one = (
        "<hudson.model.StringParameterDefinition><name>A</name><defaultValue>own</defaultValue>"
        "</hudson.model.StringParameterDefinition>"
    )
    job = (
        "<project><triggers><hudson.triggers.TimerTrigger><spec>@daily</spec></hudson.triggers.TimerTrigger></triggers>"
        "<properties><hudson.model.ParametersDefinitionProperty><parameterDefinitions>%s</parameterDefinitions>"
        "</hudson.model.ParametersDefinitionProperty></properties>"
        "<builders><hudson.tasks.Shell><command>true</command></hudson.tasks.Shell></builders></project>"
    )
    texts = [(job % one, "jobs/a/config.xml"), (job % "", "jobs/b/config.xml"), (home, "config.xml")]
    tasks = tasks_of(import_jenkins(texts))
    assert (tasks["a"].job.env["A"], tasks["b"].job.env["A"]) == ("own", "all")


@pytest.mark.parametrize(
    ("script", "unset"),
    [
        ('echo "site $SITE"', "SITE"),
        ("echo ${REGION}", "REGION"),
        ("SITE=x; echo $SITE", ""),
        ("for SITE in a b; do echo $SITE; done; read ZONE; echo $ZONE", ""),
        ("echo '$SITE' $HOME $1 $lower ${SITE:-berlin}", ""),
        ("#!/usr/bin/perl\nprint $SITE", ""),
        ("echo $MODE", ""),
    ],
)
def test_a_variable_that_nothing_sets_is_named(script: str, unset: str) -> None:
    shell = f"<hudson.tasks.Shell><command>{script}</command></hudson.tasks.Shell>"
    inject = "<info><propertiesContent># why\nMODE=x</propertiesContent></info>"
    wrapper = f"<buildWrappers><EnvInjectBuildWrapper>{inject}</EnvInjectBuildWrapper></buildWrappers>"
    result = of_job(wrapper, shell)
    assert [one.message for one in result.warnings if "which nothing in these files sets" in one.message] == (
        [f"a: its steps use {unset}, which nothing in these files sets"] if unset else []
    )
    assert [one.why for one in result.omissions if one.what == "# why"] == ["a comment: nothing in it runs"]


@pytest.mark.parametrize(
    ("option", "enabled", "named"),
    [
        ("project", "true", ["maxConcurrentPerNode: 2", "maxConcurrentTotal: 3"]),
        ("category", "true", ["maxConcurrentPerNode: 2", "maxConcurrentTotal: 3"]),
        ("project", "false", []),
    ],
)
def test_numbers_of_a_throttled_job_are_named_where_they_are_not_carried_over(
    option: str, enabled: str, named: list[str]
) -> None:
    throttle = "hudson.plugins.throttleconcurrents.ThrottleJobProperty"
    inside = (
        f"<maxConcurrentPerNode>2</maxConcurrentPerNode><maxConcurrentTotal>3</maxConcurrentTotal>"
        f"<throttleEnabled>{enabled}</throttleEnabled><throttleOption>{option}</throttleOption>"
    )
    result = of_job(f"<properties><{throttle}>{inside}</{throttle}></properties>")
    assert [one.what for one in result.omissions] == named


def test_a_comment_in_a_list_of_timers_is_named() -> None:
    result = import_jenkins([("# nightly\na: H 3 * * *\n", "timers.txt")])
    assert [(one.place and one.place.line, one.what) for one in result.omissions] == [(1, "# nightly")]


# Generated elements

TAGS = st.from_regex(r"[a-z][a-zA-Z.]{2,12}", fullmatch=True)
PLACES = st.sampled_from(["properties", "publishers", "buildWrappers", "triggers", "builders", ""])
TEXTS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=12)


@given(st.lists(st.tuples(PLACES, TAGS, TEXTS, st.booleans()), max_size=6))
def test_no_element_is_dropped_in_silence(extra: list[tuple[str, str, str, bool]]) -> None:
    inside = ""
    for i, (place, tag, text, is_deep) in enumerate(extra):
        own = f"<{tag}.x{i}>{f'<inner>{text}</inner>' if is_deep else text}</{tag}.x{i}>"
        inside += f"<{place}>{own}</{place}>\n" if place else f"{own}\n"
    result = of_job(inside)
    said = "\n".join(one.what for one in result.omissions)
    assert [f"{tag}.x{i}" for i, (_, tag, _, _) in enumerate(extra) if f"{tag}.x{i}" not in said] == []
    assert all(one.place is not None for one in result.omissions)


@given(
    st.text()
    | st.lists(st.sampled_from(["<a>", "</a>", "<", "&#x1;", "&amp;", "<spec>", "</spec>", "x", "]]>"])).map("".join)
)
def test_whatever_stands_in_a_job_is_imported_or_refused_with_its_place(text: str) -> None:
    for document in (text, f"<project>{text}</project>"):
        try:
            import_jenkins([(document, "jobs/a/config.xml")])
        except BadFileError as e:
            assert all(error.place is not None for error in e.errors)


# Jobs that start jobs


def several(**jobs: str) -> ImportResult:
    """Jobs without timers, but `start`; each has this in it."""
    shell = "<builders><hudson.tasks.Shell><command>true</command></hudson.tasks.Shell></builders>"
    timer = "<triggers><hudson.triggers.TimerTrigger><spec>H 3 * * *</spec></hudson.triggers.TimerTrigger></triggers>"
    return import_jenkins(
        [
            (f"<project>{inside}{timer if name == 'start' else ''}{shell}</project>", f"jobs/{name}/config.xml")
            for name, inside in jobs.items()
        ]
    )


def downstream(children: str, end: str = "SUCCESS") -> str:
    inner = f"<childProjects>{children}</childProjects><threshold><name>{end}</name></threshold>"
    return f"<publishers><hudson.tasks.BuildTrigger>{inner}</hudson.tasks.BuildTrigger></publishers>"


def upstream(parents: str) -> str:
    inner = f"<upstreamProjects>{parents}</upstreamProjects>"
    return f"<triggers><jenkins.triggers.ReverseBuildTrigger>{inner}</jenkins.triggers.ReverseBuildTrigger></triggers>"


def chains(result: ImportResult) -> dict[str, str]:
    return {
        name: " ".join(task.schedule.after) + "".join(f" failure of {one}" for one in task.schedule.after_failure)
        for name, task in tasks_of(result).items()
        if task.schedule.parents
    }


def test_a_job_that_another_starts_runs_after_it_whichever_of_the_two_says_so() -> None:
    assert chains(several(start=downstream("b, c"), b="", c=downstream("d"), d="")) == {
        "b": "start",
        "c": "start",
        "d": "c",
    }
    assert chains(several(start="", b=upstream("start"), c=upstream("b"))) == {"b": "start", "c": "b"}
    assert chains(several(start=downstream("b"), b=upstream("start"))) == {"b": "start"}


def test_each_of_several_parents_starts_a_job_by_itself() -> None:
    result = several(start=downstream("b, c"), b=downstream("d"), c=downstream("d"), d="")
    assert chains(result) == {"b": "start", "c": "start", "d": "b", "d (after c)": "c"}
    assert result.document["limits"] == {"d": 1}


def test_a_failure_starts_a_job_too_if_its_threshold_says_so() -> None:
    result = several(start=downstream("b", "FAILURE"), b="")
    assert chains(result) == {"b": "start", "b (after failure of start)": " failure of start"}


def test_a_job_with_times_of_its_own_keeps_them() -> None:
    result = several(a="", start=upstream("b"), b=upstream("start"))
    assert tasks_of(result)["start"].schedule.cron == "H 3 * * *"
    assert chains(result) == {"b": "start"}
    assert {one.what: one.why for one in result.omissions} == {
        "jenkins.triggers.ReverseBuildTrigger: b": "it closes a circle of jobs",
        "a (project)": "neither a timer nor a job here starts it",
    }


def test_a_link_to_a_job_that_is_not_here_is_named() -> None:
    result = several(start=downstream("gone"), lone=upstream("elsewhere"))
    assert {one.what: one.why for one in result.omissions} == {
        "hudson.tasks.BuildTrigger: gone": "there is no job 'gone' here",
        "jenkins.triggers.ReverseBuildTrigger: elsewhere": "there is no job 'elsewhere' here",
        "lone (project)": "neither a timer nor a job here starts it",
    }


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), max_size=15))
def test_whatever_starts_what_nothing_runs_after_itself(links: list[tuple[str, str]]) -> None:
    jobs = {name: downstream(",".join(child for parent, child in links if parent == name)) for name in "abcdef"}
    tasks = tasks_of(several(start=downstream("a,b"), **jobs))
    assert "a" in tasks or "a (after start)" in tasks

    def depth(name: str, seen: tuple[str, ...]) -> int:
        assert name not in seen
        return 1 + max((depth(one, (*seen, name)) for one in tasks[name].schedule.parents), default=0)

    assert all(depth(name, ()) <= 8 for name in tasks)


# XML


def test_control_characters_of_xml_1_1_are_read() -> None:
    assert parse_xml("<?xml version='1.1'?>\n<a>&#x1b;[0m&#7;\n</a>", "x").text == "\x1b[0m\x07\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<a>" * 300 + "</a>" * 300, "x:1:601: elements nested more than 200 deep"),
        ("\n <!DOCTYPE a>\n<a/>", "x:2:2: <!DOCTYPE is not accepted"),
        ("<a>\x00</a>", "x:1:4: not XML"),
        ("<a", "x:1:1: not XML: unclosed token"),
        ("", "x:1:1: not XML: no element found"),
    ],
)
def test_xml_that_cannot_be_read_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(BadFileError) as caught:
        parse_xml(text, "x")
    assert message in str(caught.value)


def test_a_doctype_in_a_script_is_text() -> None:
    found = of_job("", "<hudson.tasks.Shell><command><![CDATA[echo '<!DOCTYPE html>']]></command></hudson.tasks.Shell>")
    assert tasks_of(found)["a"].job.command == ("/bin/sh", "-xe", "-c", "echo '<!DOCTYPE html>'")


# Steps


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("make", ("/bin/sh", "-xe", "-c", "make")),
        ("#!/bin/bash -eu\nmake", ("/bin/bash", "-eu", "-c", "#!/bin/bash -eu\nmake")),
        ("#!/bin/bash\r\nmake\r\n", ("/bin/bash", "-c", "#!/bin/bash\nmake\n")),
        ("#!/usr/bin/env python3\nx", ("/usr/bin/env", "python3", "-c", "#!/usr/bin/env python3\nx")),
        ("#!/usr/bin/env -S perl -w\nx", ("/usr/bin/env", "perl", "-w", "-e", "#!/usr/bin/env -S perl -w\nx")),
        ("#!/usr/bin/php\n<?php echo 1;", ("/usr/bin/php", "-r", " echo 1;")),
        ("#!\nmake", ("/bin/sh", "-xe", "-c", "#!\nmake")),
    ],
)
def test_a_step_runs_with_the_interpreter_of_its_first_line(script: str, words: tuple[str, ...]) -> None:
    assert step_command(script) == words


def test_several_steps_are_one_command_that_the_first_failure_ends(tmp_path: Path) -> None:
    import subprocess

    out = tmp_path / "out"
    steps = [f"echo 1 >>{out}", f'#!/bin/bash\nprintf %s "it\'s" >>{out}', "exit 3", f"echo never >>{out}"]
    assert subprocess.run(command_of_steps(steps), check=False, capture_output=True).returncode == 3
    assert out.read_text() == "1\nit's"


def test_variables_of_jenkins_are_found() -> None:
    assert jenkins_variables(["echo $BUILD_NUMBER ${WORKSPACE}/x $WORKSPACES $PATH", "x $JOB_NAME"]) == [
        *("BUILD_NUMBER", "JOB_NAME", "WORKSPACE"),
    ]


@pytest.mark.parametrize(
    ("inside", "what"),
    [
        ("<assignedNode>linux &amp;&amp; docker</assignedNode>", "assignedNode: linux && docker"),
        ("<quietPeriod>5</quietPeriod>", "quietPeriod: 5"),
        (
            "<publishers><hudson.tasks.Mailer><recipients>@</recipients></hudson.tasks.Mailer></publishers>",
            "recipients: @",
        ),
        ("<authToken>secret</authToken>", "authToken"),
    ],
)
def test_a_value_that_does_not_map_is_named(inside: str, what: str) -> None:
    assert what in [one.what for one in of_job(inside).omissions]


def test_a_folder_without_jobs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match=r"no jobs/NAME/config\.xml in it"):
        find_jenkins_files([tmp_path], ImportReport())
