"""Contacts of Nagios, and what hosts, services and escalations say of them, as contacts and `notify`."""

import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.load.importers.nagios import import_nagios
from evenbeat.load.importers.nagios_command import command_words, for_hosts_and_services, shell_line
from evenbeat.load.toml import parse_toml
from evenbeat.load.write_toml import write_document

BASE = """
define timeperiod {
timeperiod_name 24x7
sunday 00:00-24:00
monday 00:00-24:00
tuesday 00:00-24:00
wednesday 00:00-24:00
thursday 00:00-24:00
friday 00:00-24:00
saturday 00:00-24:00
}
define timeperiod {
timeperiod_name work
monday 09:00-17:00
}
define timeperiod {
timeperiod_name none
}
define command {
command_name check
command_line check
}
define command {
command_name mail
command_line printf "%b" "$SERVICEDESC$ is $SERVICESTATE$" | mail -s "on $HOSTNAME$" $CONTACTEMAIL$
}
define command {
command_name sms
command_line /opt/sms $CONTACTPAGER$ $ARG1$
}
"""


def contact(name: str, *more: str) -> str:
    return "\n".join(["define contact {", f"contact_name {name}", *more, "}\n"])


ANA = contact(
    "ana",
    "email ana@example.org",
    "service_notification_commands mail",
    "host_notification_commands mail",
    "service_notification_period 24x7",
)
BO = contact("bo", "email bo", "service_notification_period work", "service_notification_options c,r")


def host(*more: str, name: str = "web") -> str:
    return "\n".join(["define host {", f"host_name {name}", "check_command check", *more, "}\n"])


def service(*more: str, hosts: str = "web") -> str:
    head = ["define service {", f"host_name {hosts}", "service_description http", "check_command check"]
    return "\n".join([*head, "check_interval 1", *more, "}\n"])


def escalation(*more: str) -> str:
    return "\n".join(["define serviceescalation {", "host_name web", "service_description http", *more, "}\n"])


