"""Run as a program: load what each method saved, and predict what comes next.

``python continue_stream.py FOLDER THREADS``; reads and writes FOLDER/METHOD.pt.
"""

import sys
from pathlib import Path

import torch
from small_methods import make, stream, walk

from rotta.adapters import METHODS


def main() -> None:
    folder = Path(sys.argv[1])
    torch.set_num_threads(int(sys.argv[2]))  # sums come out alike
    for name in METHODS:
        model = make(name)
        model.load_state_dict(torch.load(folder / f"{name}.pt", weights_only=True))
        torch.save(walk(model, stream()[3:]), folder / f"{name}-predictions.pt")


if __name__ == "__main__":
    main()
