"""The process with the explainer: questions in, answers out, as lines of JSON on standard input and output.

It is separate from the server, so that a model that hangs, crashes or uses a whole core costs one question and not the
whole site. It ends when the server does. Answers are plain data, worded once for pages and programs.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import pandas as pd

from ..datasets.source import Source, read_rows
from ..errors import ClassifierError, FcxError
from ..explainer import FCx
from ..explanation import Certificate, Explanation, Status, WhyNot
from ..explanation.certificate import cells, issued, labels, model_id, rules_id, written
from ..explanation.checks import needed_scores
from ..explanation.page.cards import spread_of
from ..explanation.page.summary import obstacle_counts
from ..explanation.reasons import Obstacle
from ..explanation.wording import amount, change_texts, class_words, short
from ..overrides import Overrides
from ..progress import Progress
from ..rules import in_words, notation, parse_rules
from ..schema.words import is_inborn, is_personal
from .answers import Data
from .people import Wishes, difficulties, own_rules, read_wishes
from .receipts import held_against

# Seconds between progress messages.
PAUSE = 0.2
# People listed in the answer to a table; the report has all of them.
LISTED = 5_000


class Cancelled(BaseException):
    """The question was cancelled. Not an `Exception`, so that handlers of model errors do not catch it."""


def _different(e: Explanation) -> list[int]:
    """The answers of one person, best first, without those that only move a number further than an earlier one."""
    kinds: dict[Any, int] = {}
    for i in np.argsort(e.rank, kind="stable").tolist():
        schema = e.task.schema
        kind = tuple((c.feature, None if schema[c.feature].is_number else c.then) for c in e.changes(i))
        kinds.setdefault(kind, i)
    return list(kinds.values())


def _taken(e: Explanation, which: list[int]) -> Explanation:
    """Some answers of one person, renumbered."""
    answers, checks = e.answers.iloc[which].reset_index(drop=True), e.checks.take(np.array(which, dtype=np.int64))
    rank, found_by = np.arange(1, len(which) + 1), e.found_by[which]
    return replace(e, answers=answers, checks=checks, place=e.place[which], rank=rank, found_by=found_by)


class Desk:
    """Answer questions about one model. Each method takes and returns plain data."""

    def __init__(self, fcx: FCx, tell: Callable[[Data], None]) -> None:
        self.fcx, self.tell = fcx, tell
        task = fcx.task_
        # Inborn and personal features are never part of an option, whatever the schema says.
        personal = [f.name for f in task.schema if f.name not in task.frozen and (is_inborn(f) or is_personal(f))]
        self.guards = [f"{name}' == {name}" for name in (notation.name(name, task.schema) for name in personal)]
        rules = (*task.rules, *parse_rules(self.guards, task.schema))
        self.task = fcx.task_ = task.relaxed(rules=rules) if self.guards else task
        self.cancelled = False
        self._spread = cache(partial(spread_of, self.task))
        self._tried, self._told = 0, 0.0
        self.task.classifier.on_query = self._queried

    def _queried(self, rows: int) -> None:
        """Report progress, or stop, before each model query."""
        self._tried += rows
        self._progress({"stage": "looking for options", "tried": self._tried})

    def _progress(self, event: Data) -> None:
        if self.cancelled:
            raise Cancelled
        if time.monotonic() - self._told > PAUSE:
            self._told = time.monotonic()
            self.tell(event)

    def _counted(self, event: Progress) -> None:
        self._progress({"stage": event.stage, "done": event.done, "total": event.total, "tried": self._tried})

    def answer(self, question: Data) -> Data:
        """Answer a question by its name."""
        self.cancelled, self._tried, self._told = False, 0, time.monotonic()
        doing: dict[str, Callable[..., Data]] = {
            "about": self.about, "people": self.people, "ask": self.ask, "try": self.what_if, "letter": self.letter,
            "table": self.table, "verify": self.verify,
        }  # fmt: skip
        return doing[question["do"]](**question["with"])

    # The model

    def about(self) -> Data:
        """What pages need to know about model, features and rules; of the training data only histograms."""
        task = self.task
        spreads = {f.name: self._spread(f.name) for f in task.schema}
        return {
            "model": {"name": task.classifier.name, "id": model_id(task)},
            "rules_id": rules_id(task.schema, [rule.text for rule in task.rules]),
            "schema": task.schema.to_dict(),
            "rules": [{"text": rule.text, "words": in_words(rule)} for rule in task.rules],
            "fixed": sorted(task.frozen),
            "classes": [self._class_text(name) for name in task.classes],
            "wanted": None if task.target is None else self._class_text(task.target),
            "spreads": {
                n: {"kind": s.kind, "bars": s.bars, "ends": s.ends, "places": s.places} for n, s in spreads.items()
            },
        }

    def _class_text(self, name: Any) -> str:
        """A class or a range in words."""
        return short(class_words(self.task.schema, name))

    # People

    def people(self, path: str, index: str | None, most: int) -> Data:
        """The people of a file, and the model's present result for each."""
        table = read_rows(path, self.task, Source.remembered(self.fcx.source_), index=index, strict=False).iloc[:most]
        names = list(self.task.schema.names)
        absent = [name for name in names if name not in table.columns]
        if absent:
            raise FcxError(f"{Path(path).name} lacks the columns {', '.join(absent)}")
        read, faults = self.task.readable(table)
        whole = np.setdiff1d(np.arange(len(read)), list(faults))
        status, score = np.full(len(read), "unreadable", dtype=object), np.full(len(read), np.nan)
        if len(whole):
            rows, _ = self.task.read(read.iloc[whole])
            _, wanted, met = self.task.answered(rows)
            status[whole] = np.where(met, "accepted", "refused")
            score[whole] = self.task.outcomes(wanted).score(self.task.classifier.probabilities(rows))
        return {
            "labels": [str(label) for label in labels(table.index)],
            "columns": cells(table[names], self.task.schema),
            "status": status.tolist(),
            "score": score.tolist(),
        }

    def _row(self, label: str, values: Mapping[str, Any]) -> pd.DataFrame:
        return pd.DataFrame([dict(values)], index=pd.Index([label], dtype=object))[list(self.task.schema.names)]

    # Options

    def ask(self, label: str, values: Data, wishes: Data, k: int, why: bool = True) -> Data:
        """Up to `k` options for a person within their wishes, or `why` there is none."""
        asked, _ = read_wishes(wishes, self.task.schema, self.task.frozen)
        e = self._explained(label, values, asked, k, why=why)
        texts = own_rules(asked, values, self.task.schema)
        own = {text: name for name, rules in texts.items() for text in rules}
        which = np.argsort(e.rank, kind="stable")
        certificates = issued(e, which, np.full(len(which), np.nan))
        answers = cells(e.answers, self.task.schema)
        ways = [
            self._way(c, {n: column[i] for n, column in answers.items()})
            for c, i in zip(certificates, which, strict=True)
        ]
        return self._now(e) | {
            "ways": ways,
            "why": self._why(e.reasons.get(0), asked, own),
            "own_rules": [*self.guards, *own],
            "model": model_id(self.task),
            "tried": self._tried,
        }

    def _explained(self, label: str, values: Data, wishes: Wishes, k: int, *, why: bool = True) -> Explanation:
        rules = [text for texts in own_rules(wishes, values, self.task.schema).values() for text in texts]
        own: Data = {"rules": rules} if rules else {}
        own |= {"difficulty": found} if (found := difficulties(wishes)) else {}
        rows, own_of_row = self._row(label, values), {label: own} if own else None
        e = self.fcx.explain(rows, k, overrides=own_of_row, why_not=why, on_progress=self._counted)
        return _taken(e, _different(e))

    def _now(self, e: Explanation, said: Any = None) -> Data:
        """The model's present result for a person; `said` is the class, if already known."""
        task, status = self.task, str(e.row_status[0])
        if status == Status.UNREADABLE:
            nothing: Data = {"wanted": "", "says": "", "score_now": None, "needed": None, "noted": []}
            return nothing | {"status": status, "is_number": not task.classes}
        wanted, needed = e.wanted[0], float(needed_scores(task, e.wanted[:1])[0])
        return {
            "status": status,
            "wanted": self._class_text(wanted),
            "says": None if not task.classes else self._said_now(e) if said is None else self._class_text(said),
            "score_now": float(e.score_now[0]),
            "needed": None if np.isnan(needed) else needed,
            "is_number": not task.classes,
            "noted": list(e.noted.get(0, ())),
        }

    def _said_now(self, e: Explanation) -> str:
        """The present class of a person; with two classes, the other one unless they already have the target."""
        others = [name for name in self.task.classes if name != e.wanted[0]]
        if e.row_status[0] != Status.ALREADY and len(others) == 1:
            return self._class_text(others[0])
        return self._class_text(self.task.predict(self.task.read(e.rows)[0])[0])

    def _way(self, c: Certificate, values: Data) -> Data:
        """One option as shown."""
        return {
            "rank": c.rank,
            "status": c.status,
            "score": c.score,
            "cost": c.cost,
            "changes": [self._change(change.feature, change.now, change.then) for change in c.changes],
            "values": values,
            "rules": [{"words": rule.words, "kept": rule.kept} for rule in c.rules],
            "certificate": c.to_dict(),
        }

    def _change(self, name: str, now: Any, then: Any) -> Data:
        texts, spread = change_texts(self.task.schema[name], now, then), self._spread(name)
        return {
            "feature": name,
            "title": texts.title,
            "now": now,
            "then": then,
            "now_text": texts.now,
            "then_text": texts.then,
            "difference": texts.difference,
            "at": [spread.at(now), spread.at(then)],
        }

    def _why(self, why: WhyNot | None, wishes: Wishes, own: Mapping[str, str]) -> Data | None:
        """The obstacles. A relaxation is shown only if it changes nothing that is frozen."""
        if why is None:
            return None
        way = why.relaxation if why.relaxation is not None and why.relaxation.is_advice else None
        changes = () if way is None else way.changes
        then = {} if way is None else {change.feature: change.then for change in changes}
        sets = [[self._obstacle(o, own, then if way is not None and together == way.gone else {}) for o in together]
                for together in why.blockers if all(o.can_give_way for o in together)]  # fmt: skip
        return {
            "status": why.status,
            "words": why.words,
            "sets": sets,
            "way": None if way is None else [self._change(c.feature, c.now, c.then) for c in changes],
            "score": None if way is None else way.probability,
        }

    def _obstacle(self, o: Obstacle, own: Mapping[str, str], then: Data) -> Data:
        """An obstacle; `wish` is the feature if it is the person's own wish, which could be lifted."""
        name = own.get(o.name)
        needed = None if name is None else then.get(name)
        text = None if needed is None else amount(self.task.schema[str(name)], needed)
        return {"kind": o.kind, "words": o.words, "wish": name, "needed": needed, "needed_text": text, "side": o.side}

    # What if, letters, receipts

    def what_if(self, label: str, values: Data, then: Data, wishes: Data) -> Data:
        """The model's result for other values, and whether each rule is kept; nothing is stored."""
        asked, _ = read_wishes(wishes, self.task.schema, self.task.frozen)
        rules = own_rules(asked, values, self.task.schema)
        rows, _ = self.task.read(self._row(label, values))
        after, faults = self.task.readable(self._row(label, then))
        if faults:
            raise FcxError(" ".join(faults[0]))
        after, _ = self.task.read(after)
        texts = [text for some in rules.values() for text in some]
        own = Overrides.from_json([json.dumps({"rules": texts}) if texts else ""], self.task)
        one = np.zeros(1, dtype=np.int64)
        predicted, wanted, _ = self.task.answered(rows)
        e = Explanation.of(self.task, rows, after, one, method="what if", wanted=wanted, own=own)
        c = issued(e, one, np.full(1, np.nan))[0]
        outside = [f.title for f, legal in zip(self.task.schema, e.checks.legal[0], strict=True) if not legal]
        said = None if c.predicted is None or c.is_number else self._class_text(c.predicted)
        more = {"valid": c.valid, "passed": c.passed, "says_then": said, "outside": outside}
        return self._now(e, predicted[0]) | self._way(c, then) | more

    def letter(self, label: str, values: Data, wishes: Data, k: int, rank: int, language: str) -> Data:
        """The answer as a letter to the person: one option, or all of them for rank 0."""
        asked, _ = read_wishes(wishes, self.task.schema, self.task.frozen)
        e = self._explained(label, values, asked, k)
        e = _taken(e, [rank - 1]) if 0 < rank <= len(e.answers) else e
        return {"html": e.letter(label, language=language)}

    def verify(self, receipt: Data) -> Data:
        """What still holds for a receipt."""
        return held_against(self.task, receipt).to_dict()

    # Many people

    def table(self, path: str, index: str | None, folder: str, most: int) -> Data:
        """Explain everyone in a file: a report and a file of answers in `folder`, and a list of results."""
        table = read_rows(path, self.task, Source.remembered(self.fcx.source_), index=index, strict=False)
        if len(table) > most:
            raise FcxError(f"the table has {len(table):,} people; {most:,} are the limit here. Use fcxplain explain.")
        e = self.fcx.explain(table, why_not=True, on_progress=self._counted)
        self._progress({"stage": "writing the report"})
        e.to_html(Path(folder) / "report.html")
        e.to_parquet(Path(folder) / "answers.parquet")
        first = {int(row): i for i, row in reversed(list(enumerate(e.place.tolist())))}
        return {
            "counts": e.counts,
            "people": [self._line(e, i, first.get(i)) for i in range(min(len(e), LISTED))],
            "columns": cells(e.rows.iloc[:LISTED], self.task.schema),
            "obstacles": [{"words": o.words, "people": len(o.labels)} for o in obstacle_counts(e)],
        }

    def _line(self, e: Explanation, position: int, answer: int | None) -> Data:
        """One person of many: status, changes of the first option, or what stands in the way."""
        why = e.reasons.get(position)
        changes = () if answer is None else e.changes(answer)
        shown = [self._change(c.feature, c.now, c.then) for c in changes]
        blockers = [] if why is None else [" and ".join(o.words for o in together) for together in why.blockers]
        return {
            "label": str(labels(e.rows.index[[position]])[0]),
            "status": str(e.row_status[position]),
            "score_now": float(e.score_now[position]),
            "score": None if answer is None else float(e.checks.score[answer]),
            "changes": [f"{c['title']} {c['now_text']} → {c['then_text']}" for c in shown],
            "blocked": blockers,
        }


