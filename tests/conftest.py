"""One thread per test process: two that share two cores would otherwise wait for each other."""

import torch

torch.set_num_threads(1)
