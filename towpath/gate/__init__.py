"""The gate before a deployment: what a plan would delete, replace, let go of, or make worse is told and stops it."""

from towpath.gate.edits import UNKNOWN, Edit
from towpath.gate.guards import Blocked, blocked
from towpath.gate.overrides import Override, Verdict, load_overrides, verdict

__all__ = ["UNKNOWN", "Blocked", "Edit", "Override", "Verdict", "blocked", "load_overrides", "verdict"]
