"""``python -m towpath``: the command line."""

from towpath.cli import main

main()
