"""``python -m rotta`` is ``rotta``."""

from rotta.cli import main

if __name__ == "__main__":
    main()
