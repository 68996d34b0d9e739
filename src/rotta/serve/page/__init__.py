"""The page at ``/``: one document, its style and its modules, as they are sent."""

from pathlib import Path

_FOLDER = Path(__file__).parent
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

PAGE = _FOLDER / "index.html"
PARTS = {
    file.name: (file, _KINDS[file.suffix])
    for file in sorted(_FOLDER.iterdir())
    if file.suffix in _KINDS
}
"""Each file with its media type, by the name under ``/page/``; nothing else is sent."""
