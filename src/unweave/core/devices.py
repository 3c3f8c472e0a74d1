"""Names of hardware."""

import torch


def machine(device: torch.device) -> str:
    """Name the hardware of a device.

    >>> machine(torch.device("cpu")).split()[1]
    'CPU'
    """
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{threads} CPU thread{'s' * (threads != 1)}"
