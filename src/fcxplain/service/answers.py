"""The engine: questions wait in a queue, workers answer them, and callers can watch progress or cancel.

Nothing here blocks the event loop: a worker is a process (see `worker`), and a model that hangs is killed with it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ..errors import DataError
from ..hashing import fingerprint
from .trust import Limits

logger = logging.getLogger(__name__)

Data = dict[str, Any]
"""A message to or from a worker: JSON, one message per line."""
# The maximum length of a message.
LONGEST_LINE = 2**30

# Seconds that a worker has to load the model, and to stop when cancelled.
LOADING, GRACE = 600.0, 1.0
# Seconds between checks for a question that is not slow.
LOOKING = 0.01
# Answers that are cached.
REMEMBERED = 1_000
# Messages for questions without an answer; a model's own message is shown to case workers only.
WORDS = {
    "time": "The model took too long and was stopped.",
    "crash": "The model stopped unexpectedly and was restarted.",
    "busy": "Too many requests are waiting. Please try again in a moment.",
    "cancelled": "Stopped.",
    "model": "The model gave no usable answer.",
    "fault": "Something went wrong on our side. It was not your fault.",
}


class Unanswered(Exception):
    """A question without an answer: `kind` says why, `words` are for users, `detail` for administrators."""

    def __init__(self, kind: str, detail: str = "") -> None:
        self.kind, self.detail = kind, detail
        self.words = detail if kind in ("question", "start") else WORDS.get(kind, WORDS["fault"])
        super().__init__(self.words)


@dataclass(eq=False)
class Pending:
    """A question and its progress."""

    key: str
    do: str
    asked: Data
    seconds: float
    result: Data | None = None
    failure: Unanswered | None = None
    progress: Data = field(default_factory=dict)
    worker: Worker | None = None
    begun: float = field(default_factory=time.monotonic)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, result: Data | None = None, failure: Unanswered | None = None) -> None:
        """Set the answer or the failure; only the first call counts."""
        if not self.ended.is_set():
            self.result, self.failure = result, failure
            self.ended.set()

    async def wait(self, seconds: float) -> bool:
        """Wait, and return whether it ended in time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.ended.wait(), seconds)
        return self.ended.is_set()

    def answer(self) -> Data:
        """The answer of a finished question."""
        if self.failure is not None:
            raise self.failure
        assert self.result is not None
        return self.result

    @property
    def words(self) -> str:
        """The progress in words."""
        p, passed = self.progress, int(time.monotonic() - self.begun)
        if self.worker is None:
            return "Waiting: other requests come first."
        if p.get("total"):
            people = f" of {p['total']:,} people" if self.do == "table" else ""
            stage = str(p["stage"]).replace("rows", "people").capitalize()
            return f"{stage}: {p['done'] / p['total']:.0%}{people}, {passed} seconds."
        tried = f"{p['tried']:,} possibilities tried, " if p.get("tried") else ""
        return f"Looking for options: {tried}{passed} seconds."


class Worker:
    """One process, and one question to it at a time."""

    def __init__(self, command: list[str], *, loud: bool) -> None:
        self.command, self.loud = command, loud
        self.process: Process | None = None
        self.ending: set[asyncio.Task[int]] = set()

    async def start(self) -> None:
        """Start the process, and wait until the model is loaded."""
        paths = os.pathsep.join(p for p in sys.path if p)
        # Workers share the cores: threads of one would wait for those of another.
        env = {"OMP_NUM_THREADS": "1"} | dict(os.environ) | {"PYTHONPATH": paths}
        # A model's output may contain personal details.
        self.process = await asyncio.create_subprocess_exec(
            *self.command, stdin=PIPE, stdout=PIPE, stderr=None if self.loud else DEVNULL, env=env, limit=LONGEST_LINE
        )
        await self._reply(LOADING, lambda _: None)

    async def answer(self, do: str, asked: Mapping[str, Any], seconds: float, tell: Callable[[Data], None]) -> Data:
        """Send a question, and wait for the answer up to a limit."""
        if self.process is None or self.process.returncode is not None:
            await self.start()
        self.say({"do": do, "with": asked})
        return await self._reply(seconds, tell)

    def say(self, message: Data) -> None:
        """Send a message, unless the process has ended."""
        raw = json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        if self.process is not None and self.process.stdin is not None and not self.process.stdin.is_closing():
            self.process.stdin.write(raw + b"\n")

    async def _reply(self, seconds: float, tell: Callable[[Data], None]) -> Data:
        assert self.process is not None
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    message: Data = json.loads(await self.process.stdout.readuntil())
                    if "progress" not in message:
                        break
                    tell(message["progress"])
        except (TimeoutError, asyncio.IncompleteReadError) as error:
            self.kill()
            raise Unanswered("time" if isinstance(error, TimeoutError) else "crash") from None
        except asyncio.CancelledError:
            self.kill()
            raise
        if "error" in message:
            raise Unanswered(message["error"]["kind"], message["error"]["words"])
        found: Data = message["result"]
        return found

    def kill(self) -> None:
        """Kill the process."""
        process, self.process = self.process, None
        if process is None:
            return
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        # Its pipes are closed when it is gone.
        ending = asyncio.get_running_loop().create_task(process.wait())
        self.ending.add(ending)
        ending.add_done_callback(self.ending.discard)


