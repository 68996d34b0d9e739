"""How long work reports on itself, without knowing who watches."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Is told how much is done, and of how much."""
