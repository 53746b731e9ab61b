"""Explain partitions on the workers of a Dask cluster: processes on this machine, or any cluster by its address.

Only text is sent: the path of the model folder, the options, which rows. Workers load the model themselves.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..errors import DataError, Fault
from ..progress import OnProgress, Progress
from ..schema.feature import plain
from .parts import Part, Partition, whole_part

if TYPE_CHECKING:
    from distributed import Client, Future

STARTING = "starting workers"
# Seconds to wait for a scheduler's answer, and for the first of its workers.
PATIENCE = 30.0
# Dask makes workers return every freed page to the system, which doubled the time of a row (measured on Linux), and
# samples their stacks a hundred times per second for its dashboard, which took a tenth of it.
OWN_WORKERS = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    "distributed.worker.profile.enabled": False,
}
GO_ON = "Finished parts are kept; run the same command again to resume."

OnWorker = Callable[..., str]
"""Explain a partition on a worker: takes a `Partition` and `asked`, returns a `Part`, all as JSON."""


@dataclass(frozen=True)
class WorkerJob:
    """What workers need to know: which model, how rows are read, and the options of `explain`."""

    model: str
    classifier: str | None
    identity: str
    index: str | None
    strict: bool
    k: int
    options: Mapping[str, Any]
    overrides: pd.DataFrame | None

    def to_json(self) -> str:
        """As text."""
        own, cells = self.overrides, None
        if own is not None:
            # An empty cell says nothing.
            records = own.astype(object).where(own.notna(), None).to_dict("records")
            cells = list(zip(own.index.tolist(), records, strict=True))
        return json.dumps({**vars(self), "overrides": cells}, default=_plain)

    @classmethod
    def from_json(cls, text: str) -> WorkerJob:
        """From text."""
        data = json.loads(text)
        if data["overrides"] is not None:
            labels, cells = zip(*data["overrides"], strict=True)
            # JSON has made lists of tuples.
            index = pd.Index([tuple(label) if isinstance(label, list) else label for label in labels])
            data["overrides"] = pd.DataFrame(list(cells), index=index, dtype=object)
        return cls(**data)


def _plain(value: Any) -> Any:
    """A value that JSON cannot hold, as one that it can."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    found = plain(value)
    if found is value:
        problem = f"is a {type(value).__name__}, which cannot be sent to workers"
        raise DataError("engine='dask'", [Fault(str(value), problem, "Give text, numbers, lists or mappings.")])
    return found


@dataclass
class OnCluster:
    """Explain partitions on the cluster at `scheduler` or, without one, with `workers` processes on this machine."""

    explain: OnWorker
    asked: str
    workers: int | None = None
    scheduler: str | None = None
    _here: int = field(default=0, init=False)

    @property
    def words(self) -> str:
        """The number of workers."""
        return f"{self._here} worker{'s' * (self._here != 1)}"

    def __call__(self, partitions: Sequence[Partition], on_progress: OnProgress) -> Generator[Part]:
        """The part of each partition, in the order in which they finish."""
        on_progress(Progress(STARTING, 0))
        with _connected(self.workers, self.scheduler) as client:
            from distributed import as_completed

            note = f"Dask dashboard: {client.dashboard_link}" if client.dashboard_link else ""
            on_progress(Progress(STARTING, 0, note=note))
            texts = [partition.to_json() for partition in partitions]
            futures = client.map(self.explain, texts, asked=self.asked, pure=False)
            whose = {future.key: partition for future, partition in zip(futures, partitions, strict=True)}
            try:
                for future in as_completed(futures):
                    with suppress(OSError, TimeoutError):
                        self._here = len(client.nthreads()) if client.status == "running" else self._here
                    yield self._part(future, whose[future.key], client)
                    future.release()
            finally:
                # A scheduler that has died has forgotten them already.
                with suppress(OSError, TimeoutError):
                    if client.status == "running":
                        client.cancel(futures, force=True)

    def _part(self, future: Future, partition: Partition, client: Client) -> Part:
        from concurrent.futures import CancelledError

        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        try:
            return Part.from_json(future.result())
        except (CommClosedError, CancelledError) as error:
            where = self.scheduler or client.scheduler.address
            raise DataError("", [Fault(f"scheduler {where}", "no longer responds", GO_ON)]) from error
        except KilledWorker as error:
            # The last worker may have died after it wrote the part.
            if (there := whole_part(partition)) is not None:
                return there
            if partition.needed:
                raise DataError("", [Fault(str(partition.place), _killed(error), GO_ON)]) from error
            return Part(partition.number, partition.rows, {}, failure=_killed(error))


def _killed(error: Any) -> str:
    worker = getattr(getattr(error, "last_worker", None), "address", "unknown")
    problem = f"{error.allowed_failures + 1} workers died while explaining it, the last at {worker}"
    return f"{problem}: most likely they ran out of memory. Give workers more, or explain fewer rows at a time (chunk)"


def check_engine(engine: str | None, workers: int | None, scheduler: str | None) -> None:
    """Refuse an engine that is unknown or not installed, and options that only the engine uses without it."""
    if engine != "dask":
        given = {"workers": workers, "scheduler": scheduler, "classifier": True}
        name = next(name for name, value in given.items() if value is not None)
        place, problem = (name, "is for a cluster") if engine is None else (f"engine {engine!r}", "is not known")
        raise DataError("", [Fault(place, problem, "Pass engine='dask', or leave it out.")])
    if workers is not None and scheduler is not None:
        problem = "starts processes on this machine, and a scheduler was given"
        raise DataError("", [Fault("workers", problem, "Leave out one of the two.")])
    if workers is not None and workers < 1:
        raise DataError("", [Fault(f"workers {workers}", "is not a number of processes", "Give 1 or more.")])
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise DataError("", [Fault("engine 'dask'", "is not installed", "pip install 'fcxplain[dask]'.")]) from error


@contextmanager
def _connected(workers: int | None, scheduler: str | None) -> Iterator[Client]:
    """A client of the cluster. A cluster that was started here ends with it."""
    import dask
    from distributed import Client, LocalCluster

    with ExitStack() as stack:
        stack.enter_context(_quiet())
        if scheduler is None:
            stack.enter_context(dask.config.set(OWN_WORKERS))
            own = LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
            )
            stack.enter_context(own)
        try:
            client = stack.enter_context(Client(scheduler or own, timeout=PATIENCE))
            client.wait_for_workers(1, timeout=PATIENCE)
        except (OSError, TimeoutError) as error:
            remedy = "Check its address and that workers are connected (dask worker ADDRESS)."
            raise DataError("", [Fault(f"scheduler {scheduler}", f"cannot be used ({error})", remedy)]) from error
        yield client


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Dask's log of workers that come and go: we report what matters."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
