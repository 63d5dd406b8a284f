"""What LocalStack's CloudFormation lacks: moving an alias of a function to another version.

Its provider of ``AWS::Lambda::Alias`` creates and deletes; asked for an update, LocalStack creates it again, which
fails. A deployment of new code is such an update.
"""

from typing import Any

from localstack.services.cloudformation.resource_provider import OperationStatus, ProgressEvent, ResourceRequest
from localstack.services.lambda_.resource_providers.lambda_alias import LambdaAliasProvider


def let_cloudformation_move_aliases() -> None:
    """Give LocalStack's provider the operation."""
    LambdaAliasProvider.update = _update


def _update(provider: LambdaAliasProvider, request: ResourceRequest[Any]) -> ProgressEvent[Any]:
    model = request.desired_state
    names = ("FunctionName", "Name", "FunctionVersion", "Description", "RoutingConfig")
    wanted = {name: model[name] for name in names if name in model}
    model["Id"] = request.aws_client_factory.lambda_.update_alias(**wanted)["AliasArn"]
    return ProgressEvent(status=OperationStatus.SUCCESS, resource_model=model)
