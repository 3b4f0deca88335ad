import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.load.crontab_names import UnnamedEntry, command_stem, possible_names, unique_names
from evenbeat.model import COMMAND_LIMIT


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
        ("'/opt/my tool/run it'", "run-it"),
        (">", "task"),
        ("&& ;", "task"),
    ],
)
def test_an_entry_is_called_what_its_command_is_about(command: str, name: str) -> None:
    assert command_stem(command) == name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        # What Debian's packages put into /etc/cron.d
        (
            "[ -x /usr/lib/php/sessionclean ] && if [ ! -d /run/systemd/system ]; then /usr/lib/php/sessionclean; fi",
            "sessionclean",
        ),
        (
            "test -x /usr/bin/certbot -a \\! -d /run/systemd/system && perl -e 'sleep int(rand(43200))' && "
            "certbot -q renew --no-random-sleep-on-renew",
            "certbot",
        ),
        (
            r"if [ -x /usr/share/mdadm/checkarray ] && [ $(date +\%d) -le 7 ]; then "
            "/usr/share/mdadm/checkarray --cron --all --idle --quiet; fi",
            "checkarray",
        ),
        (
            r"if [ $(date +\%w) -eq 0 ] && [ -x /usr/lib/zfs-linux/trim ]; then /usr/lib/zfs-linux/trim; fi",
            "trim",
        ),
        (
            "[ -x /etc/init.d/anacron ] && if [ ! -d /run/systemd/system ]; then "
            "/usr/sbin/invoke-rc.d anacron start >/dev/null; fi",
            "anacron",
        ),
        ("command -v debian-sa1 > /dev/null && debian-sa1 1 1", "debian-sa1"),
        ("test -e /run/systemd/system || SERVICE_MODE=1 /sbin/e2scrub_all -A -r", "e2scrub_all"),
        ("test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }", "cron.daily"),
        (
            "if [ -x /etc/munin/plugins/apt_all ]; then /etc/munin/plugins/apt_all update 7200 12 >/dev/null; "
            "elif [ -x /etc/munin/plugins/apt ]; then /etc/munin/plugins/apt update 7200 12 >/dev/null; fi",
            "apt_all",
        ),
        ("if [ -x /usr/sbin/logcheck ]; then nice -n10 /usr/sbin/logcheck; fi", "logcheck"),
        # What people write
        ('for f in /srv/*.csv; do /opt/load.sh "$f"; done', "load"),
        ("while read host; do /opt/poll $host; done < /etc/hosts.list", "poll"),
        ('case "$(date +%u)" in 1) /opt/full.sh;; *) /opt/incr.sh;; esac', "full"),
        ('[ "$(date +%u)" = 7 ] && /opt/weekly.sh', "weekly"),
        ("until /opt/up; do sleep 5; done", "up"),
        ("sleep $((RANDOM % 60)); /opt/sync.sh", "sync"),
        ('sleep "$(shuf -i 0-60 -n 1)" && /opt/sync.sh', "sync"),
        ("`which php` /srv/artisan schedule:run >> /dev/null 2>&1", "artisan"),
        ('"$PYTHON" /srv/report.py', "report"),
        ("echo start; /opt/dump.sh 2>&1 | logger -t dump", "dump"),
        ("mkdir -p /run/x && /opt/dump.sh", "dump"),
        ('bash -lc "cd /srv/app && bin/rake jobs:work"', "rake"),
        ("tar czf /backup/$(date +%F).tgz /etc", "tar"),
        ("php -r 'echo 1;'", "php"),
        ("/usr/bin/env python3 -c 'print(1)' # daily", "python3"),
        ("sleep 10 && echo up >> /tmp/boot", "echo"),
        ("date >> /tmp/alive", "date"),
        ("sleep 5", "sleep"),
        ("$(date", "task"),
        ("sh -c 'sh -c \"sh -c x\"'", "x"),
    ],
)
def test_a_name_has_nothing_of_the_shell_around_the_command(command: str, name: str) -> None:
    assert command_stem(command) == name


