import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from import_accounting import copy_of_corpus, omitted_lines, silent_lines, tasks_of, texts_of

from evenbeat.load.config import BadFileError
from evenbeat.load.crontab_dialect import CrontabDialect
from evenbeat.load.importers.crontab import CrontabSources, find_crontabs, import_crontab
from evenbeat.load.importers.report import ImportReport, ImportResult
from evenbeat.model import DAY, NotifyContact, Schedule


def imported(*paths: Path, dialect: CrontabDialect | None = None) -> ImportResult:
    report = ImportReport()
    return import_crontab(find_crontabs(paths, report), dialect or CrontabDialect(zone="Europe/Berlin"), report)


def imported_text(text: str, file: str = "crontab") -> ImportResult:
    return import_crontab([(text, file)], CrontabDialect())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copy_of_corpus("crontab", tmp_path)


def omissions(result: ImportResult, root: Path) -> dict[str, str]:
    """Why, by file and line."""
    return {
        f"{Path(one.file).relative_to(root)}:{one.place.line if one.place else 0}": f"{one.what}: {one.why}"
        for one in result.omissions
    }


# The corpus


def test_all_of_etc_is_imported_by_its_name(root: Path) -> None:
    tasks = tasks_of(imported(root / "etc"))
    assert set(tasks) == {
        *("cron.hourly/sample", "cron.daily/logrotate", "cron.daily/man-db", "cron.weekly/sum", "cron.monthly"),
        *("mirror.sync", "stats-sample", "stats-sum", "echo"),
        *("web-shop/printf", "web-shop/invoice", "web-shop/renew", "web-shop/echo"),
    }


def test_scripts_run_at_the_times_of_anacron_one_at_a_time(root: Path) -> None:
    result = imported(root / "etc")
    task = tasks_of(result)["cron.daily/man-db"]
    assert task.schedule == Schedule(cron="H(5-50) 3 * * *", zone="Europe/Berlin")
    assert task.job.command == ("nice", f"{root}/etc/cron.daily/man-db")
    assert (task.job.user, task.job.cwd, task.limit) == ("root", "/", "run-parts cron.daily")
    assert task.period == "anacron 3-22"
    assert task.timebox is None
    assert result.document["limits"]["run-parts cron.daily"] == 1
    assert tasks_of(result)["mirror.sync"].schedule.every == 3 * DAY


def test_without_an_anacrontab_the_crontab_says_when_scripts_run(root: Path) -> None:
    (root / "etc" / "anacrontab").unlink()
    tasks = tasks_of(imported(root / "etc"))
    assert tasks["cron.daily/man-db"].schedule.cron == "25 6    * * *"
    assert tasks["cron.daily/man-db"].schedule.second == 0
    assert tasks["cron.hourly/0anacron"].schedule.cron == "17 *    * * *"


def test_a_folder_of_scripts_alone_has_the_usual_times(root: Path) -> None:
    result = imported(root / "etc" / "cron.daily")
    assert {name: task.schedule.cron for name, task in tasks_of(result).items()} == {
        "cron.daily/logrotate": "25 6 * * *",
        "cron.daily/man-db": "25 6 * * *",
    }
    assert any("no crontab here says when it runs" in warning.message for warning in result.warnings)


def test_what_cron_and_run_parts_would_not_run_is_named_with_the_reason(root: Path) -> None:
    found = omissions(imported(root / "etc"), root)
    assert found["etc/cron.daily/switched-off:0"] == "switched-off: not executable, so run-parts skips it"
    assert "run-parts skips names" in found["etc/cron.daily/backup.sh:0"]
    assert "it starts anacron" in found["etc/cron.hourly/0anacron:0"]
    assert "it starts anacron, whose jobs are imported" in found["etc/cron.d/anacron:3"]
    assert "it does nothing where anacron is" in found["etc/crontab:10"]
    assert "it never runs" in found["etc/cron.d/web-shop:8"]
    assert "cron does not read files of such a name" in found["etc/cron.d/web-shop.dpkg-old:0"]


def test_a_personal_crontab_keeps_its_folder_its_input_and_its_variables(root: Path) -> None:
    result = imported(root / "home" / "crontab")
    tasks = tasks_of(result)
    assert list(tasks) == ["manage-clearsessions", "manage-send_mails", "tar", "cat", "wc", "touch", "python3"]
    assert {task.job.cwd for task in tasks.values()} == {f"{root}/home"}
    assert "50% of the disk is used" in tasks["cat"].job.command[0]
    assert tasks["touch"].job.command == ("touch ../out/hour",)
    assert tasks["tar"].job.env["TZ"] == "Europe/London"
    assert tasks["tar"].schedule.zone == "Europe/Berlin", "as Debian's cron, times are not those of TZ"
    assert any("no MAILTO: cron mailed all output" in warning.message for warning in result.warnings)