class Engine:
    """The workers of one model, and the questions to them."""

    def __init__(
        self,
        model: str,
        classifier: str | None = None,
        *,
        workers: int = 2,
        limits: Limits | None = None,
        loud: bool = False,
    ) -> None:
        command = [sys.executable, "-m", __package__ + ".worker", model, *([classifier] if classifier else [])]
        self.limits = limits or Limits()
        self.workers = [Worker(command, loud=loud) for _ in range(workers)]
        # Each table gets its own process, so that other questions do not wait for it.
        self._command, self._loud, self._one_table = command, loud, asyncio.Semaphore(1)
        # Finding obstacles takes long: these questions come last and never occupy all workers.
        self._line: asyncio.PriorityQueue[tuple[bool, int, Pending]] = asyncio.PriorityQueue()
        self._count, self._slow = 0, asyncio.Semaphore(max(1, workers - 1))
        self._jobs: OrderedDict[str, Pending] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self.about: Data = {}

    async def start(self) -> None:
        """Load the model; raises an error if that fails."""
        try:
            await asyncio.gather(*(worker.start() for worker in self.workers))
            self.about = await self.workers[0].answer("about", {}, LOADING, lambda _: None)
        except Unanswered as error:
            await self.stop()
            raise DataError(error.detail or error.words) from None
        for worker in self.workers:
            self._spawn(self._serve(worker))

    async def stop(self) -> None:
        """End all processes."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for worker in self.workers:
            worker.kill()
        await asyncio.gather(*(ending for worker in self.workers for ending in worker.ending))

    @property
    def waiting(self) -> int:
        """Questions that no worker has started."""
        return self._line.qsize()

    def job(self, do: str, asked: Data, *, again: bool = False) -> Pending:
        """The job of a question, new unless it is running or cached; `again` restarts a cancelled one."""
        key, known = _key(do, asked), self.asked(do, asked)
        if known is not None and not (known.failure is not None and (again or known.failure.kind != "cancelled")):
            self._jobs.move_to_end(key)
            return known
        if self.waiting >= self.limits.waiting:
            raise Unanswered("busy")
        job = Pending(key, do, asked, self.limits.table_seconds if do == "table" else self.limits.seconds)
        self._jobs[key] = job
        ended = [key for key, job in self._jobs.items() if job.ended.is_set()]
        for old in ended[: max(0, len(self._jobs) - REMEMBERED)]:
            del self._jobs[old]
        if do == "table":
            self._spawn(self._serve_apart(job))
        else:
            self._count += 1
            self._line.put_nowait((_is_slow(job), self._count, job))
        return job

    def asked(self, do: str, asked: Data) -> Pending | None:
        """The job of an earlier question, as long as it is cached."""
        return self._jobs.get(_key(do, asked))

    async def answer(self, do: str, asked: Data) -> Data:
        """Ask, and wait for the answer without a limit."""
        job = self.job(do, asked)
        await job.ended.wait()
        return job.answer()

    def cancel(self, job: Pending, *, kill: bool = True) -> None:
        """Cancel a question: at once if it waits, else through the worker, or by killing the worker."""
        worker = job.worker
        if worker is not None and not job.ended.is_set():
            worker.say({"do": "cancel"})
        if kill and worker is not None and not job.ended.is_set():
            asyncio.get_running_loop().call_later(GRACE, _kill_if_deaf, job, worker)
        job.end(failure=Unanswered("cancelled"))

    def forget(self, key: str) -> None:
        """Remove a question from the cache."""
        self._jobs.pop(key, None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, worker: Worker) -> None:
        while True:
            entry = await self._line.get()
            job = entry[-1]
            if job.ended.is_set():
                continue
            if not _is_slow(job):
                await self._run(job, worker)
            elif self._slow.locked():
                # Another worker is busy with such a question: leave this one to the others.
                self._line.put_nowait(entry)
                await asyncio.sleep(LOOKING)
            else:
                async with self._slow:
                    await self._run(job, worker)

    async def _serve_apart(self, job: Pending) -> None:
        async with self._one_table:
            if not job.ended.is_set():
                worker = Worker(self._command, loud=self._loud)
                try:
                    await self._run(job, worker)
                finally:
                    worker.kill()

    async def _run(self, job: Pending, worker: Worker) -> None:
        job.worker, job.begun = worker, time.monotonic()
        try:
            job.end(await worker.answer(job.do, job.asked, job.seconds, job.progress.update))
        except Unanswered as failure:
            logger.warning("%s was not answered: %s", job.do, failure.kind)
            job.end(failure=failure)
        except OSError as error:
            worker.kill()
            job.end(failure=Unanswered("crash", str(error)))
        finally:
            job.worker = None


def _is_slow(job: Pending) -> bool:
    return bool(job.asked.get("why"))


def _key(do: str, asked: Data) -> str:
    return fingerprint(do, json.dumps(asked, sort_keys=True, default=str))[:32]


def _kill_if_deaf(job: Pending, worker: Worker) -> None:
    """Kill a worker that still works on a cancelled question: its model hangs."""
    if job.worker is worker:
        worker.kill()
