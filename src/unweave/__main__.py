"""`python -m unweave` is the command line."""

from unweave.cli.main import main

if __name__ == "__main__":
    main()
