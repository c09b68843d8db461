"""`python -m tasuki`."""

from tasuki.cli.main import main

if __name__ == "__main__":
    main()
