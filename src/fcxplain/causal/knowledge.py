"""Knowledge: prior knowledge about causes, which discovery always respects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from ..errors import DataError, Fault, did_you_mean
from . import orientation
from .soundness import Edge, is_edge


@dataclass(frozen=True)
class Knowledge:
    """Edges that must or must not exist, and the order of features in time.

    Parameters
    ----------
    required, forbidden : tuple of pairs
        Edges (cause, effect).
    tiers : tuple of tuples of str
        Groups of features: nothing in a later tier causes anything in an earlier one.
    roots : tuple of str
        Features without causes (age, race, gender); two roots are therefore never joined. To allow edges among them,
        but no other causes, make them the first tier.

    Raises
    ------
    DataError
        If it contradicts itself. The error lists every contradiction.

    Examples
    --------
    >>> from fcxplain import Knowledge
    >>> knowledge = Knowledge(required=(("job", "income"),), roots=("age",))
    >>> knowledge.allows("age", "income"), knowledge.allows("income", "age")
    (True, False)
    """

    required: tuple[Edge, ...] = ()
    forbidden: tuple[Edge, ...] = ()
    tiers: tuple[tuple[str, ...], ...] = ()
    roots: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        settle = partial(object.__setattr__, self)
        given: dict[str, object] = {"roots": self.roots, "tiers": self.tiers}
        faults = [Fault(name, "is one text, not a list of names") for name, v in given.items() if isinstance(v, str)]
        tiers: tuple[object, ...] = self.tiers
        faults += [Fault(f"tier {i}", "is one text, not a list") for i, t in enumerate(tiers, 1) if isinstance(t, str)]
        if not faults:
            settle("tiers", tuple(tuple(tier) for tier in self.tiers))
            settle("roots", tuple(dict.fromkeys(self.roots)))
        for name in ("required", "forbidden"):
            faults += [Fault(name, f"{e!r:.80} is not a pair of names") for e in getattr(self, name) if not is_edge(e)]
            settle(name, tuple(dict.fromkeys((e[0], e[1]) for e in getattr(self, name) if is_edge(e))))
        faults = faults or list(self._faults())
        if faults:
            raise DataError("this knowledge contradicts itself", faults)

    def _faults(self) -> Iterator[Fault]:
        places = [name for tier in self.tiers for name in tier]
        for name in dict.fromkeys(n for n in places if places.count(n) > 1):
            yield Fault(f"feature {name!r}", "is in the tiers twice", "Keep it in one tier.")
        for a, b in (*self.required, *self.forbidden):
            if a == b:
                yield Fault(f"edge {a!r} to {b!r}", "joins a feature with itself")
        for a, b in self.required:
            for reason in self._barred(a, b):
                yield Fault(f"required edge {a!r} to {b!r}", reason, "Remove one of the two.")
        circle = self._circle()
        if circle:
            yield Fault("required edges", f"form a cycle: {' -> '.join([*circle, circle[0]])}", "Remove one of them.")

    def _circle(self) -> list[str]:
        edges = [(a, b) for a, b in self.required if a != b]
        names = sorted({name for edge in edges for name in edge})
        arrows = np.zeros((len(names), len(names)), dtype=bool)
        for a, b in edges:
            arrows[names.index(a), names.index(b)] = True
        return [names[i] for i in orientation.cycle(arrows)]

    def _barred(self, a: str, b: str) -> Iterator[str]:
        """Every reason why a cannot cause b."""
        if (a, b) in self.forbidden:
            yield "is forbidden"
        if b in self.roots:
            yield f"but {b!r} is a root"
        if self._tier.get(a, -1) > self._tier.get(b, len(self.tiers)):
            yield f"but {a!r} is in a later tier than {b!r}"

    @cached_property
    def _tier(self) -> dict[str, int]:
        return {name: i for i, tier in enumerate(self.tiers) for name in tier}

    @property
    def names(self) -> tuple[str, ...]:
        """Every feature that is mentioned."""
        edges = (*self.required, *self.forbidden)
        tiers = (n for tier in self.tiers for n in tier)
        return tuple(dict.fromkeys([*(n for e in edges for n in e), *tiers, *self.roots]))

    def check(self, nodes: Iterable[str]) -> None:
        """Check that all features mentioned exist.

        Parameters
        ----------
        nodes : iterable of str
            The existing features.

        Raises
        ------
        DataError
            Lists every feature that does not exist.
        """
        known = tuple(nodes)
        unknown = [n for n in self.names if n not in known]
        if unknown:
            faults = [Fault(f"feature {n!r:.80}", "is not in the schema", did_you_mean(n, known)) for n in unknown]
            raise DataError("knowledge", faults)

    def requires(self, a: str, b: str) -> bool:
        """Return whether a must cause b.

        Parameters
        ----------
        a, b : str
            Features.

        Returns
        -------
        bool
        """
        return (a, b) in self.required

    def allows(self, a: str, b: str) -> bool:
        """Return whether a may cause b.

        Parameters
        ----------
        a, b : str
            Features.

        Returns
        -------
        bool
        """
        return (b, a) not in self.required and not any(self._barred(a, b))

    def allows_joining(self, a: str, b: str) -> bool:
        """Return whether there may be an edge between a and b.

        Parameters
        ----------
        a, b : str
            Features.

        Returns
        -------
        bool
        """
        return self.allows(a, b) or self.allows(b, a)
