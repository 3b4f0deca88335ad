"""Scheduled downtimes of Nagios, from its status file, as downtimes of what is imported."""

from typing import Any

from evenbeat.load.importers.nagios import import_nagios
from evenbeat.load.toml import parse_toml
from evenbeat.load.write_toml import write_document

OBJECTS = """
define command {
command_name check
command_line check
}
define host {
host_name web1
check_command check
}
define host {
host_name web2
active_checks_enabled 0
}
define service {
host_name web1,web2
service_description http
check_command check
check_interval 5
retry_interval 1
}
"""
STATUS = """
########################################
#          NAGIOS STATUS FILE
########################################

info {
\tcreated=1700000000
\tversion=4.4.6
\t}

hoststatus {
\thost_name=web1
\tplugin_output=OK - { fine }; really
\t}

"""
FROM, UNTIL = 1_796_000_000, 1_796_007_200


def block(kind: str, host: str, **more: Any) -> str:
    values = {"host_name": host, "start_time": FROM, "end_time": UNTIL, "fixed": 1, "author": "ana", **more}
    return "".join([f"{kind} {{\n", *(f"\t{key}={value}\n" for key, value in values.items()), "\t}\n\n"])


def imported(*blocks: str) -> tuple[list[Any], list[str]]:
    """The downtimes of the file that is written, and the warnings about others."""
    result = import_nagios([(OBJECTS, "objects.cfg"), (STATUS + "".join(blocks), "status.dat")])
    config = parse_toml(write_document(result.document), "imported.toml")
    assert len(config.tasks) == 4
    return list(config.downtimes), [str(one) for one in result.omissions if "downtime" in one.what]


def test_one_of_a_host_is_one_of_all_its_checks_and_one_of_a_service_of_that_alone() -> None:
    service = block("servicedowntime", "web2", service_description="http", comment="a = b")
    found, warnings = imported(block("hostdowntime", "web1"), service, block("hostdowntime", "web2"))
    assert warnings == []
    assert [(one.labels, one.comment) for one in found] == [
        ({"host": "web1"}, "ana"),
        ({"host": "web2", "service": "http"}, "ana: a = b"),
        ({"host": "web2"}, "ana"),
    ]
    assert {(one.start, one.end, one.dependents) for one in found} == {(FROM * 10**6, UNTIL * 10**6, False)}


def test_what_does_not_map_is_said() -> None:
    blocks = (
        block("hostdowntime", "web3"),
        block("servicedowntime", "web1", service_description="smtp"),
        block("hostdowntime", "web1", fixed=0),
        block("hostdowntime", "web1", end_time=FROM),
        block("hostdowntime", "web1", start_time="soon"),
    )
    found, warnings = imported(*blocks)
    assert found == []
    assert [warning.split(": ", 1)[1] for warning in warnings] == [
        "the downtime of 'web3': no such check is carried over",
        "the downtime of 'smtp' on 'web1': no such check is carried over",
        "the downtime of 'web1': it is flexible, so it would begin with a problem",
        "the downtime of 'web1': its times are not understood",
        "the downtime of 'web1': its times are not understood",
    ]


def test_objects_alone_have_no_downtimes() -> None:
    assert "downtimes" not in import_nagios([(OBJECTS, "objects.cfg")]).document
