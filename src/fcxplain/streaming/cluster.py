"""Partitions explained by the workers of a Dask cluster: of this machine's cores, or of any cluster by its address.

What travels is text: where the model folder is, what was asked, which rows. Workers load the model themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import DataError, Fault
from ..progress import OnProgress, Progress
from .run import Part, Partition, whole_part

if TYPE_CHECKING:
    from distributed import Client, Future

STARTING = "starting workers"
# Seconds to wait for a scheduler's answer, and for the first of its workers.
PATIENCE = 30.0
GO_ON = "What is done is kept; the same run again goes on from there."

OnWorker = Callable[..., str]
"""Explain a partition on a worker: a `Partition`, what was `asked`, and the `Part` that comes of it, all as JSON."""


@dataclass
class OnCluster:
    """Partitions on the workers of a cluster: `scheduler` is its address; without one, this machine's own `workers`."""

    explain: OnWorker
    asked: str
    workers: int | None = None
    scheduler: str | None = None
    _here: int = field(default=0, init=False)

    @property
    def words(self) -> str:
        """How many workers there are."""
        return f"{self._here} worker{'s' * (self._here != 1)}"

    def __call__(self, partitions: Sequence[Partition], on_progress: OnProgress) -> Generator[Part]:
        """Each partition's part, as they come."""
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
                # A scheduler that is gone has forgotten them already.
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
            raise DataError("", [Fault(f"scheduler {where}", "does not answer any more", GO_ON)]) from error
        except KilledWorker as error:
            # The last of these workers may have died after it wrote the part.
            if (there := whole_part(partition)) is not None:
                return there
            if partition.needed:
                raise DataError("", [Fault(str(partition.place), _killed(error), GO_ON)]) from error
            return Part(partition.number, partition.rows, {}, failure=_killed(error))


def _killed(error: Any) -> str:
    worker = getattr(getattr(error, "last_worker", None), "address", "unknown")
    problem = f"{error.allowed_failures + 1} workers died while they explained it, the last at {worker}"
    return f"{problem}: most likely their memory ran out. Give workers more, or explain fewer rows at a time (chunk)"


def check_dask() -> None:
    """Refuse the engine where it is not installed, before any work."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise DataError("", [Fault("engine 'dask'", "is not installed", "pip install 'fcxplain[dask]'.")]) from error


@contextmanager
def _connected(workers: int | None, scheduler: str | None) -> Iterator[Client]:
    """A client of the cluster; one of our own ends with it."""
    from distributed import Client, LocalCluster

    with ExitStack() as stack:
        stack.enter_context(_quiet())
        if scheduler is None:
            own = LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
            )
            stack.enter_context(own)
        try:
            client = stack.enter_context(Client(scheduler or own, timeout=PATIENCE))
            client.wait_for_workers(1, timeout=PATIENCE)
        except (OSError, TimeoutError) as error:
            remedy = "Check its address, and that workers are connected to it (dask worker ADDRESS)."
            raise DataError("", [Fault(f"scheduler {scheduler}", f"cannot be used ({error})", remedy)]) from error
        yield client


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what Dask logs of workers that come and go: what matters is told by us."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
