"""What is to be measured: a `Job` is one method on one data set with one seed, and its key says what it amounts to."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, TypeVar

from ..classifier.training import KINDS
from ..datasets import DATASETS
from ..errors import DataError, Fault, FormatError, did_you_mean, some, unknown
from ..explainer import FCx
from ..methods import METHODS as COMPARED
from ..methods import Method

# The state of what we measure. Bump it by one when a change makes the same job give other figures: another split,
# another training, a mended loss, a metric that counts differently. Then every job is due again; old lines stay in
# their files, and reports take the newest line of a job. Do not bump it for comments, messages or speed, nor for a
# changed default of a method: parameters are part of the key as they are. A digest of the sources would bump itself,
# but at every mended message too, and a full run costs hours; so the digest is only written down with each result,
# and a report says when the lines of one table come from different sources.
RESULTS = 1
# So many refused test rows are explained at most; beyond that the figures hardly move and LOF becomes slow.
EXPLAINED = 5_000
RULE_SETS = ("unary", "binary")

Name = TypeVar("Name", str, int)


@dataclass(frozen=True)
class Entry:
    """A method by name: how to make one for a data set, a rule set and a seed, and the rule sets it is run with.

    Methods with the same `family` are given the same seed, so that they can share what is learnt.
    """

    make: Callable[[str, str, int], Method]
    rules: tuple[str, ...] = RULE_SETS
    family: str = ""


def _published(data: str, rules: str, seed: int) -> Method:
    return FCx.as_published("binary" if rules == "binary" else "unary", data, seed)


def _default(**chosen: Any) -> Entry:
    """The default, but for what was chosen."""
    return Entry(lambda data, rules, seed: FCx(**chosen, seed=seed), family="fcx")


def _compared(name: str) -> Entry:
    """A method to compare with. What its paper does for one kind of rules is run with these."""
    rules = tuple(r for r in RULE_SETS if name.endswith(f"-{r}")) or RULE_SETS
    return Entry(lambda data, rules, seed: COMPARED[name](seed=seed), rules)


# The default by each of its preferences, its search alone and one draw alone, the paper's two models, and what they
# are compared with.
OURS: dict[str, Entry] = {
    "fcx": _default(prefer="balanced"),
    "fcx-fewest": _default(prefer="fewest"),
    "fcx-sparse": _default(prefer="sparse"),
    "fcx-plausible": _default(prefer="plausible"),
    "fcx-search": _default(generator=False),
    "fcx-draw": _default(search=False),
    "fcx-u": Entry(_published, ("unary",)),
    "fcx-b": Entry(_published, ("binary",)),
}
METHODS: dict[str, Entry] = OURS | {name: _compared(name) for name in COMPARED}


@dataclass(frozen=True)
class Job:
    """One measurement.

    `method` is a name in `METHODS` or `package.module:Class`; `settings` are changes to its parameters, by the
    names of its `set_params`, in order of name. `rows` limits the data set to a sample, `explained` the refused
    test rows that are explained. `study` and `point` say which study asks for it, and as which of its points.
    """

    data: str
    method: str
    rules: str = "unary"
    seed: int = 0
    settings: tuple[tuple[str, Any], ...] = ()
    rows: int | None = None
    classifier: str = "paper"
    explained: int | None = EXPLAINED
    history: bool = False
    """Whether the result keeps the losses of every epoch."""
    study: str = ""
    point: str = ""

    @cached_property
    def key(self) -> str:
        """What tells this job from all others: its configuration, the method's parameters, and `RESULTS`."""
        return _digest([RESULTS, self.to_dict(), self.parameters])

    @cached_property
    def work(self) -> str:
        """What tells the work of this job: equal for jobs of two studies that come down to the same."""
        asked = {k: v for k, v in self.to_dict().items() if k not in ("study", "point", "settings")}
        return _digest([RESULTS, asked, self.parameters])

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The method's parameters as they will be, or the settings for a method that does not tell them."""
        method = self.build()
        if not hasattr(method, "get_params"):
            return dict(self.settings)
        found = {k: v for k, v in sorted(method.get_params(deep=True).items()) if not is_dataclass(v)}
        plain: dict[str, Any] = json.loads(json.dumps(found, default=kind_of))
        return plain

    def build(self) -> Method:
        """The method, not fitted yet."""
        known = entry(self.method)
        method = known.make(self.data, self.rules, part_seed(self.seed, "method", known.family or self.method))
        if self.settings:
            if not hasattr(method, "set_params"):
                raise DataError(f"method {self.method!r} has no settings: it has no set_params")
            method.set_params(**dict(self.settings))
        return method

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as it stands in JSON."""
        return asdict(self) | {"settings": dict(self.settings)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Job:
        """A job from plain data."""
        extra = sorted(set(data) - {f.name for f in fields(cls)})
        if extra or not {"data", "method"} <= set(data):
            what = f"it has the unknown fields {some(extra)}" if extra else "it has no data or no method"
            raise FormatError(f"this is not a job: {what}")
        return cls(**{**data, "settings": as_settings(data.get("settings", {}))})

    def __str__(self) -> str:
        asked = f"{self.study} {self.point}".strip()
        return ", ".join(part for part in (self.data, self.method, self.rules, f"seed {self.seed}", asked) if part)


def as_settings(settings: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Changes to parameters as a job holds them."""
    return tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in sorted(settings.items()))


