"""The explorer: what its page shows of runs and models, computed and written for the browser."""
