"""Pictures of the page of a server, for docs/serving.md: python benchmarks/serve_pictures.py

    rotta serve --method rotta:guard=true:lr=0.2 &
    python benchmarks/serve_demo.py --seconds 600 &
    sleep 400
    python benchmarks/serve_pictures.py --folder docs/images

Takes the overview and one stream, light and dark, while `serve_demo.py` keeps the server at work.
Needs Chromium on the path, and Playwright.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

_WIDTH, _HEIGHT = 1400, 900  # as many more as the page is long
_SCHEMES = ("light", "dark")


def photograph(page: Page, address: str, awaited: str, file: Path) -> None:
    """Open an address, and take all of it once there is something to see."""
    page.goto(address)
    page.locator(awaited).first.wait_for()
    page.wait_for_timeout(3000)  # curves, pictures and another round of asking
    page.screenshot(path=file, full_page=True)
    print(file)


def main() -> None:
    """Take four pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--stream", default="roof-0")
    parser.add_argument("--folder", type=Path, default=Path())
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("there is no chromium on the path")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    views = {
        "overview": ("", ".streams tbody tr"),
        "stream": (f"#/streams/{options.stream}", ".bank img"),
    }
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=arguments)
        for scheme in _SCHEMES:
            size = {"width": _WIDTH, "height": _HEIGHT}
            page = browser.new_page(color_scheme=scheme, viewport=size)  # type: ignore[arg-type]
            for name, (address, awaited) in views.items():
                file = options.folder / f"serve-{name}-{scheme}.png"
                photograph(page, f"{options.url}/{address}", awaited, file)
        browser.close()


if __name__ == "__main__":
    main()
