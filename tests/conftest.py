"""The same surroundings for every test, whatever machine it runs on."""

import os

import torch
from hypothesis import settings

# two test processes with two threads each would wait for each other on two cores
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)

# no clock, and the same examples everywhere
settings.register_profile("rotta", deadline=None, derandomize=True)
settings.load_profile("rotta")

# colours and widths that a terminal or a CI system asks for would get into what tests read
for name in ("FORCE_COLOR", "NO_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "COLUMNS"):
    os.environ.pop(name, None)