def test_mail_goes_to_those_who_got_it(root: Path) -> None:
    result = imported(root / "etc" / "cron.d" / "web-shop")
    tasks = tasks_of(result)
    assert tasks["web-shop/invoice"].notify == (NotifyContact("ops@example.org, shop@example.org"),)
    assert tasks["web-shop/renew"].notify == ()
    assert any("a run that fails is mailed" in warning.message for warning in result.warnings)


def test_what_sounds_secret_becomes_a_file(tmp_path: Path) -> None:
    text = "BORG_PASSPHRASE=correct horse\nAPI_TOKEN=env:TOKEN\n@daily a\nBORG_PASSPHRASE=battery staple\n@daily b\n"
    result = import_crontab([(text, "x")], CrontabDialect(), secrets_folder="/srv/secrets")
    tasks = tasks_of(result)
    assert tasks["a"].job.env == {
        "BORG_PASSPHRASE": "file:/srv/secrets/crontab-BORG_PASSPHRASE",
        "API_TOKEN": "env:TOKEN",
    }
    assert tasks["b"].job.env["BORG_PASSPHRASE"] == "file:/srv/secrets/crontab-BORG_PASSPHRASE-2"
    assert list(result.secrets.values()) == ["correct horse", "battery staple"]


def test_a_url_with_a_password_is_a_secret_whatever_its_name(tmp_path: Path) -> None:
    text = "DATABASE_URL=postgres://shop:hunter2@db/shop\nPAGE=https://shop@example.org:443/\n@daily a\n"
    result = import_crontab([(text, "x")], CrontabDialect(), secrets_folder="/srv/secrets")
    env = tasks_of(result)["a"].job.env
    assert env == {
        "DATABASE_URL": "file:/srv/secrets/crontab-DATABASE_URL",
        "PAGE": "https://shop@example.org:443/",
    }
    assert not any("hunter2" in text for text in texts_of(result))


@pytest.mark.parametrize("script", [".placeholder", "backup.sh"])
def test_a_line_that_runs_a_folder_without_a_script_to_run_is_named(tmp_path: Path, script: str) -> None:
    (tmp_path / "cron.d").mkdir()
    (tmp_path / "cron.hourly").mkdir()
    (tmp_path / "cron.hourly" / script).touch(mode=0o755)
    (tmp_path / "cron.yearly").mkdir()
    line = "17 * * * * root cd / && run-parts --report /etc/cron.hourly"
    (tmp_path / "crontab").write_text(f"{line}\n@daily root echo hello\n")
    result = imported(tmp_path)
    assert set(tasks_of(result)) == {"echo"}
    assert "there is no script in" in omissions(result, tmp_path)["crontab:1"]
    assert not any("cron.yearly" in str(warning) for warning in result.warnings)


def test_bytes_of_an_old_machine_are_read_and_named(root: Path) -> None:
    result = imported(root / "spool" / "cron" / "crontabs")
    (task,) = tasks_of(result).values()
    assert (task.job.user, task.job.command) == ("nobody", ("echo grüße",))
    assert {one.place.line for one in result.warnings if one.place and "not UTF-8" in one.message} == {1, 2}


def test_every_line_of_the_corpus_is_in_the_result_or_in_the_report(root: Path) -> None:
    paths = [root / "etc", root / "home" / "crontab", root / "spool" / "cron" / "crontabs"]
    result = imported(*paths)
    texts = texts_of(result)
    sources = [root / "etc/crontab", root / "etc/anacrontab", root / "home/crontab", *(root / "etc/cron.d").glob("*")]
    lost = [
        f"{file}:{number}: {line}"
        for file in sources
        if file.name != "web-shop.dpkg-old"
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if line.strip() and not is_accounted_for(line.strip(), number, str(file), result, texts)
    ]
    assert lost == []


def is_accounted_for(line: str, number: int, file: str, result: ImportResult, texts: set[str]) -> bool:
    if number in omitted_lines(result, file):
        return True
    if line.startswith("#"):
        return False
    if found := re.fullmatch(r"(\w+)\s*=\s*(.*)", line):
        name, value = found[1], found[2].strip("\"'")
        if name in ("RANDOM_DELAY", "START_HOURS_RANGE"):  # times and periods of anacron
            return any("H(5-50)" in text for text in texts)
        return not value or (name in texts and value in texts) or set(re.split(r"[, ]+", value)) <= texts | {"root"}
    if "run-parts" in line:
        return any(line.rsplit("/", maxsplit=1)[-1].rstrip("; }") in text for text in texts)
    command = line.split(None, 4 if file.endswith("anacrontab") else 7)[-1].replace("\\%", "%").split("%")[0]
    return any(command.strip()[:20] in text for text in texts) or line.startswith(("@", "~", "-"))


