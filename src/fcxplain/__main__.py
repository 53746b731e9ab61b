"""`python -m fcxplain` is the command line."""

from .cli import main

main()
