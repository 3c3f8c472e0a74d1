"""The explorer: compute what its page shows of runs and models, and write it for the browser."""
