"""What serving needs is imported by serving alone."""

import subprocess
import sys

HEAVY = ["fastapi", "starlette", "uvicorn", "prometheus_client", "redis", "httptools"]


def said_by(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_library_and_the_client_need_no_server() -> None:
    code = (
        "import sys, rotta, rotta.client, rotta.serve, rotta.serve.stores, rotta.cli\n"
        f"print([name for name in {HEAVY} if name in sys.modules])\n"
        "sys.modules['fastapi'] = None\n"
        "try: rotta.serve.Service\n"
        "except ModuleNotFoundError as error: print(error)\n"
    )
    loaded, remedy = said_by(code).splitlines()
    assert loaded == "[]"
    assert "pip install 'rotta[serve]'" in remedy
