"""`fcxplain serve` and `store`: the page that answers, and what it has kept."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ..errors import DataError, Fault
from ..text import counted
from .console import Json, err, one_line, out, print_json, table_of
from .manners import App
from .models import CalledBy, Model, OwnClassifier
from .progress import working

if TYPE_CHECKING:
    from ..service.app import ServeSettings
    from ..service.service import Service
    from ..service.store import Store

NEEDED = ("fastapi", "uvicorn", "cryptography", "multipart")
Host = Annotated[str, typer.Option(help="Where to listen. Anything but this machine needs a token.")]
Port = Annotated[int, typer.Option(help="The port; 0 takes a free one.")]
StoreFile = Annotated[Path, typer.Argument(help="The file that `serve --store` wrote.")]

store_app = App(help="What a server has kept: list it, delete it.", no_args_is_help=True)


def need_extra() -> None:
    """Say what to install where the extra is missing."""
    absent = [name for name in NEEDED if find_spec(name) is None]
    if absent:
        raise DataError(f"this needs more packages ({', '.join(absent)}): pip install 'fcxplain[serve]'")


def serve(
    model: Model,
    rows: Annotated[
        str | None, typer.Option(help="People to choose from: a CSV or parquet file, or a data set.")
    ] = None,
    index: CalledBy = None,
    classifier: OwnClassifier = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar="FCXPLAIN_TOKEN", help="What everybody must know, 16 letters or more."),
    ] = None,
    origin: Annotated[
        str | None, typer.Option(help="The address that a proxy gives it, e.g. https://answers.example.org.")
    ] = None,
    store: Annotated[Path | None, typer.Option(help="The file for receipts; without it none are kept.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that answer; each holds the model.")] = 2,
    seconds: Annotated[float, typer.Option(min=1, help="What one question may take.")] = 60.0,
    log_values: Annotated[
        bool, typer.Option("--log-values", help="Let through what the model prints, though it may be about people.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Open the page that answers: for a case worker with a person in front of them, and for that person.

    What could this person change, what if they did something else, why is there no way, and a letter and a signed
    receipt of what was found. It listens on this machine only unless a token is given, and sends nothing to anybody.

    Example: fcxplain serve model --rows people.parquet --id customer --store answers.db
    """
    need_extra()
    from ..service.app import ServeSettings
    from ..service.trust import Limits

    limits = Limits(seconds=seconds)
    where: dict[str, Any] = {"host": host, "port": port, "token": token, "origin": origin, "store": store}
    how: dict[str, Any] = {"workers": workers, "loud": log_values, "limits": limits}
    open_page(ServeSettings(str(model), rows, index, classifier, **where, **how), as_json=as_json)


def open_page(settings: ServeSettings, *, as_json: bool = False) -> None:
    """Serve until Ctrl-C; as JSON, one line says the address when it can be opened."""
    from ..service.app import run

    err.print("loading the model ...", highlight=False)

    def ready(service: Service, address: str) -> None:
        if as_json:
            return print_json({"address": address, "people": len(service.people), "store": settings.store})
        people = (
            f", {counted(len(service.people), 'person').replace('persons', 'people')}" if len(service.people) else ""
        )
        kept = f"; receipts go to {settings.store}" if settings.store else "; nothing is stored"
        return out.print(f"open {address}{people}{escape(kept)}. Ctrl-C ends it.", highlight=False, soft_wrap=True)

    run(settings, on_ready=ready)


def bench_serve(
    model: Model,
    rows: Annotated[str, typer.Option(help="The people who are asked about: a file, or a data set's name.")],
    people: Annotated[int, typer.Option(min=1, help="People who work at once.")] = 20,
    seconds: Annotated[float, typer.Option(min=1, help="For how long.")] = 20.0,
    pause: Annotated[float, typer.Option(min=0, help="Seconds that somebody reads before the next wish.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Measure how soon a changed wish has its new, verified answer, with many people at once.

    A server is started on this machine, and stopped again; nothing else is ever asked.

    Example: fcxplain bench serve fcxplain-demo/model --rows adult --people 20
    """
    need_extra()
    from ..service.load import measured

    with working(f"{people} people at work for {seconds:.0f} seconds"):
        found = measured(str(model), rows, people=people, seconds=seconds, pause=pause)
    if as_json:
        return print_json(vars(found))
    out.print(f"{found.answers:,} wishes answered, {found.failures} failures", highlight=False)
    said = f"median {found.median:.0f} ms, 95 % within {found.p95:.0f} ms, longest {found.longest:.0f} ms"
    out.print(f"{said}; with what stands in the way, median {found.reasons:.0f} ms", highlight=False)
    return out.print(f"a page and all it needs: {found.first_paint / 1e3:.0f} kB", highlight=False)


@store_app.command("list")
def store_list(
    store: StoreFile,
    person: Annotated[str | None, typer.Option(help="Only what is kept of this person.")] = None,
    as_json: Json = False,
) -> None:
    """List what is kept: who, when, and the receipt's number.

    Example: fcxplain store list answers.db --person C1042
    """
    found = _store(store).entries(person)
    if as_json:
        return print_json([vars(entry) for entry in found])
    table = table_of("person", "issued", "receipt")
    for entry in found:
        table.add_row(escape(one_line(entry.person)), entry.issued, entry.id)
    if found:
        out.print(table)
    return out.print(f"{counted(len(found), 'receipt')}", highlight=False)


@store_app.command("show")
def store_show(
    store: StoreFile, receipt: Annotated[str, typer.Argument(help="Its number.")], as_json: Json = True
) -> None:
    """Print a receipt as it was shown, for `fcxplain verify`; it is JSON in any case.

    Example: fcxplain store show answers.db 3f2a... > receipt.json
    """
    found = _store(store).receipt(receipt)
    if found is None:
        raise DataError("", [Fault(f"receipt {receipt}", "is not kept here", "See `fcxplain store list`.")])
    print_json(found)


@store_app.command("delete")
def store_delete(
    store: StoreFile,
    person: Annotated[str | None, typer.Option(help="Everything that is kept of this person.")] = None,
    receipt: Annotated[str | None, typer.Option(help="One receipt, by its number.")] = None,
    as_json: Json = False,
) -> None:
    """Delete what is kept of a person, or one receipt. The bytes are overwritten; backups are your own affair.

    Example: fcxplain store delete answers.db --person C1042
    """
    if (person is None) == (receipt is None):
        raise DataError("give --person or --receipt, one of the two")
    gone = _store(store).delete(person=person, key=receipt)
    if as_json:
        return print_json({"deleted": gone})
    return out.print(f"{counted(gone, 'receipt')} deleted", highlight=False)


def _store(path: Path) -> Store:
    need_extra()
    from ..service.store import Store

    if not path.is_file():
        raise DataError("", [Fault(str(path), "is not there", "Name the file that `serve --store` wrote.")])
    return Store(path)
