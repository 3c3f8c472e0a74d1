"""How fast training is on this machine."""
