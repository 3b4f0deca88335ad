"""Notifications, dependencies, periods and downtimes of Icinga 2: what becomes of them, and what is named instead."""

from typing import Any

import pytest
from icinga_samples import GATEWAY, MAIL, NIGHTS, api, command, dependency, host, notification, reported, tasks_of, user

from evenbeat.load.config import Config
from evenbeat.load.importers.icinga import import_icinga
from evenbeat.load.toml import parse_toml
from evenbeat.load.write_toml import write_document


class TestNotifications:
    def notify(self, *objects: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
        """Contacts, the check of the host, and the report."""
        found = import_icinga([(api(command(), host(), MAIL, NIGHTS, *objects), "x")])
        parse_toml(write_document(found.document), "x.toml")
        return found.document.get("contacts", {}), found.document["checks"]["h"], reported(found)

    def test_users_and_those_of_groups_in_groups_are_notified(self) -> None:
        group = {"__name": "inner", "type": "UserGroup", "groups": ["outer"]}
        outer = {"__name": "outer", "type": "UserGroup"}
        bo = user(__name="bo", email="bo", groups=["inner"])
        contacts, check, _ = self.notify(group, outer, user(), bo, notification(user_groups=["outer"], interval=7200))
        assert contacts == {"ana": {"email": ["ana@example.org"]}, "bo": {"email": ["bo@localhost"]}}
        assert (check["notify"], check["repeat"]) == (["ana", "bo"], "2h")

    def test_times_states_and_periods_become_delays_and_variants(self) -> None:
        two = notification(__name="h!m", name="m", period="nights", users=["bo"], times={"begin": 1800, "end": 3600})
        bo = user(__name="bo", states=["Critical", "Down"], period="nights")
        contacts, check, report = self.notify(user(), bo, notification(period="nights"), two)
        assert contacts == {
            "ana (all states, nights)": {"email": ["ana@example.org"], "period": "nights"},
            "bo (all states, nights)": {"email": ["ana@example.org"], "period": "nights"},
        }
        assert check["notify"] == ["ana (all states, nights)", {"to": "bo (all states, nights)", "after": "30m"}]
        assert any("times.end: a contact is notified until the problem is over" in one for one in report)

    def test_any_other_command_is_the_command_of_the_contact(self) -> None:
        chat = {
            "__name": "chat",
            "type": "NotificationCommand",
            "vars": {"chat_token": "s3cret", "who": "$user.name$"},
            "command": ["/opt/chat", "--to", "$who$", "--$notification.type$"],
            "arguments": {
                "-k": "$chat_token$",
                "-x": {"set_if": "$host.state$"},
                "-n": {"set_if": False},
                "-v": {"set_if": True, "order": -1},
                "-t": {"value": "it's $host.name$", "skip_key": True},
                "-f": {"type": "Function"},
            },
        }
        contacts, check, report = self.notify(chat, user(), notification(command="chat"))
        shell, flag, line = contacts["ana"]["command"]
        assert (shell, flag, check["notify"]) == ("/bin/sh", "-c", ["ana"])
        assert line == (
            '/opt/chat --to ana --"${NAGIOS_NOTIFICATIONTYPE}" -v -k "$(cat secrets/chat_token)" '
            "'it'\"'\"'s '\"${NAGIOS_HOSTNAME}\""
        )
        assert any(
            "argument -x of the command 'chat': whether it is given is known with the problem" in r for r in report
        )
        assert any("argument -f of the command 'chat': a function or a list says what it is" in one for one in report)

    @pytest.mark.parametrize(
        ("objects", "message"),
        [
            ([user(), notification(types=["Recovery"])], "notification 'h!n': it is not about problems"),
            ([user(), notification(types=["Problem", "FlappingStart"])], "types FlappingStart of notification 'n'"),
            ([user(), notification(types=["Problem"])], "who was sent a problem is sent its recovery too"),
            ([user(), notification(users=["bo"])], "user 'bo': there is none of that name here"),
            ([user(), notification(user_groups=["all"])], "user group 'all': there is none of that name here"),
            ([user(), notification(command="sms")], "the command 'sms': it is not in these files"),
            ([user(email=""), notification()], "mails to user 'ana': it has no address"),
            ([user(email="a b"), notification()], "email of user 'ana': 'a b@localhost' is not a mail address"),
            ([user(enable_notifications=False), notification()], "user 'ana': no problems are sent to it"),
            ([user(), notification(period="days")], "period 'days': there is no such period here"),
            ([user(), notification(host_name="other")], "notification 'h!n': no such check is carried over"),
            ([user()], "user 'ana': nothing that is carried over uses it"),
        ],
    )
    def test_what_of_notifications_is_not_carried_over_is_named(self, objects: Any, message: str) -> None:
        *_, report = self.notify(*objects)
        assert any(message in one for one in report), report


class TestDependenciesPeriodsAndDowntimes:
    def imported(self, *objects: dict[str, Any]) -> tuple[Config, list[str]]:
        found = import_icinga([(api(command(), host(), GATEWAY, *objects), "x")])
        return parse_toml(write_document(found.document), "x.toml"), reported(found)

    def test_of_a_redundancy_group_one_parent_is_enough(self) -> None:
        some = [dependency(__name=f"h!{i}", parent_host_name=f"gw{i}", redundancy_group="gws") for i in (1, 2)]
        config, _ = self.imported(host(__name="gw1"), host(__name="gw2"), *some)
        assert tasks_of(config)["h"].depends_any == ("gw1", "gw2")

    @pytest.mark.parametrize(
        ("one", "message"),
        [
            (dependency(states=["OK"]), "states OK of the dependency 'h!d': what is not fine of a parent"),
            (dependency(disable_notifications=False), "disable_notifications = false of the dependency 'h!d'"),
            (dependency(period="nights"), "period = nights of Dependency h!d: it counts at any time"),
            (dependency(parent_host_name="none"), "'h' depends on 'none': no such check is carried over"),
            (dependency(child_host_name="none"), "'none' depends on 'gw': it is not carried over itself"),
            (dependency(child_host_name="gw", parent_host_name="h"), "they depend on each other in a circle"),
        ],
    )
    def test_what_of_dependencies_is_not_carried_over_is_named(self, one: Any, message: str) -> None:
        _, report = self.imported(one, dependency(__name="h!e"))
        assert any(message in found for found in report), report

    def test_periods_include_and_exclude_others_without_circles(self) -> None:
        def period(name: str, **more: Any) -> dict[str, Any]:
            return {"__name": name, "type": "TimePeriod", "ranges": {"monday": "09:00-17:00"}, **more}

        config, report = self.imported(
            period("work", excludes=["off", "gone"], prefer_includes=False, includes=["late"]),
            period("off", ranges={"december 25": "00:00-24:00", "noday": "1:00-2:00"}, excludes=["work"]),
            period("late", ranges={}, includes=["work", "off"]),
            period("never", ranges={"monday": "00:00-00:00"}),
        )
        work = config.periods["work"]
        assert (work.ranges, work.include, work.exclude) == (("monday 09:00-17:00",), ("late",), ("off",))
        assert work.prefer.value == "exclude"
        assert config.periods["late"].ranges == ("december 25 00:00-24:00",)
        assert "never" not in config.periods
        for message in (
            "period 'work': excludes gone: there is no such period here",
            "period 'off': excludes work: in a circle",
            "period 'late': includes work: in a circle",
            "TimePeriod 'off': noday 1:00-2:00: column 1: 'noday' is not a day",
            "period 'never': it is never open",
        ):
            assert any(message in found for found in report), (message, report)

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ({"fixed": False}, "the downtime 'd': it is flexible"),
            ({"host_name": "none"}, "the downtime 'd': no such check is carried over"),
            ({"end_time": 5}, "the downtime 'd': its times are not understood"),
            ({"config_owner": "h!weekly"}, "the downtime 'd': it comes from 'h!weekly'"),
            ({"comment": "\x07"}, "the comment of the downtime 'd'"),
        ],
    )
    def test_what_of_downtimes_is_not_carried_over_is_named(self, more: Any, message: str) -> None:
        times = {"start_time": 1_895_500_000, "end_time": 1_895_510_000.5, "author": "ana", "comment": ""}
        one = {"__name": "d", "type": "Downtime", "host_name": "h", "fixed": True, **times}
        assert len(self.imported(one)[0].downtimes) == 1
        _, report = self.imported({**one, **more})
        assert any(message in found for found in report), report
