"""Plan of measurements: a `Job` is one method on one data set with one seed, and its key identifies it."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, TypeVar

from ..classifier.training import KINDS
from ..datasets import DATASETS, DEFAULT_DATASET
from ..errors import DataError, Fault, FormatError, did_you_mean, some, unknown
from ..explainer import FCx
from ..generator.presets import Constraint, Preset
from ..methods import METHODS as COMPARED
from ..methods import Method

# The format of results. Bump it by one when a change makes the same job give other figures (another split, another
# training, a corrected loss, a metric that counts differently) or changes the form of lines: a folder has lines of one
# format only. Within a format, a line is valid as long as the code that figures depend on is the same (`code_digest`,
# which ignores comments, docstrings and layout); else its job is due again, and a report refuses to mix the two.
RESULTS = 3
# The most refused test rows that are explained; with more, the figures hardly change and LOF becomes slow.
EXPLAINED = 5_000
RULE_SETS = ("unary", "binary")
# Which of the rules a method is given: those that its own paper supports, none, or all of them.
GIVEN = ("own", "none", "all")
TUNED = "tuned"

Name = TypeVar("Name", str, int)


@dataclass(frozen=True)
class Entry:
    """A method by name: how to build it for a data set and a seed, and the rule sets it is run with.

    Methods of the same `family` get the same seed, so that they can share what is learnt.
    """

    make: Callable[[str, int], Method]
    rules: tuple[str, ...] = RULE_SETS
    family: str = ""


def _published(constraint: Constraint, weights: Preset) -> Entry:
    """The paper's method with the rules of one of its two models."""
    return Entry(lambda data, seed: FCx.as_published(constraint, data, seed, weights=weights), (constraint,))


def _default(**chosen: Any) -> Entry:
    """The default with some settings changed."""
    return Entry(lambda data, seed: FCx(**chosen, seed=seed), family="fcx")


def _compared(name: str) -> Entry:
    """A method to compare with. A method that its paper defines for one kind of rules is run with those."""
    rules = tuple(r for r in RULE_SETS if name.endswith(f"-{r}")) or RULE_SETS
    return Entry(lambda data, seed: COMPARED[name](seed=seed), rules)


# The default with each of its preferences, its search alone and one draw alone, the paper's two models with our weights
# and with its authors', and the methods to compare with.
OURS: dict[str, Entry] = {
    "fcx": _default(prefer="balanced"),
    "fcx-fewest": _default(prefer="fewest"),
    "fcx-sparse": _default(prefer="sparse"),
    "fcx-plausible": _default(prefer="plausible"),
    "fcx-search": _default(generator=False),
    "fcx-draw": _default(search=False),
    "fcx-u": _published("unary", "tuned"),
    "fcx-b": _published("binary", "tuned"),
    "fcx-u-authors": _published("unary", "authors"),
    "fcx-b-authors": _published("binary", "authors"),
}
METHODS: dict[str, Entry] = OURS | {name: _compared(name) for name in COMPARED}


