"""What becomes of memory that was freed, seen from the system."""

import subprocess
import sys

import pytest

_SCRIPT = """
import re, sys, torch
from rotta.cli.allocator import give_freed_memory_back, keep_freed_memory

def megabytes():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024

keep_freed_memory()
before = megabytes()
held = [torch.ones(1 << 20) for _ in range(32)]  # 128 MB
small = torch.ones(1 << 10)  # above them, so that they do not lie at the end
del held
kept = megabytes() - before
give_freed_memory_back()
again = megabytes() - before
used = torch.ones(16 << 20)
print(kept, again, megabytes() - before, int(used.sum()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_freed_memory_is_kept_until_it_is_given_back() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=60, check=True
    )
    kept, given_back, used_again, total = map(int, run.stdout.split())
    assert kept > 100
    assert given_back < 30
    assert used_again > 50
    assert total == 16 << 20
