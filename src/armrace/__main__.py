"""``python -m armrace``: the command line."""

from armrace.cli.main import main

if __name__ == "__main__":
    main()
