"""The entry point that every manifest names: its ``handler`` runs the handler of the subscription's own settings.

Importing it is the cold start: it reads the environment, loads the handler, and fails with one clear line.
"""

import os

from lambda_runtime.factory import own_handler

handler = own_handler(os.environ)
