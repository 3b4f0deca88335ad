"""Reads a job of Jenkins, its config.xml: when it runs, what, with what, and whom it mails; what is left is named."""

import re
from typing import Any, Final, NamedTuple

from evenbeat.load.config import FilePosition
from evenbeat.load.crontab_mail import contact_of_mailto
from evenbeat.load.importers.jenkins_home import JenkinsHome
from evenbeat.load.importers.jenkins_steps import command_of_steps, jenkins_variables, unset_variables
from evenbeat.load.importers.label_values import add_label
from evenbeat.load.importers.report import ImportReport, shown
from evenbeat.load.importers.secret_values import SecretFiles, sounds_secret
from evenbeat.load.importers.xml_tree import XmlElement
from evenbeat.model import COMMAND_LIMIT, MAX_EVERY, MINUTE, NAME_LIMIT, SECOND, TEXT_LIMIT, Contact, Invalid, Job

COMMENT: Final = "a comment: nothing in it runs"
_FOR_THE_FORM: Final = "it is for the form in which a person starts the job"
_MAX_RETRIES: Final = 100
PLACEHOLDER: Final = Job(command=("noop",))
"""For a task whose command is not known; it is disabled."""
_TIMERS: Final = (
    "hudson.triggers.TimerTrigger",
    "org.jenkinsci.plugins.parameterizedscheduler.ParameterizedTimerTrigger",
)
_SHELL: Final = "hudson.tasks.Shell"
_TIMEOUT: Final = "hudson.plugins.build__timeout.BuildTimeoutWrapper"
_CREDENTIALS: Final = "org.jenkinsci.plugins.credentialsbinding.impl.SecretBuildWrapper"
_INJECTED: Final = "EnvInjectBuildWrapper"
_THROTTLE: Final = "hudson.plugins.throttleconcurrents.ThrottleJobProperty"
_LOCKS: Final = "org.jenkins.plugins.lockableresources.RequiredResourcesProperty"
_NAGINATOR: Final = "com.chikli.hudson.plugin.naginator.NaginatorPublisher"
_MAILER: Final = "hudson.tasks.Mailer"
_EMAIL_EXT: Final = "hudson.plugins.emailext.ExtendedEmailPublisher"
_PROJECTS: Final = ("project",)
_FOLDERS: Final = ("com.cloudbees.hudson.plugins.folder.Folder", "jenkins.branch.OrganizationFolder")
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LABEL: Final = re.compile(r"[\w.-]+")
_NEUTRAL: Final = {
    **dict.fromkeys(("keepDependencies", "disabled", "concurrentBuild", "blockBuildWhenDownstreamBuilding"), "false"),
    **dict.fromkeys(("blockBuildWhenUpstreamBuilding", "dontNotifyEveryUnstableBuild", "sendToIndividuals"), "false"),
    "canRoam": "true",
    **dict.fromkeys(("limitOneJobWithMatchingParams", "rerunIfUnstable", "rerunMatrixPart", "checkRegexp"), "false"),
    "quietPeriod": "0",
    "trim": "false",
}
"""Values that say nothing."""
_LISTS: Final = ("properties", "triggers", "builders", "publishers", "buildWrappers")
_CONTAINERS: Final = frozenset(
    {
        *("actions", "properties", "triggers", "builders", "publishers", "buildWrappers", "description", "displayName"),
        *("configuredLocalRules", "operationList", "categories", "matrixOptions", "authToken", "jdk", "assignedNode"),
        *("recipients", "spec", "customWorkspace", "paramsToUseForLimit", "scm", "command", "unstableReturn"),
        *("regexpForRerun", "resourceNamesVar", "labelName", "resourceNumber", "strategy", "propertiesContent"),
    }
)
"""Elements that say nothing while they are empty."""


class TimerLine(NamedTuple):
    """One line of a timer."""

    text: str
    place: FilePosition
    env: dict[str, str]
    """Parameters that the line sets."""