@dataclass(frozen=True)
class Job:
    """One measurement.

    `method` is a name in `METHODS` or `package.module:Class`; `settings` are changes to its parameters, by the names of
    its `set_params`, sorted by name. `rows` limits the data set to a sample, `explained` the refused test rows that are
    explained. `study` and `point` name the study that the job belongs to, and its point. `given` is which rules the
    method is given, and `part` the part of the data set from which rows are explained.
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
    given: str = "own"
    part: str = "test"
    neighbours: tuple[int, ...] = ()
    """Numbers of neighbours with which LOF among the answers is also computed."""

    @cached_property
    def key(self) -> str:
        """A key that identifies this job: a digest of its configuration, the method's parameters, and `RESULTS`."""
        return _digest([RESULTS, self.to_dict(), self.parameters])

    @cached_property
    def work(self) -> str:
        """A key that identifies the work of this job; it is equal for jobs of two studies that do the same work."""
        asked = {k: v for k, v in self.to_dict().items() if k not in ("study", "point", "settings")}
        return _digest([RESULTS, asked, self.parameters])

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The method's final parameters, or the settings for a method that does not report them."""
        method = self.build()
        if not hasattr(method, "get_params"):
            return dict(self.settings)
        plain: dict[str, Any] = json.loads(json.dumps(method.get_params(deep=False), sort_keys=True, default=_plain))
        return plain

    def build(self) -> Method:
        """The method, not fitted yet."""
        known = entry(self.method)
        method = known.make(self.data, part_seed(self.seed, "method", known.family or self.method))
        if self.given == "all" and "every_rule" in getattr(method, "get_params", dict)():
            method.set_params(every_rule=True)
        if self.settings:
            if not hasattr(method, "set_params"):
                raise DataError(f"method {self.method!r} has no settings: it has no set_params")
            method.set_params(**dict(self.settings))
        return method

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self) | {"settings": dict(self.settings)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Job:
        """A job from plain data."""
        extra = sorted(set(data) - {f.name for f in fields(cls)})
        if extra or not {"data", "method"} <= set(data):
            what = f"it has the unknown fields {some(extra)}" if extra else "it has no data or no method"
            raise FormatError(f"this is not a job: {what}")
        more = {"settings": as_settings(data.get("settings", {})), "neighbours": tuple(data.get("neighbours", ()))}
        return cls(**{**data, **more})

    def __str__(self) -> str:
        asked = f"{self.study} {self.point}".strip()
        given = "" if self.given == "own" else f"rules given: {self.given}"
        return ", ".join(
            part for part in (self.data, self.method, self.rules, given, f"seed {self.seed}", asked) if part
        )


def as_settings(settings: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Changes to parameters in the form that a job stores."""
    return tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in sorted(settings.items()))


def part_seed(seed: int, *names: str) -> int:
    """The seed of a part, from its name, so that it does not depend on other parts or their order."""
    return int(_digest([seed, *names])[:8], 16) & 0x7FFFFFFF


def entry(name: str) -> Entry:
    """A method by its name in `METHODS`, or by `package.module:Class`."""
    if name in METHODS:
        return METHODS[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        listed = f"There are {some(METHODS)}, or name your own class as package.module:Class."
        raise DataError("", [Fault(f"method {name!r}", "is not known", did_you_mean(name, METHODS) or listed)])
    try:
        made = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        remedy = "It must be importable: set PYTHONPATH to its folder."
        raise DataError("", [Fault(f"method {name!r}", f"cannot be imported ({error})", remedy)]) from error
    absent = [word for word in ("fit", "explain") if not callable(getattr(made, word, None))]
    if absent:
        raise DataError("", [Fault(f"method {name!r}", f"has no {' and no '.join(absent)}")])
    return Entry(lambda data, seed: _own(made(), seed))


def _own(method: Method, seed: int) -> Method:
    """A user's method with its defaults, and the seed if it takes one."""
    if hasattr(method, "get_params") and "seed" in method.get_params():
        method.set_params(seed=seed)
    return method


def plan(
    data: Iterable[str],
    methods: Iterable[str] = tuple(OURS),
    seeds: Iterable[int] = (0,),
    *,
    given: str = "own",
    settings: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
    **sample: Any,
) -> list[Job]:
    """Each method on each data set with each seed; jobs with the same black box come one after the other.

    `given` is which rules are given to methods that can take rules; others are given none, and their jobs are those of
    "own". `settings`, by data set and method, are results of tuning; if they are given, only these are planned.
    `sample` is what all jobs share: `rows`, `classifier` and `explained` (see `Job`).
    """
    data, methods, seeds = unique(data), unique(methods), unique(seeds)
    check_names(data, methods, **sample)
    if given not in GIVEN:
        raise DataError("this cannot be measured", unknown("choice of rules", [given], GIVEN))
    return [
        Job(
            name,
            method,
            rules,
            seed,
            as_settings((settings or {}).get((name, method), {})),
            point=TUNED if settings is not None else "",
            given=given if takes_rules(method) else "own",
            **sample,
        )
        for name in data
        for seed in seeds
        for method in methods
        for rules in entry(method).rules
        if settings is None or (name, method) in settings
    ]


def takes_rules(method: str) -> bool:
    """Whether a method can take rules; a user's own method can, unless it says otherwise."""
    return bool(getattr(entry(method).make(DEFAULT_DATASET, 0), "reads_rules", True))


def unique(given: Iterable[Name]) -> tuple[Name, ...]:
    """The distinct values, in the order given."""
    return tuple(dict.fromkeys(given))


def check_names(
    data: Iterable[str],
    methods: Iterable[str],
    rows: int | None = None,
    classifier: str = "paper",
    explained: int | None = EXPLAINED,
) -> None:
    """Raise all unknown names and impossible limits at once."""
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
    """Sixteen hexadecimal digits that depend only on the value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=kind_of)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: object) -> Any:
    """Settings as plain data; of any other object, its class."""
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else kind_of(value)


def kind_of(value: object) -> str:
    """The class of a parameter that is not plain data, since its text may contain a memory address."""
    return f"{type(value).__module__}.{type(value).__qualname__}"
