"""Settings of the tests."""

import pytest
import torch

torch.set_num_threads(1)  # the networks here are tiny, and other threads only get in the way


@pytest.fixture(autouse=True)
def seeded():
    """What a test draws does not depend on the tests before it."""
    torch.manual_seed(0)