def imported(*texts: str) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Contacts, checks and warnings; what is written can be read."""
    found = import_nagios([("".join((BASE, *texts)), "x.cfg")])
    parse_toml(write_document(found.document), "x.toml")
    return (
        found.document.get("contacts", {}),
        found.document["checks"],
        [*map(str, found.omissions), *map(str, found.warnings)],
    )


def test_contacts_of_services_hosts_and_groups_are_notified() -> None:
    group = "define contactgroup {\ncontactgroup_name admins\nmembers ana\n}\n"
    outer = "define contactgroup {\ncontactgroup_name all\ncontactgroup_members admins\nmembers bo\n}\n"
    contacts, checks, _ = imported(
        ANA, BO, group, outer, host("contacts ana", "notification_interval 60"), service("contact_groups all")
    )
    assert contacts == {
        "ana": {"email": ["ana@example.org"]},
        "bo": {"email": ["bo@localhost"], "period": "work", "states": ["critical"]},
    }
    assert (checks["web"]["notify"], checks["web"]["repeat"]) == (["ana"], "1h")
    assert sorted(checks["web/http"]["notify"]) == ["ana", "bo"]
    assert checks["web/http"]["repeat"] == "1h", "a service takes the interval of its host"


def test_a_service_without_contacts_notifies_those_of_each_of_its_hosts() -> None:
    contacts, checks, _ = imported(
        ANA,
        contact("bo", "email bo"),
        *(host("contacts ana", name=name) for name in ("a", "b")),
        host("contacts bo", name="c"),
        service(hosts="a,b,c"),
    )
    assert set(contacts) == {"ana", "bo"}
    assert checks["{host}/http"]["for"] == {"host": ["a", "b"]}
    assert checks["{host}/http"]["notify"] == ["ana"]
    assert checks["c/http"]["notify"] == ["bo"]


@pytest.mark.parametrize(
    "line", ["notifications_enabled 0", "notification_options n", "notification_period none", "contacts null"]
)
def test_who_notifies_nobody_in_nagios_notifies_nobody_here(line: str) -> None:
    contacts, checks, warned = imported(ANA, host(), service("contacts ana", line))
    assert contacts == {}
    assert "notify" not in checks["web/http"]
    assert any("contact 'ana': nothing here notifies it" in warning for warning in warned)


def test_a_contact_that_is_never_notified_is_none() -> None:
    off = contact("off", "email off@example.org", "service_notifications_enabled 0")
    contacts, checks, _ = imported(off, host("contacts off"), service("contacts off"))
    assert ("notify" in checks["web/http"], checks["web"]["notify"]) == (False, ["off (all states)"])
    assert list(contacts) == ["off (all states)"]


def test_a_service_that_narrows_down_a_contact_makes_a_variant_of_it() -> None:
    contacts, checks, _ = imported(
        ANA, host("contacts ana"), service("contacts ana", "notification_options u,c", "notification_period work")
    )
    assert contacts == {
        "ana": {"email": ["ana@example.org"]},
        "ana (critical, unknown, work)": {
            "email": ["ana@example.org"],
            "period": "work",
            "states": ["unknown", "critical"],
        },
    }
    assert checks["web/http"]["notify"] == ["ana (critical, unknown, work)"]


def test_of_two_periods_that_of_the_contact_counts_and_the_other_is_listed() -> None:
    other = "define timeperiod {\ntimeperiod_name night\nmonday 00:00-06:00\n}\n"
    contacts, _, warned = imported(BO, other, host(), service("contacts bo", "notification_period night"))
    assert [table["period"] for table in contacts.values()] == ["work"]
    assert any(
        "notification_period night of messages to 'bo': they wait for one period, which is 'work'" in w for w in warned
    )


def test_delays_and_escalations_become_delays() -> None:
    contacts, checks, warned = imported(
        ANA,
        BO,
        host(),
        service("contacts ana", "first_notification_delay 5", "notification_interval 30"),
        escalation("contacts bo", "first_notification 3", "last_notification 5", "notification_interval 10"),
    )
    assert set(contacts) == {"ana", "bo"}
    assert checks["web/http"]["notify"] == [{"to": "ana", "after": "5m"}, {"to": "bo", "after": "1h5m"}]
    assert checks["web/http"]["repeat"] == "30m"
    assert any("escalated contacts are notified beside the others, until the problem is over" in w for w in warned)


@pytest.mark.parametrize(
    ("lines", "warning"),
    [
        (
            ("contacts bo", "first_notification 2"),
            "it begins with the second notification or a later one, where there is only one",
        ),
        (
            ("contacts bo", "first_notification 1", "escalation_period work"),
            "escalation_period: the escalation counts at any time",
        ),
        (("contacts nobody", "first_notification 1"), "contact 'nobody': there is no such contact here"),
        (("contact_groups none", "first_notification 1"), "contactgroup 'none': there is none of that name here"),
    ],
)
def test_what_of_an_escalation_is_not_imported_is_listed(lines: tuple[str, ...], warning: str) -> None:
    *_, warned = imported(ANA, BO, host(), service("contacts ana"), escalation(*lines))
    assert [found for found in warned if warning in found]


def test_an_escalation_of_another_service_or_host_is_none_of_ours() -> None:
    other = escalation("contacts bo", "first_notification 1").replace("http", "smtp")
    _, checks, _ = imported(ANA, BO, host(), service("contacts ana"), other)
    assert checks["web/http"]["notify"] == ["ana"]


def test_a_command_of_a_contact_gets_its_values_and_the_variables_of_a_contact_here() -> None:
    pager = contact("pager", "pager 0123", "service_notification_commands sms!now", "host_notification_commands sms")
    contacts, _, warned = imported(pager, host(), service("contacts pager"))
    line = 'if [ -n "${NAGIOS_SERVICEDESC}" ]; then /opt/sms 0123 now; else /opt/sms 0123; fi'
    assert contacts == {"pager": {"command": ["/bin/sh", "-c", line]}}
    assert not [warning for warning in warned if "contact 'pager'" in warning]


@pytest.mark.parametrize(
    ("lines", "warning"),
    [
        (("alias nobody",), "it has neither an address nor a command that is carried over"),
        (("email a b",), "'a b@localhost' is not a mail address"),
        (
            ("pager 1", "service_notification_commands nothing"),
            "the command 'nothing': it is not defined in these files",
        ),
        (
            ("pager 1", "service_notification_commands sms!a,sms!b"),
            "of contact 'odd' the command /opt/sms $CONTACTPAGER$ b: a contact has one",
        ),
    ],
)
def test_what_of_a_contact_is_not_imported_is_listed(lines: tuple[str, ...], warning: str) -> None:
    *_, warned = imported(contact("odd", *lines), host(), service("contacts odd"))
    assert [found for found in warned if warning in found], warned


class TestCommandLines:
    @pytest.mark.parametrize(
        ("line", "found"),
        [
            ("x $HOSTNAME$", 'x "${NAGIOS_HOSTNAME}"'),
            ('x "on $HOSTNAME$"', 'x "on ${NAGIOS_HOSTNAME}"'),
            ("x 'on $HOSTNAME$'", "x 'on '\"${NAGIOS_HOSTNAME}\"''"),
            ("x $CONTACTNAME$ $$HOME", "x ana $HOME"),
            (r"x \"$HOSTNAME$", r'x \""${NAGIOS_HOSTNAME}"'),
            ("x 100$", "x 100$"),
        ],
    )
    def test_macros_become_variables_in_whatever_quotes(self, line: str, found: str) -> None:
        assert shell_line(line, {"CONTACTNAME": "ana"}) == (found, ())

    def test_a_macro_that_no_contact_gets_is_named(self) -> None:
        assert shell_line("x $USER1$ '$TOTALHOSTSUP$' $USER1$", {}).unknown == ("$USER1$", "$TOTALHOSTSUP$")

    def test_a_line_without_shell_characters_needs_no_shell(self) -> None:
        assert command_words("notify 'a b' c") == ["notify", "a b", "c"]
        assert command_words("notify 'a b") == ["/bin/sh", "-c", "notify 'a b"]

    @pytest.mark.parametrize(
        ("hosts", "services", "out"),
        [("echo h", "echo s", "sh"), ("", "echo s", "s"), ("echo h", "", "h"), ("", "", "")],
    )
    def test_hosts_and_services_have_lines_of_their_own(self, hosts: str, services: str, out: str) -> None:
        line = for_hosts_and_services(hosts, services)
        said = "".join(
            subprocess.run(
                ["/bin/sh", "-c", line], env={"NAGIOS_SERVICEDESC": text}, capture_output=True, text=True, check=True
            ).stdout
            for text in ("http", "")
        )
        assert said.replace("\n", "") == out

    @given(
        st.lists(
            st.tuples(st.sampled_from(["", "'", '"']), st.sampled_from(["a", "a b", "", "c;d"])), min_size=1, max_size=4
        ),
        st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f"), max_size=12),
    )
    def test_a_value_arrives_as_it_is_whatever_a_shell_would_make_of_it(
        self, parts: list[tuple[str, str]], value: str
    ) -> None:
        """The macro within each kind of quotes, beside other words."""
        quoted = [f"{sign}{'' if sign == '' else text}$SERVICEOUTPUT${sign}" for sign, text in parts]
        line = shell_line("printf '%s\\n' " + " ".join(quoted), {}).text
        done = subprocess.run(
            ["/bin/sh", "-c", line], env={"NAGIOS_SERVICEOUTPUT": value}, capture_output=True, check=True
        )
        expected = "".join(f"{'' if sign == '' else text}{value}\n" for sign, text in parts)
        assert done.stdout == expected.encode()
