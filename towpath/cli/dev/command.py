"""``towpath dev``: run a project on a database while it is being written."""

from __future__ import annotations

import getpass
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from towpath.cli.dev.happenings import Interrupted, Said
from towpath.cli.dev.keys import pressed_keys
from towpath.cli.dev.live import Screen
from towpath.cli.dev.plain import Lines
from towpath.cli.dev.project import Project
from towpath.cli.dev.session import MakeWorkers, Session
from towpath.cli.dev.state import State
from towpath.cli.dev.watching import watched
from towpath.cli.dev.workers import Workers
from towpath.cli.options import whole_url, without_password
from towpath.cli.output import JsonFlag, console, print_document, print_sentence
from towpath.errors import Unsupported
from towpath.topology.files import read_document
from towpath.transports import TopologyStore, connect

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Topology: TypeAlias = Annotated[Path, typer.Option("--topology", help="The topology; its folder has the handlers.")]
Database: TypeAlias = Annotated[str, typer.Option("--database", help="The database's URL; SQLite makes the file.")]
Plain: TypeAlias = Annotated[bool, typer.Option("--plain", help="Print lines at a terminal, too.")]


def dev(
    *,
    topology: Topology = Path("topology.toml"),
    database: Database = "sqlite:///dev.db",
    plain: Plain = False,
    as_json: JsonFlag = False,
) -> None:
    """Run a project on a database while you write it: workers for all subscriptions, started anew on every change.

    A Python file or a topology with mistakes is told, and what waits stays safe until the next change. Publish from
    another terminal. Keys: p pauses or resumes, r replays dead letters, e shows or hides the last traceback, q quits.
    Without a terminal there is a line for everything that happens; Ctrl-C drains, a second one aborts.

    Example: towpath dev --database sqlite:///dev.db
    """
    file, url = topology.resolve(), whole_url(database)
    if not file.is_file():
        read_document(topology)  # which says so
    live = not as_json and not plain and _is_terminal()
    with closing(connect(url)) as transport:
        if not isinstance(transport, TopologyStore):
            raise Unsupported(f"{database} keeps no topology of its own; give a database: --database sqlite:///dev.db")
        project = Project(topology=file, transport=transport, actor=getpass.getuser())
        workers = partial(Workers, file.parent, url)
        if live:
            code = _live(project, workers, without_password(database))
        else:
            code = _plain(project, workers, without_password(database), as_json=as_json)
    raise typer.Exit(code)


def _is_terminal() -> bool:
    to = console()
    return sys.stdin is not None and sys.stdin.isatty() and to.is_terminal and not to.is_dumb_terminal


def _hint(database: str) -> str:
    return f"publish in another terminal: towpath publish TOPIC PAYLOAD --transport {database}"


def _live(project: Project, workers: MakeWorkers, database: str) -> int:
    screen = Screen(console(), State(database=database, said=_hint(database)))
    session = Session(project, screen, workers)
    with _heard_signals(session), screen, pressed_keys(sys.stdin.fileno(), session.tell):
        code = _run(session, project)
    print_sentence(f"{database} keeps what is waiting and what is dead")
    return code


def _plain(project: Project, workers: MakeWorkers, database: str, *, as_json: bool) -> int:
    lines = Lines(print_document, as_json=as_json)
    lines.show(Said(sentence=_hint(database)))
    session = Session(project, lines, workers)
    with _heard_signals(session):
        return _run(session, project)


def _run(session: Session, project: Project) -> int:
    with watched(project.topology, session.tell):
        return session.run()


@contextmanager
def _heard_signals(session: Session) -> Iterator[None]:
    """While this lasts, signals that want an end are the session's to obey: none cuts off what comes after its end,
    such as that the terminal is put back.
    """
    before = {number: signal.signal(number, lambda *_: session.tell(Interrupted())) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
