"""What tests of handlers need: one delivery, a database whose time moves, a worker, a Lambda function; no servers.

>>> delivered = deliver("app.documents:process", {"page": 1})
>>> delivered.state
'completed'

pytest has the same as fixtures: ``towpath_deliver``, ``towpath_transport``, ``towpath_work``, ``towpath_lambda``.
"""

from towpath.testing.clock import LocalClock
from towpath.testing.databases import LocalDatabase, OpenDatabase, local_database
from towpath.testing.deliveries import Delivered, DeliveredState, Published, deliver
from towpath.testing.lambdas import (
    LambdaSettings,
    LocalInvocation,
    LocalLambda,
    OpenLambda,
    lambda_settings,
    local_lambda,
)
from towpath.testing.working import Worked, work_off

__all__ = [
    "Delivered",
    "DeliveredState",
    "LambdaSettings",
    "LocalClock",
    "LocalDatabase",
    "LocalInvocation",
    "LocalLambda",
    "OpenDatabase",
    "OpenLambda",
    "Published",
    "Worked",
    "deliver",
    "lambda_settings",
    "local_database",
    "local_lambda",
    "work_off",
]
