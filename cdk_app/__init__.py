"""AWS infrastructure by the CDK: renders the manifest, and decides nothing that the manifest says."""

from cdk_app.artifacts import Artifact, ImageArtifact, S3Artifact, ZipArtifact
from cdk_app.errors import InvalidInputs
from cdk_app.inputs import AlarmOverride, Inputs, Vpc
from cdk_app.parts import Part
from cdk_app.stacks import TowpathStack, towpath_stacks
from cdk_app.work_queue import WorkQueue

__all__ = [
    "AlarmOverride",
    "Artifact",
    "ImageArtifact",
    "Inputs",
    "InvalidInputs",
    "Part",
    "S3Artifact",
    "TowpathStack",
    "Vpc",
    "WorkQueue",
    "ZipArtifact",
    "towpath_stacks",
]
