"""The programs of the how-to about web applications, as it prints them, under the real frameworks and a real server."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import httpx
import pytest
from waiting import PATIENCE, eventually

from evenbeat.app import App
from evenbeat.store.sqlite.ownership import is_node_running, socket_path
from evenbeat.testing.reserved_ports import ReservedPort

PAGE: Final = Path(__file__).parents[2] / "docs/how-to/python-web.md"
# What every project of Django has besides.
SETTINGS: Final = """\
SECRET_KEY = "of a test"
ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLED_APPS = ["django.contrib.sessions", "shop"]
ROOT_URLCONF = "shop.urls"
SESSION_ENGINE = "django.contrib.sessions.backends.file"
EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
EMAIL_FILE_PATH = "mails"
"""
URLS: Final = """\
from django.urls import path
from shop.views import register

urlpatterns = [path("register", register)]
"""
MANAGE: Final = """\
import os
import sys

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
execute_from_command_line(sys.argv)
"""


@pytest.mark.parametrize("framework", ["fastapi", "starlette", "django"])
def test_of_several_web_workers_one_runs_the_jobs_and_its_replacement_does_when_it_is_killed(
    framework: str, tmp_path: Path
) -> None:
    application = write_recipe(tmp_path, framework)
    database = tmp_path / "jobs.db"
    app = App(database)
    with web_server(tmp_path, application, workers=2) as port:
        eventually(lambda: started_workers(tmp_path) >= 2, "both workers serve, also the one without the node")
        names = {registered(port) for _ in range(4)}
        assert len(names) == 4
        for name in names:
            eventually(partial(has_succeeded, app, name))
        assert app.read("tidy").next_run is not None

        first = node_process(database)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: started_workers(tmp_path) >= 3, "a worker replaces the one that is killed")
        assert node_process(database) != first
        assert is_node_running(database)
        eventually(partial(has_succeeded, app, registered(port)))
    assert not is_node_running(database)
    assert not socket_path(database).exists(), "the node was not stopped in order"


def test_the_command_of_django_runs_the_jobs_of_its_web_workers_and_a_web_server_does_so_later(tmp_path: Path) -> None:
    application = write_recipe(tmp_path, "django")
    database = tmp_path / "jobs.db"
    command = [sys.executable, "manage.py", "schedule"]
    schedule = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: is_node_running(database))
        second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert second.returncode
        assert f"a node is already running on jobs.db (process {schedule.pid})" in second.stderr

        app = App(database)
        with web_server(tmp_path, application, workers=1) as port:
            eventually(lambda: started_workers(tmp_path) == 1)
            assert node_process(database) == schedule.pid
            eventually(partial(has_succeeded, app, registered(port)))
        (mail,) = (tmp_path / "mails").iterdir()
        assert "To: ana" in mail.read_text()
        assert node_process(database) == schedule.pid, "a web worker has taken the node, or stopped it"
        assert is_node_running(database)
        (tidied,) = app.force("tidy", wait=True)
        assert tidied.succeeded
    finally:
        schedule.terminate()
        assert schedule.wait(PATIENCE) == 0
    assert not is_node_running(database)

    before = app.read("tidy").entry
    with web_server(tmp_path, application, workers=1):
        eventually(lambda: started_workers(tmp_path) == 1, "a web server runs what the command has declared")
        assert is_node_running(database)
    assert app.read("tidy").entry == before


def write_recipe(folder: Path, framework: str) -> str:
    """Write the programs of the page to the files that their first lines name; return what uvicorn is to serve."""
    jobs, fastapi, starlette, *django = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    programs = {"fastapi": [jobs, fastapi], "starlette": [jobs, starlette], "django": django}[framework]
    files = {program.splitlines()[0].removeprefix("# "): program for program in programs}
    if framework == "django":
        files |= {"shop/settings.py": SETTINGS, "shop/urls.py": URLS, "manage.py": MANAGE}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return "shop.asgi:application" if framework == "django" else "main:api"


@contextmanager
def web_server(folder: Path, application: str, workers: int) -> Iterator[int]:
    """The port on which uvicorn serves it."""
    reserved = ReservedPort()
    port = reserved.number
    command = [sys.executable, "-m", "uvicorn", application, "--workers", str(workers), "--port", str(port)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE)


def started_workers(folder: Path) -> int:
    return (folder / "log").read_text().count("Application startup complete")


def node_process(database: Path) -> int:
    """The process that runs the node, or ran it last."""
    return int(database.with_name("jobs.db.lock").read_text())


def registered(port: int) -> str:
    """The name of the job of a request."""
    answer = httpx.post(f"http://127.0.0.1:{port}/register?address=ana", timeout=PATIENCE)
    name: str = answer.raise_for_status().json()["job"]
    return name


def has_succeeded(app: App, name: str) -> bool:
    return any(run.succeeded for run in app.history(name))