def test_without_a_line_of_the_corpus_something_is_different_or_it_is_named(root: Path) -> None:
    paths = [root / "etc", root / "home" / "crontab", root / "spool" / "cron" / "crontabs"]
    sources = [root / "etc/crontab", root / "etc/anacrontab", root / "home/crontab", *(root / "etc/cron.d").glob("*")]
    sources = [file for file in sources if file.name != "web-shop.dpkg-old"]
    silent = silent_lines(sources, lambda: imported(*paths))
    assert silent == ["anacron: SHELL=/bin/sh"], "which is so without it"


# Generated lines

NAMES = st.from_regex(r"[A-Z][A-Z_]{1,8}", fullmatch=True).filter(
    lambda name: name not in ("MAILTO", "HOME", "SHELL", "TZ")
)
VALUES = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=12).filter(
    lambda value: value[0] not in "\"'"
)
COMMANDS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=20)


@given(st.lists(st.tuples(NAMES, VALUES) | COMMANDS, max_size=12, unique=True), st.booleans())
def test_no_setting_and_no_entry_is_dropped_in_silence(lines: list[tuple[str, str] | str], windows: bool) -> None:
    text = ["@daily first"]
    text += [f"{line[0]}={line[1]}" if isinstance(line, tuple) else f"5 3 * * * /run-{line}" for line in lines]
    text += ["@daily last"]
    try:
        result = imported_text(("\r\n" if windows else "\n").join(text))
    except BadFileError as e:
        assert all(error.place is not None for error in e.errors)
        return
    tasks = tasks_of(result)
    assert len(tasks) == len([line for line in lines if isinstance(line, str)]) + 2
    last = next(task for task in tasks.values() if task.job.command == ("last",))
    for number, line in enumerate(lines, start=2):
        if isinstance(line, tuple):
            assert line[0] in last.job.env or number in omitted_lines(result, "crontab") or line[0] == "CRON_TZ"


@given(st.text() | st.binary(max_size=200).map(lambda data: data.decode("latin-1")))
def test_whatever_stands_in_an_anacrontab_is_refused_with_its_line(text: str) -> None:
    try:
        import_crontab(CrontabSources((), [(text, "anacrontab"), (f"1 5 a b\n{text}", "other")]), CrontabDialect())
    except BadFileError as e:
        assert all(error.place is not None for error in e.errors)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("1 5 a\n", "1:1", "a line of an anacrontab is PERIOD DELAY NAME COMMAND"),
        ("\n 0 5 a b\n", "2:2", "'0' is not a period, accepted: a number of days"),
        ("@hour 5 a b\n", "1:1", "'@hour' is not a period"),
        (f"1 5 a {'x' * 100_000}\n", "1:1", "a line of 100006 characters"),
        (f"HOME=/{'x' * 2_000}\n1 5 a b\n", "2:1", "Expected `str` of length <= 1000"),
    ],
)
def test_an_error_of_an_anacrontab_has_its_place(text: str, place: str, message: str) -> None:
    with pytest.raises(BadFileError) as caught:
        import_crontab(CrontabSources((), [(text, "anacrontab")]), CrontabDialect())
    assert str(caught.value).startswith(f"anacrontab:{place}: {message}")


# Folders


def test_files_that_cannot_be_read_are_errors_with_their_names(tmp_path: Path) -> None:
    for path, problem in ((tmp_path / "none", "No such file"), (Path("/dev/null"), "not a regular file")):
        with pytest.raises(BadFileError, match=problem):
            imported(path)


def test_a_folder_that_leads_back_to_itself_ends(tmp_path: Path) -> None:
    (tmp_path / "tab").write_text("@daily x\n")
    (tmp_path / "again").symlink_to(tmp_path)
    result = imported(tmp_path)
    assert list(tasks_of(result)) == ["x"]
    assert [one.what for one in result.omissions] == ["again"]


def test_names_of_files_with_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for host in ("a", "b"):
        shutil.copytree((tmp_path / "x") if (tmp_path / "x").exists() else _folder(tmp_path / "x"), tmp_path / host)
    tasks = tasks_of(imported(tmp_path / "a" / "crontab", tmp_path / "b" / "crontab"))
    assert list(tasks) == ["a/crontab/rotate", "b/crontab/rotate"]


def _folder(path: Path) -> Path:
    path.mkdir()
    (path / "crontab").write_text("MAILTO=me@example.org\n@daily rotate\n")
    return path


def test_contacts_that_nobody_needs_are_left_out() -> None:
    result = imported_text("MAILTO=a@example.org\nMAILTO=b@example.org\n@daily x\n")
    assert list(result.document["contacts"]) == ["b@example.org"]