class JenkinsJob(NamedTuple):
    """What a config.xml says of a job."""

    lines: list[TimerLine]
    job: Job
    keys: dict[str, Any]
    """Further keys of its tasks."""
    doubts: list[str]
    """Why it would not do the same here; it is written disabled then."""
    contacts: dict[str, Contact]
    limits: dict[str, int]
    is_disabled: bool


class JobReader:
    """Reads one config.xml; `home` is what is known of all jobs together."""

    def __init__(
        self,
        root: XmlElement,
        name: str,
        file: str,
        report: ImportReport,
        secrets: SecretFiles,
        home: JenkinsHome,
    ) -> None:
        self._root = root
        self._name = name
        self._file = file
        self._report = report
        self._secrets = secrets
        self._categories = home.categories
        self._home = home
        self._doubts: list[str] = []
        self._contacts: dict[str, Contact] = {}
        self._limits: dict[str, int] = {}
        self._keys: dict[str, Any] = {}

    def read(self) -> JenkinsJob:
        """Everything that is used; the rest goes into the report."""
        root = self._root
        lines = self._lines()
        is_disabled = root.value("disabled").lower() == "true"
        env = {**self._home.variables, **self._parameters(), **self._injected()}
        self._add_labels()
        self._add_pool()
        self._add_timebox()
        self._add_limit()
        self._add_contacts()
        self._add_retries()
        job = self._job(env, lines)
        self._report_left()
        return JenkinsJob(lines, job, self._keys, self._doubts, self._contacts, self._limits, is_disabled)

    def is_folder(self) -> bool:
        """Is it a folder of jobs?"""
        return self._root.tag in _FOLDERS

    def _omit(self, one: XmlElement, what: str, why: str) -> None:
        self._report.omit(self._file, one.place, what, why)

    def _warn(self, one: XmlElement, message: str) -> None:
        self._report.warn(self._file, one.place, f"{self._name}: {message}")

    # When

    def _lines(self) -> list[TimerLine]:
        found: list[TimerLine] = []
        for kind in _TIMERS:
            for trigger in self._root.below(kind):
                trigger.take()
                for spec in (*trigger.all("spec"), *trigger.all("parameterizedSpecification")):
                    found += self._lines_of(spec.take())
        return found

    def _lines_of(self, spec: XmlElement) -> list[TimerLine]:
        found = []
        for i, raw in enumerate(spec.text.split("\n")):
            line = raw.strip()
            place = spec.place if i == 0 else FilePosition(spec.place.line + i, len(raw) - len(raw.lstrip()) + 1)
            if line.startswith("#"):
                self._report.omit(self._file, place, line, COMMENT)
            if not line or line.startswith("#"):
                continue
            text, percent, parameters = line.partition("%") if "parameterized" in spec.tag else (line, "", "")
            env = {}
            for pair in parameters.split(";") if percent else ():
                name, sign, value = pair.strip().partition("=")
                if sign and _VARIABLE.fullmatch(name.strip()):
                    env[name.strip()] = value.strip()
                elif pair.strip():
                    self._report.omit(self._file, place, pair.strip(), "not NAME=value")
            found.append(TimerLine(text.strip(), place, env))
        return found

    # With what

    def _parameters(self) -> dict[str, str]:
        env: dict[str, str] = {}
        path = "properties/hudson.model.ParametersDefinitionProperty/parameterDefinitions/*"
        for one in self._root.all(path):
            name = one.value("name")
            kind = one.tag.rpartition(".")[2]
            for each in one.all("description"):
                if text := each.take().text.strip():
                    self._omit(each, f"description of {name}: {shown(text)}", _FOR_THE_FORM)
            if not _VARIABLE.fullmatch(name):
                self._omit(one.take_all(), one.tag, "no name that a variable can have")
            elif kind in ("StringParameterDefinition", "TextParameterDefinition", "BooleanParameterDefinition"):
                env |= self._variable(
                    name, one.take().value("defaultValue") if kind[0] != "T" else _text(one, "defaultValue")
                )
            elif kind == "ChoiceParameterDefinition":
                choices = [*one.below("string")]
                for each in one.take().all("choices"):
                    each.take_all()
                env |= self._variable(name, choices[0].text if choices else "")
                for each in choices[1:]:
                    self._omit(each, f"{name}={shown(each.text)}", _FOR_THE_FORM)
            else:
                self._doubts.append(f"the parameter {name} ({kind}) has no value here")
                self._omit(one.take_all(), f"{kind} {name}", "only texts, choices and yes or no are carried over")
        return env

    def _injected(self) -> dict[str, str]:
        env: dict[str, str] = {}
        for one in self._root.all(f"buildWrappers/{_INJECTED}"):
            for line in _text(one, "info/propertiesContent").splitlines():
                name, sign, value = line.strip().partition("=")
                if sign and _VARIABLE.fullmatch(name.strip()):
                    env |= self._variable(name.strip(), value.strip())
                elif line.strip():
                    self._omit(one, line.strip(), COMMENT if line.lstrip()[0] == "#" else "not NAME=value")
        return env

    def _variable(self, name: str, value: str) -> dict[str, str]:
        if "\0" in value or len(value) > COMMAND_LIMIT:
            self._doubts.append(f"the value of {name} cannot be that of a variable")
            return {}
        if value and sounds_secret(name, value):
            value = self._secrets.reference(self._secrets.add(f"{self._name}-{name}", value))
        return {name: value}

    def _add_labels(self) -> None:
        labels: dict[str, str] = {}
        for tag, label in (("description", "description"), ("displayName", "display_name")):
            for one in self._root.all(tag):
                text = one.take().text.strip()
                if text and (problem := add_label(labels, label, text)):
                    self._omit(one, f"{tag}: {shown(text)}", problem)
        if labels:
            self._keys["labels"] = labels

    def _add_pool(self) -> None:
        label = self._root.value("assignedNode")
        for one in self._root.all("canRoam"):
            one.take()
        if not label:
            return
        (one, *_) = self._root.all("assignedNode")
        if _LABEL.fullmatch(label) and len(label) <= NAME_LIMIT and label not in ("master", "built-in"):
            self._keys["pool"] = label
        else:
            self._omit(one, f"assignedNode: {label}", "a pool has a name, and any worker that serves it runs the task")

    def _add_timebox(self) -> None:
        for one in self._root.all(f"buildWrappers/{_TIMEOUT}"):
            strategy = next(iter(one.all("strategy")), None)
            kind = strategy.attributes.get("class", "") if strategy is not None else "AbsoluteTimeOutStrategy"
            minutes = one.value("strategy/timeoutMinutes") or one.value("timeoutMinutes")
            if kind.endswith("AbsoluteTimeOutStrategy") and re.fullmatch(r"[0-9]{1,7}", minutes) and int(minutes):
                self._keys["timebox"] = min(int(minutes) * MINUTE, MAX_EVERY)
                one.take()
                if strategy is not None:
                    strategy.take()
            else:
                self._omit(
                    one.take_all(),
                    f"{kind or 'BuildTimeoutWrapper'} {minutes}".strip(),
                    "only a fixed number of minutes becomes a timebox",
                )

    def _add_limit(self) -> None:
        names: dict[str, XmlElement] = {}
        for one in self._root.all(f"properties/{_THROTTLE}"):
            is_enabled = one.value("throttleEnabled").lower() == "true"
            option = one.value("throttleOption")
            if is_enabled and option == "category":
                names |= {each.take().text.strip(): each for each in one.all("categories/string")}
                self._omit_numbers(one, "in Jenkins it has no effect with a category")
            elif is_enabled:
                self._omit_numbers(one, "a task never runs twice at the same time")
                for each in one.all("categories"):
                    each.take_all()
            else:
                one.take_all()  # it has no effect in Jenkins
        for one in self._root.all(f"properties/{_LOCKS}"):
            for name in one.value("resourceNames").split():
                names[name] = one
                self._categories.setdefault(name, 1)
        found = [(name, one) for name, one in names.items() if name and len(name) <= NAME_LIMIT]
        for name, one in found[1:]:
            self._omit(one, name, f"a task has one limit, and this one has {found[0][0]!r}")
        for name, one in found[:1]:
            self._keys["limit"] = name
            if name not in self._categories:
                self._warn(one, f"how many of {name!r} may run at the same time is not in these files: one")
            self._limits[name] = self._categories.get(name, 1)

    def _omit_numbers(self, throttle: XmlElement, why: str) -> None:
        for tag in ("maxConcurrentPerNode", "maxConcurrentTotal"):
            for one in throttle.all(tag):
                if (most := one.take().text.strip()) not in ("", "0"):
                    self._omit(one, f"{tag}: {shown(most)}", why)

    def _add_contacts(self) -> None:
        notify = []
        for path in (f"publishers/{_MAILER}/recipients", f"publishers/{_EMAIL_EXT}/recipientList"):
            for one in self._root.all(path):
                recipients = one.take().text.strip()
                words = [word for word in re.split(r"[\s,;]+", recipients) if word]
                unknown = [word for word in words if "$" in word or ":" in word]
                for word in unknown:
                    self._omit(one, f"{one.tag}: {word}", "only addresses become contacts")
                try:
                    found = contact_of_mailto(" ".join(word for word in words if word not in unknown))
                except Invalid as e:
                    self._omit(one, f"{one.tag}: {shown(recipients)}", e.problem)
                    continue
                if found is not None:
                    self._contacts[found[0]] = found[1]
                    notify.append(found[0])
        for one in self._root.all(f"publishers/{_MAILER}/dontNotifyEveryUnstableBuild"):
            if one.take().text.strip() == "false":
                self._warn(one, "a problem is mailed when it begins and when it is over, not after every run")
        if notify:
            self._keys["notify"] = list(dict.fromkeys(notify))

    def _add_retries(self) -> None:
        for one in self._root.all(f"publishers/{_NAGINATOR}"):
            count = one.value("maxSchedule")
            one.take()
            if not re.fullmatch(r"[0-9]{1,6}", count):
                self._omit(one.take_all(), "NaginatorPublisher", "not a number of retries")
                continue
            # 0 is without end there; here a retry ends at the latest when the next run is due.
            self._keys["retries"] = min(int(count) or _MAX_RETRIES, _MAX_RETRIES)
            if not 0 < int(count) <= _MAX_RETRIES:
                self._warn(one, f"at most {_MAX_RETRIES} retries, and none after the next run is due")
            delay = next(iter(one.all("delay")), None)
            kind = delay.attributes.get("class", "") if delay is not None else ""
            first = one.value("delay/delay") or one.value("delay/increment") or "0"
            most = one.value("delay/max") or first
            if delay is not None and re.fullmatch("[1-9][0-9]{0,7}", first) and re.fullmatch("[0-9]{1,8}", most):
                delay.take()
                self._keys["backoff"] = int(first) * SECOND
                self._keys["backoff_max"] = max(int(most), int(first)) * SECOND
                if kind.endswith("ProgressiveDelay"):
                    self._warn(one, "the time between retries doubles each time")

    # What

    def _job(self, env: dict[str, str], lines: list[TimerLine]) -> Job:
        scripts = self._scripts()
        self._doubt_surroundings()
        known = self._known_variables()
        used = jenkins_variables(scripts)
        env = {name: known[name] for name in used if name in known} | env
        if unknown := [name for name in used if name not in env]:
            self._doubts.append(f"it uses {', '.join(unknown)}, which only Jenkins sets")
        parameters = {name for line in lines for name in line.env}
        if unset := [name for name in unset_variables(scripts) if name not in {*env, *known, *parameters}]:
            self._warn(self._root, f"its steps use {', '.join(unset)}, which nothing in these files sets")
        if not scripts or any("\0" in script for script in scripts):
            return PLACEHOLDER
        command = command_of_steps(scripts)
        if any(len(word) > COMMAND_LIMIT for word in command):
            self._doubts.append(f"its steps are longer than {COMMAND_LIMIT} characters")
            return PLACEHOLDER
        return Job(command, env=env, cwd=known.get("WORKSPACE"))

    def _scripts(self) -> list[str]:
        root = self._root
        steps = root.all("builders/*")
        scripts = [_text(step.take(), "command") for step in steps if step.tag == _SHELL]
        others = [step for step in steps if step.tag != _SHELL]
        for step in others:
            self._omit(step.take_all(), step.tag, "only shell steps become commands")
        names = ", ".join(dict.fromkeys(step.tag for step in others)) or "none"
        if root.tag not in _PROJECTS:
            for definition in root.all("definition"):
                self._omit(definition.take_all(), "definition", "a pipeline is no list of commands")
            self._doubts.append(f"it is a {root.tag}, not a free-style project")
        elif others or not any(script.strip() for script in scripts):
            self._doubts.append(f"only shell steps become commands, found: {names}")
        return [script for script in scripts if script.strip()]

    def _doubt_surroundings(self) -> None:
        """What Jenkins does before the steps: check out a repository, hand out credentials."""
        for scm in self._root.all("scm"):
            kind = scm.attributes.get("class", "")
            if not kind.endswith("NullSCM") and (scm.children or scm.text.strip()):
                self._doubts.append("nothing is checked out before it runs")
                url = next((one.text.strip() for tag in ("url", "remote") for one in scm.below(tag)), "")
                self._omit(scm, f"scm {kind} {_without_password(url)}".strip(), "evenbeat checks nothing out")
            scm.take_all()
        for one in self._root.all(f"buildWrappers/{_CREDENTIALS}"):
            tags = ("variable", "usernameVariable", "passwordVariable")
            names = ", ".join(each.text for tag in tags for each in one.below(tag))
            self._doubts.append(f"it needs credentials of Jenkins ({names}): give it variables, as references")
            self._omit(one.take_all(), f"SecretBuildWrapper {names}".strip(), "credentials stay with Jenkins")

    def _known_variables(self) -> dict[str, str]:
        """Variables of Jenkins that are the same in every run."""
        known = {"JOB_NAME": self._name, "JOB_BASE_NAME": self._name.rpartition("/")[2]}
        workspace = self._root.value("customWorkspace")
        if workspace and "$" not in workspace and len(workspace) <= TEXT_LIMIT:
            known["WORKSPACE"] = workspace
        elif workspace:
            self._doubts.append(f"the workspace {shown(workspace)} is not known here")
        return known

    # What is left

    def _report_left(self) -> None:
        for tag in _LISTS:
            for one in self._root.all(tag):
                one.take()  # what stands in them is named one by one
        for path, one in self._root.left():
            if one.tag in _CONTAINERS and not one.children and not one.text.strip():
                continue
            if not one.children and _NEUTRAL.get(one.tag) == one.text.strip():
                continue
            self._omit(one, _shown_element(path, one), _why_left(path))


def _text(one: XmlElement, path: str) -> str:
    """The text at a path as it stands, with its spaces."""
    found = one.all(path)
    return found[0].take().text if found else ""


def _shown_element(path: str, one: XmlElement) -> str:
    text = one.text.strip()
    if one.children or not text or sounds_secret(one.tag, text) or (text.startswith("{") and text.endswith("}")):
        return path
    return f"{path}: {shown(text)}"


def _why_left(path: str) -> str:
    reasons = {
        "triggers": "only timers and other jobs start tasks",
        "publishers": "nothing is done with the results of a run but to keep and to mail them",
        "buildWrappers": "nothing is done around a run",
        "properties": "evenbeat has nothing like it",
        "logRotator": "`keep` and `keep_runs` of [node] say how long runs are kept",
    }
    return reasons.get(path.partition("/")[0], "evenbeat has nothing like it")


def _without_password(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)
