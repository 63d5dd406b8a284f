"""``python -m bundling``: the commands of ``towpath bundle`` by themselves."""

import sys

from bundling.commands import app
from towpath.cli.output import print_failure
from towpath.errors import TowpathError

if __name__ == "__main__":
    try:
        app(prog_name="python -m bundling")
    except TowpathError as error:
        print_failure(str(error))
        sys.exit(1)
