"""Rebuilds a tenant's search index. The partition key is the tenant, so nobody else rebuilds it meanwhile."""

import json
import os
import re
from collections import defaultdict
from pathlib import Path

from towpath import Context, FatalError, Message

NOTES = "NOTES"  # the folder of the tenants' notes, in a variable of this name
INDEXES = "INDEXES"  # and that of their indexes
WORD = re.compile(r"\w+")
TENANT = re.compile(r"[a-z0-9-]{1,40}")


def rebuild(message: Message, context: Context) -> None:
    """Read all of the tenant's notes and write its index anew.

    Two rebuilds of one tenant at a time could put the older index over the newer one. Under "exclusive" there are no
    two, on no number of workers, and a lock is not needed. To rebuild once more does no harm, so a repeated delivery
    needs no memory either.
    """
    tenant = message.partition_key
    if tenant is None or not TENANT.fullmatch(tenant):
        raise FatalError("the partition key names no tenant")
    notes = sorted(Path(os.environ.get(NOTES, "notes"), tenant).glob("*.txt"))
    if not notes:
        raise FatalError(f"{tenant} has no notes")
    places: dict[str, set[str]] = defaultdict(set)
    for done, note in enumerate(notes):
        context.check()  # whoever lost the lease may be rebuilding beside another one: stop before writing
        for word in WORD.findall(note.read_text(encoding="utf-8").lower()):
            places[word].add(note.name)
        context.heartbeat(percent=100 * done / len(notes), note=note.name)
    context.check()
    write(Path(os.environ.get(INDEXES, "results"), f"{tenant}.json"), places)
    context.log.info("%s has %d words in %d notes", tenant, len(places), len(notes))


def write(file: Path, places: dict[str, set[str]]) -> None:
    """Put the index in its place in one step: a search that reads meanwhile has the old one or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".draft")
    index = {word: sorted(found) for word, found in sorted(places.items())}
    draft.write_text(json.dumps(index, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(file)
