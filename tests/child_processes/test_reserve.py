"""Some descriptors are kept back, and the limits of a supervisor are not those of what it runs."""

import subprocess
import sys

RESERVED = """
import os, resource
from evenbeat.child_processes.descriptors import DescriptorReserve

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
reserve = DescriptorReserve()
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
with reserve:
    print(len(os.listdir("/proc")) > 0, len(os.pipe() + os.pipe() + os.pipe()))
try:
    os.open("/dev/null", os.O_RDONLY)
except OSError as e:
    print(e.errno)
reserve.close()
print(os.open("/dev/null", os.O_RDONLY) < 64)
"""

RAISED = """
import resource, subprocess
from evenbeat.child_processes.descriptors import raise_descriptor_limit, restore_raised_limit, restore_original_limit

restore_raised_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
raise_descriptor_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
resource.setrlimit(resource.RLIMIT_NOFILE, (30, 128))
restore_raised_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
child = subprocess.Popen(["sleep", "300"])
restore_original_limit(child.pid)
print(resource.prlimit(child.pid, resource.RLIMIT_NOFILE)[0])
child.kill()
"""


def said(script: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_what_is_kept_back_is_there_when_nothing_else_is() -> None:
    assert said(RESERVED) == ["True", "6", "24", "True"]


def test_the_limit_is_raised_for_us_and_not_for_what_we_start() -> None:
    limited = f"import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (50, 128))\n{RAISED}"
    assert said(limited) == ["50", "128", "128", "50"]
