"""The foundations: specs, randomness, files, processes, schedules, citations."""