def run(folder: str, classifier: str | None) -> None:
    """Answer questions until the other side ends."""
    # Keep a model's output apart from our answers.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    questions: Queue[Data] = Queue()
    lock = threading.Lock()

    def tell(message: Data) -> None:
        raw = json.dumps(written(dict(message)), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        with lock:
            out.write(raw + b"\n")
            out.flush()

    try:
        desk = Desk(FCx.load(folder, classifier), lambda event: tell({"progress": event}))
    except FcxError as error:
        return tell({"error": {"kind": "start", "words": str(error)}})
    threading.Thread(target=_listen, args=(desk, questions), daemon=True).start()
    tell({"result": "ready"})
    while True:
        tell(_answered(desk, questions.get()))


def _listen(desk: Desk, questions: Queue[Data]) -> None:
    """Read messages while the desk works; the process ends when the server closes the pipe."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("do") == "cancel":
            desk.cancelled = True
        else:
            questions.put(message)
    os._exit(0)


def _answered(desk: Desk, question: Data) -> Data:
    try:
        return {"result": desk.answer(question)}
    except Cancelled:
        return {"error": {"kind": "cancelled", "words": "Stopped."}}
    except ClassifierError as error:
        return {"error": {"kind": "model", "words": str(error)}}
    except FcxError as error:
        return {"error": {"kind": "question", "words": str(error)}}
    except Exception as error:  # one failing question must not affect the next
        return {"error": {"kind": "fault", "words": f"{type(error).__name__}: {error}"}}


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
