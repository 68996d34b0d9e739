"""`rotta serve` in a process of its own, for measurements."""

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def server(*words: str) -> Iterator[str]:
    """Start it with these options, yield its address, end it; its store is on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "rotta", "serve", "--port", "0", *words],
            stdout=subprocess.PIPE,
            cwd=folder,
        )
        assert process.stdout is not None
        found = re.search(rb"http://\S+", process.stdout.readline())
        if found is None:
            sys.exit("the server did not start")
        try:
            yield found[0].decode()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