def part_seed(seed: int, *names: str) -> int:
    """The seed of a part by its name, so that it does not depend on what other parts there are, or their order."""
    return int(_digest([seed, *names])[:8], 16) & 0x7FFFFFFF


def entry(name: str) -> Entry:
    """A method by its name in `METHODS`, or by `package.module:Class`."""
    if name in METHODS:
        return METHODS[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        listed = f"There are {some(METHODS)}, or name a class of your own as package.module:Class."
        raise DataError("", [Fault(f"method {name!r}", "is not known", did_you_mean(name, METHODS) or listed)])
    try:
        made = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        remedy = "It must be importable: set PYTHONPATH to its folder."
        raise DataError("", [Fault(f"method {name!r}", f"cannot be had ({error})", remedy)]) from error
    absent = [word for word in ("fit", "explain") if not callable(getattr(made, word, None))]
    if absent:
        raise DataError("", [Fault(f"method {name!r}", f"has no {' and no '.join(absent)}")])
    return Entry(lambda data, rules, seed: _own(made, seed))


def _own(made: Callable[[], Any], seed: int) -> Method:
    """A user's method with its own defaults, and the seed if it takes one."""
    method: Any = made()
    if hasattr(method, "get_params") and "seed" in method.get_params():
        method.set_params(seed=seed)
    built: Method = method
    return built


def plan(
    data: Iterable[str],
    methods: Iterable[str] = tuple(OURS),
    seeds: Iterable[int] = (0,),
    *,
    rows: int | None = None,
    classifier: str = "paper",
    explained: int | None = EXPLAINED,
) -> list[Job]:
    """Each method on each data set with each seed; jobs with the same black box follow each other."""
    data, methods, seeds = unique(data), unique(methods), unique(seeds)
    check_names(data, methods, classifier, rows, explained)
    return [
        Job(name, method, rules, seed, rows=rows, classifier=classifier, explained=explained)
        for name in data
        for seed in seeds
        for method in methods
        for rules in entry(method).rules
    ]


def unique(given: Iterable[Name]) -> tuple[Name, ...]:
    """Each once, in the order given."""
    return tuple(dict.fromkeys(given))


def check_names(
    data: Iterable[str], methods: Iterable[str], classifier: str, rows: int | None, explained: int | None
) -> None:
    """Refuse what is not known or makes no sense, all of it at once."""
    faults = unknown("data set", data, DATASETS)
    for method in methods:
        try:
            entry(method)
        except DataError as error:
            faults += error.faults
    faults += unknown("classifier", [classifier], KINDS)
    for what, count in (("rows", rows), ("explained rows", explained)):
        if count is not None and count < 1:
            faults.append(Fault(what, f"are limited to {count}", "Give at least 1, or leave it out."))
    if faults:
        raise DataError("this cannot be measured", faults)


def _digest(value: Any) -> str:
    """Sixteen hexadecimal digits that only depend on the value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=kind_of)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def kind_of(value: object) -> str:
    """What stands for a parameter that is no plain data: its class, since its text may name an address."""
    return f"{type(value).__module__}.{type(value).__qualname__}"
