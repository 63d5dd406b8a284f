"""Books entries into accounts. The partition key is the account, so its entries come one at a time, in their order."""

import json
from dataclasses import dataclass
from pathlib import Path

from towpath import Complete, Context, DeadLetter, Message, Outcome

RESULTS = Path("results")


@dataclass(frozen=True)
class Entry:
    """An amount to be added to an account; a negative one is taken from it."""

    amount: int


def book(message: Message[Entry], context: Context) -> Outcome:
    """Add the entry to its account's balance, once.

    Nobody else works on this account, so reading and writing its file needs no lock. Should a worker die after the
    write, the same message comes again before any other of its account: it is enough to remember the last one.
    """
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{message.partition_key}.json"
    account = json.loads(file.read_text()) if file.exists() else {"balance": 0, "last": None}
    if account["last"] == message.id:
        return Complete()
    balance = account["balance"] + message.payload.amount
    if balance < 0:
        return DeadLetter(f"{message.partition_key} has {account['balance']}, that is {-balance} too little")
    written = file.with_suffix(".new")
    written.write_text(json.dumps({"balance": balance, "last": message.id}) + "\n")
    written.replace(file)
    context.log.info("%s has %d", message.partition_key, balance)
    return Complete()
