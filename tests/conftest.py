"""Settings of the tests."""

import torch

torch.set_num_threads(1)  # the networks here are tiny, and other threads only get in the way
