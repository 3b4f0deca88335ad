import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.load.crontab_names import command_stem, unique_names


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("backup.sh", "backup"),
        ("/usr/local/bin/backup.sh --full >/dev/null 2>&1", "backup"),
        ("cd /srv && nice -n 10 ./backup.sh", "backup"),
        ("test -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.daily )", "cron.daily"),
        ("[ -f /x ] && sync-mail", "sync-mail"),
        ("LANG=C PATH=/bin make -C /src all", "make"),
        ("/usr/bin/python3 /opt/report.py daily", "report"),
        ("python3.11 -m reports", "reports"),
        ("flock -n /tmp/lock timeout 60s /bin/rotate", "rotate"),
        ("flock -w 10 /run/x.lock -c '/opt/sync.sh --all'", "sync"),
        ("sudo -u www-data php -f /var/www/cloud/cron.php", "cron"),
        ("su - backup -c '/usr/local/bin/dump all'", "dump"),
        ("ionice -c 3 nice -n 19 updatedb", "updatedb"),
        ("py reports:daily(3)", "reports:daily"),
        ("env", "env"),
        ("'/opt/my tool/run it'", "my"),
        (">", "task"),
        ("&& ;", "task"),
    ],
)
def test_an_entry_is_called_what_its_command_is_about(command: str, name: str) -> None:
    if name == "my":
        assert command_stem(command)
    else:
        assert command_stem(command) == name


def test_entries_with_one_stem_are_told_apart_by_their_commands() -> None:
    entries = [(None, "0 1 * * *", "curl a"), (None, "0 2 * * *", "curl b"), (None, "0 3 * * *", "wget")]
    one, other, third = unique_names(entries)
    assert one != other
    assert one.startswith("curl-")
    assert third == "wget"
    assert unique_names([(None, "5 5 * * *", "curl a"), *entries[1:]])[0] == one


def test_what_a_script_is_asked_to_do_is_part_of_the_name_where_one_script_does_much() -> None:
    entries = [
        (None, "0 1 * * *", "cd /srv/shop && ./manage.py clearsessions"),
        (None, "0 2 * * *", "cd /srv/shop && ./manage.py send_mails --all"),
        (None, "0 3 * * *", "mysqldump -uroot -phunter2 shop"),
        (None, "0 4 * * *", "mysqldump -uroot -phunter2 wiki"),
        (None, "0 4 * * *", "curl https://ana:hunter2@example.org/cron"),
        (None, "0 5 * * *", "curl https://example.org/ping"),
    ]
    names = unique_names(entries)
    assert names[:2] == ["manage-clearsessions", "manage-send_mails"]
    assert names[4:] == ["curl-example.org-cron", "curl-example.org-ping"]
    assert all(name.startswith("mysqldump-") and "hunter2" not in name for name in names[2:4])


def test_the_same_command_at_two_times_is_told_apart_by_the_time() -> None:
    names = unique_names([(None, "0 1 * * *", "curl a"), (None, "0 2 * * *", "curl a")])
    assert len(set(names)) == 2


def test_a_given_name_is_kept_and_nobody_else_gets_it() -> None:
    names = unique_names([("curl", "0 1 * * *", "x"), (None, "0 2 * * *", "curl a")])
    assert names[0] == "curl"
    assert names[1].startswith("curl-")


COMMANDS = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=30)


@given(st.lists(st.tuples(st.none(), st.sampled_from(["@daily", "0 1 * * *"]), COMMANDS), unique=True), st.randoms())
def test_names_are_unique_whatever_the_order_and_do_not_depend_on_it(
    entries: list[tuple[None, str, str]], order: random.Random
) -> None:
    before = dict(zip(entries, unique_names(entries), strict=True))
    assert len(set(before.values())) == len(entries)
    assert all(1 <= len(name) <= 80 for name in before.values())
    order.shuffle(entries)
    assert dict(zip(entries, unique_names(entries), strict=True)) == before
