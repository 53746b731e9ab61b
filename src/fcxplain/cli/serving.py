"""`fcxplain serve` and `store`: the interactive page, and the receipts that it keeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape

from ..errors import DataError, Fault
from ..text import counted
from .console import App, Json, argument, err, need_extra, one_line, option, out, print_json, table_of
from .models import CalledBy, Model, OwnClassifier, is_built_in
from .progress import Work

if TYPE_CHECKING:
    from ..service.app import ServeSettings
    from ..service.receipts import Store
    from ..service.service import Service

StoreFile = Annotated[Path, argument("The file that `serve --store` wrote.")]

store_app = App(help="List, show and delete the receipts that a server keeps.", no_args_is_help=True)


def _find_rows(rows: str | None) -> None:
    """Refuse a file that does not exist before the model is loaded, which takes seconds."""
    from ..datasets.source import located
    from ..datasets.tables import existing

    if rows is not None and not is_built_in(rows):
        existing(Path(located(rows)))


def serve(
    model: Model,
    rows: Annotated[str | None, option("The people to choose from: a CSV or parquet file, or a data set.")] = None,
    index: CalledBy = None,
    classifier: OwnClassifier = None,
    host: Annotated[str, option("The address to listen on. Any other than this machine needs a token.")] = "127.0.0.1",
    port: Annotated[int, option("The port; 0 picks a free one.")] = 8000,
    token: Annotated[
        str | None, option("The secret that every visitor must give, 16 characters or more.", envvar="FCXPLAIN_TOKEN")
    ] = None,
    origin: Annotated[
        str | None, option("The public address behind a proxy, e.g. https://answers.example.org.")
    ] = None,
    store: Annotated[Path | None, option("The file for receipts; without it, none are kept.")] = None,
    workers: Annotated[int, option("The number of worker processes; each loads the model.", least=1)] = 2,
    seconds: Annotated[float, option("The time limit per question.", least=1)] = 60.0,
    log_values: Annotated[
        bool, option("Show what the model prints, which may include personal data.", "--log-values")
    ] = False,
    as_json: Json = False,
) -> None:
    """Serve an interactive page for a case worker and the person in front of them.

    Example: fcxplain serve model --rows people.parquet --id customer --store answers.db

    The page shows what the person could change, what would happen if they did something else, and why there may be no
    answer. It prints a letter and issues a signed receipt. It listens on this machine only unless a token is given, and
    sends nothing to third parties.
    """
    need_extra()
    _find_rows(rows)
    from ..service.app import ServeSettings
    from ..service.trust import Limits

    limits = Limits(seconds=seconds)
    where: dict[str, Any] = {"host": host, "port": port, "token": token, "origin": origin, "store": store}
    how: dict[str, Any] = {"workers": workers, "loud": log_values, "limits": limits}
    open_page(ServeSettings(str(model), rows, index, classifier, **where, **how), as_json=as_json)


def open_page(settings: ServeSettings, *, as_json: bool = False) -> None:
    """Serve until Ctrl-C; with JSON, print the address as one line when the page is ready."""
    from ..service.app import run

    err.print("loading the model ...")

    def ready(service: Service, address: str) -> None:
        if as_json:
            return print_json({"address": address, "people": len(service.people), "store": settings.store})
        people = (
            f", {counted(len(service.people), 'person').replace('persons', 'people')}" if len(service.people) else ""
        )
        kept = f"; receipts go to {settings.store}" if settings.store else "; nothing is stored"
        return out.print(f"open {address}{people}{escape(kept)}. Press Ctrl-C to stop.")

    run(settings, on_ready=ready)


def bench_serve(
    model: Model,
    rows: Annotated[str, option("The people to ask about: a file, or the name of a data set.")],
    people: Annotated[int, option("The number of simultaneous users.", least=1)] = 20,
    seconds: Annotated[float, option("The duration in seconds.", least=1)] = 20.0,
    pause: Annotated[float, option("Seconds that a user reads before the next request.", least=0)] = 1.0,
    as_json: Json = False,
) -> None:
    """Measure how quickly the page gives a new, verified answer after a change, with many users at once.

    Example: fcxplain bench serve fcxplain-demo/model --rows adult --people 20

    Starts a server on this machine and stops it again; no other server is contacted.
    """
    need_extra()
    _find_rows(rows)
    from ..service.load import measured

    with Work(f"{people} users for {seconds:.0f} seconds"):
        found = measured(str(model), rows, people=people, seconds=seconds, pause=pause)
    if as_json:
        return print_json(vars(found))
    out.print(f"{found.answers:,} requests answered, {found.failures} failures")
    said = f"median {found.median:.0f} ms, 95 % within {found.p95:.0f} ms, longest {found.longest:.0f} ms"
    out.print(f"{said}; with reasons, median {found.reasons:.0f} ms")
    return out.print(f"page size with all assets: {found.first_paint / 1e3:.0f} kB")


@store_app.command("list")
def store_list(
    store: StoreFile,
    person: Annotated[str | None, option("Only the receipts of this person.")] = None,
    as_json: Json = False,
) -> None:
    """List the receipts in a store: person, date and receipt number.

    Example: fcxplain store list answers.db --person C1042
    """
    found = _store(store).entries(person)
    if as_json:
        return print_json([vars(entry) for entry in found])
    if found:
        rows = [(one_line(entry.person), entry.issued, entry.id) for entry in found]
        out.print(table_of("person", "issued", "receipt", rows=rows))
    return out.print(counted(len(found), "receipt"))


@store_app.command("show")
def store_show(
    store: StoreFile, receipt: Annotated[str, argument("The number of the receipt.")], as_json: Json = True
) -> None:
    """Print a receipt as JSON, for `fcxplain verify`.

    Example: fcxplain store show answers.db 3f2a... > receipt.json
    """
    found = _store(store).receipt(receipt)
    if found is None:
        raise DataError("", [Fault(f"receipt {receipt}", "is not in this store", "See `fcxplain store list`.")])
    print_json(found)


@store_app.command("delete")
def store_delete(
    store: StoreFile,
    person: Annotated[str | None, option("All receipts of this person.")] = None,
    receipt: Annotated[str | None, option("The number of one receipt.")] = None,
    as_json: Json = False,
) -> None:
    """Delete one receipt, or all receipts of a person. The bytes are overwritten; backups are not touched.

    Example: fcxplain store delete answers.db --person C1042
    """
    if (person is None) == (receipt is None):
        raise DataError("give either --person or --receipt")
    gone = _store(store).delete(person=person, key=receipt)
    if as_json:
        return print_json({"deleted": gone})
    return out.print(f"{counted(gone, 'receipt')} deleted")


def _store(path: Path) -> Store:
    need_extra()
    from ..service.receipts import Store

    if not path.is_file():
        raise DataError("", [Fault(str(path), "does not exist", "Give the file that `serve --store` wrote.")])
    return Store(path)