@pytest.mark.parametrize("part", ['"', "$(", '"$(', "\\ ", 'sh -c "', "(", "${", "x`", "if ", "A=1 ", "-a ", "nice "])
def test_a_long_line_whose_parts_never_end_has_a_name(part: str) -> None:
    """Nothing in it is read more than a few times: the longest line would take minutes otherwise."""
    assert 1 <= len(command_stem(part * (COMMAND_LIMIT // len(part)))) <= 64


def test_the_files_of_packages_name_their_entries() -> None:
    def names(file: str, *commands: str) -> list[str]:
        return unique_names([UnnamedEntry("@daily", command) for command in commands], file)

    assert names("/etc/cron.d/awstats", "/usr/share/awstats/tools/update.sh") == ["awstats/update"]
    assert names("/etc/cron.d/certbot", "certbot -q renew") == ["certbot"], "not certbot/certbot"
    assert names("/etc/cron.d/e2scrub_all", "e2scrub_all_cron", "e2scrub_all -A") == ["e2scrub_all_cron", "e2scrub_all"]
    assert names("/etc/cron.d/0hourly", "run-parts /etc/cron.hourly") == ["cron.hourly"]
    assert names("/home/ana/jobs", "update.sh") == ["update"]


def test_a_line_that_comes_changes_the_names_of_those_only_that_it_collides_with() -> None:
    entries = [UnnamedEntry("@daily", f"./manage.py {what}") for what in ("clear", "mail", "report")]
    before = unique_names(entries)
    assert before == ["manage-clear", "manage-mail", "manage-report"]
    after = unique_names([*entries, UnnamedEntry("@daily", "./manage.py clear --all"), UnnamedEntry("@daily", "x")])
    assert after[1:3] == before[1:3]


def test_entries_with_one_stem_are_told_apart_by_their_commands() -> None:
    entries = [
        UnnamedEntry("0 1 * * *", "curl a"),
        UnnamedEntry("0 2 * * *", "curl b"),
        UnnamedEntry("0 3 * * *", "wget"),
    ]
    one, other, third = unique_names(entries)
    assert one != other
    assert one.startswith("curl-")
    assert third == "wget"
    assert unique_names([UnnamedEntry("5 5 * * *", "curl a"), *entries[1:]])[0] == one


def test_what_a_script_is_asked_to_do_is_part_of_the_name_where_one_script_does_much() -> None:
    entries = [
        UnnamedEntry("0 1 * * *", "cd /srv/shop && ./manage.py clearsessions"),
        UnnamedEntry("0 2 * * *", "cd /srv/shop && ./manage.py send_mails --all"),
        UnnamedEntry("0 3 * * *", "mysqldump -uroot -phunter2 shop"),
        UnnamedEntry("0 4 * * *", "mysqldump -uroot -phunter2 wiki"),
        UnnamedEntry("0 4 * * *", "curl https://ana:hunter2@example.org/cron"),
        UnnamedEntry("0 5 * * *", "curl https://example.org/ping"),
    ]
    names = unique_names(entries)
    assert names[:2] == ["manage-clearsessions", "manage-send_mails"]
    assert names[4:] == ["curl-example.org-cron", "curl-example.org-ping"]
    assert all(name.startswith("mysqldump-") and "hunter2" not in name for name in names[2:4])


def test_the_same_command_at_two_times_is_told_apart_by_the_time() -> None:
    names = unique_names([UnnamedEntry("0 1 * * *", "curl a"), UnnamedEntry("0 2 * * *", "curl a")])
    assert len(set(names)) == 2


def test_a_given_name_is_kept_and_nobody_else_gets_it() -> None:
    names = unique_names([UnnamedEntry("0 1 * * *", "x", given="curl"), UnnamedEntry("0 2 * * *", "curl a")])
    assert names[0] == "curl"
    assert names[1].startswith("curl-")


COMMANDS = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=30)
SHELL_LIKE = st.lists(
    st.sampled_from(
        ["a", "b c", "$(", ")", "`", "'", '"', ";", "&&", "if", "then", ">x", "2>&1", "${", "\\", " ", "-c", "sh"]
    )
).map("".join)
ENTRIES = st.builds(UnnamedEntry, st.sampled_from(["@daily", "0 1 * * *"]), COMMANDS | SHELL_LIKE, st.none())


@given(st.lists(ENTRIES, unique=True), st.randoms(), st.sampled_from(["", "/etc/cron.d/shop"]))
def test_names_are_unique_whatever_the_order_and_do_not_depend_on_it(
    entries: list[UnnamedEntry], order: random.Random, file: str
) -> None:
    before = dict(zip(entries, unique_names(entries, file), strict=True))
    assert len(set(before.values())) == len(entries)
    assert all(1 <= len(name) <= 80 and name in possible_names(entry, file) for entry, name in before.items())
    order.shuffle(entries)
    assert dict(zip(entries, unique_names(entries, file), strict=True)) == before
