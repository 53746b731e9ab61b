"""PC-stable over features (Spirtes & Glymour 1991; Colombo & Maathuis 2014): skeleton, colliders, Meek's rules.

A feature is one node, however many columns it is encoded in. Features are processed in order of name, so that the order
of the table's columns does not matter.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, Fault, some
from ..progress import OnProgress, Progress, no_progress
from ..schema import Feature, Natural, Schema
from . import orientation
from .graph import CausalGraph
from .independence import IndependenceTest, maker
from .knowledge import Knowledge
from .soundness import Edge

FEWEST_ROWS = 10
# With very many rows every small effect is significant; on synthetic mixed graphs a cap gives more accurate graphs.
N_EFFECTIVE = 5_000


@dataclass
class Skeleton:
    """Which nodes are joined, and for each other pair its separating set and the p-value."""

    joined: NDArray[np.bool_]
    separated: dict[tuple[int, int], tuple[frozenset[int], float]] = field(default_factory=dict)


def discover(
    table: Any,
    schema: Schema,
    *,
    significance: float = 0.01,
    test: str | IndependenceTest = "auto",
    knowledge: Knowledge | None = None,
    max_condition: int | None = None,
    n_effective: int | None = N_EFFECTIVE,
    bootstrap: int = 0,
    seed: int = 0,
    on_progress: OnProgress = no_progress,
) -> CausalGraph:
    """Learn a causal graph over the schema's features, by PC-stable.

    Parameters
    ----------
    table : DataFrame or mapping
        The rows, or natural columns.
    schema : Schema
        The features.
    significance : float
        Significance level of the tests; a lower level gives fewer edges.
    test : str or IndependenceTest
        `wilks`, `chi_square`, a test of causal-learn (`fisherz`, `chisq`, `gsq`, `kci`), or `auto`, which is
        `chi_square` if every feature is a category of few levels, else `wilks`. Or your own test.
    knowledge : Knowledge, optional
        Prior knowledge about causes.
    max_condition : int, optional
        The most features to condition on. With many dependent features and many rows, a limit of 3 or 4 saves most of
        the time.
    n_effective : int, optional
        Cap on the sample size in the tests. With hundreds of thousands of rows every small effect is significant; None
        sets no cap.
    bootstrap : int
        Number of bootstrap samples. The support of an edge is the share of them that have it.
    seed : int
        Seed of the bootstrap samples.
    on_progress : callable, optional
        Called after each bootstrap sample with a `Progress`: `done` of `total`.

    Returns
    -------
    CausalGraph
        Edges that the data cannot direct are undirected.

    Raises
    ------
    DataError
        Lists every fault of the settings, the table and the knowledge.

    Examples
    --------
    >>> from fcxplain import Knowledge, discover, load_dataset
    >>> data = load_dataset("loans")
    >>> graph = discover(data.train[data.features], data.schema, knowledge=Knowledge(roots=("age", "gender")))
    >>> print(graph)
    job -> income
    employed -> income
    amount -- months
    """
    columns = _columns(table, schema)
    n = len(columns[schema.names[0]])
    faults = [*_number_faults(significance, max_condition, n_effective, bootstrap), *_test_faults(test, bootstrap)]
    faults += [Fault("table", f"has {n} rows", f"Discovery needs {FEWEST_ROWS}.")] if n < FEWEST_ROWS else []
    if faults:
        raise DataError("discover", faults)
    counted = n if n_effective is None else min(n, n_effective)
    learn = partial(pc, schema.names, significance=significance, knowledge=knowledge, max_condition=max_condition)
    if not isinstance(test, str):
        return learn(test)
    build = partial(maker(test, schema), columns, schema)
    graph = learn(build(None, counted))
    if not bootstrap:
        return graph
    rng = np.random.default_rng(seed)
    # Repeated rows double the statistic of independent features, so a bootstrap sample counts as half of its rows.
    samples = (build(np.sort(rng.integers(n, size=n)), min(counted, n // 2)) for _ in range(bootstrap))
    return replace(graph, support=_support(graph, map(learn, samples), bootstrap, on_progress))


def _support(graph: CausalGraph, resampled: Iterable[CausalGraph], count: int, report: OnProgress) -> dict[Edge, float]:
    """The share of resampled graphs that have each edge of a graph, in either direction."""
    seen = Counter[object]()
    for done, other in enumerate(resampled, 1):
        seen.update(frozenset(e) for e in other.edges)
        report(Progress("resampling", done, count))
    return {e: seen[frozenset(e)] / count for e in graph.edges}


def pc(
    nodes: Sequence[str],
    test: IndependenceTest,
    *,
    significance: float = 0.01,
    knowledge: Knowledge | None = None,
    max_condition: int | None = None,
) -> CausalGraph:
    """Run PC-stable with any test of independence; a perfect test gives the CPDAG of the true DAG."""
    known = knowledge or Knowledge()
    known.check(nodes)
    names = sorted(nodes)
    found = _skeleton(names, test, significance, known, len(names) if max_condition is None else max_condition)
    a = _directed(names, found, known)
    place = [names.index(n) for n in nodes]
    return CausalGraph.from_matrix(a[np.ix_(place, place)], tuple(nodes))


# The skeleton


def _skeleton(names: list[str], test: IndependenceTest, significance: float, known: Knowledge, most: int) -> Skeleton:
    """Pairs that no set of neighbours makes independent."""
    pairs = list(combinations(range(len(names)), 2))
    required = {(i, j) for i, j in pairs if known.requires(names[i], names[j]) or known.requires(names[j], names[i])}
    open_pairs = [p for p in pairs if p not in required]
    found = Skeleton(~np.eye(len(names), dtype=bool))
    for i, j in pairs:
        found.joined[i, j] = found.joined[j, i] = known.allows_joining(names[i], names[j])
    size = 0
    while open_pairs and size <= most:
        # Neighbours are those at the start of the round, so that the order of the pairs does not matter.
        beside = [set(np.flatnonzero(row).tolist()) for row in found.joined]
        open_pairs = [(i, j) for i, j in open_pairs if max(len(beside[i] - {j}), len(beside[j] - {i})) >= size]
        # A pair that knowledge keeps apart is still tested: its separating set distinguishes colliders from chains.
        for pair in open_pairs:
            _try(pair, size, beside, names, test, significance, found)
        open_pairs = [p for p in open_pairs if p not in found.separated]
        size += 1
    return found


def _try(
    pair: tuple[int, int],
    size: int,
    beside: list[set[int]],
    names: list[str],
    test: IndependenceTest,
    significance: float,
    found: Skeleton,
) -> None:
    """Separate a pair if some set of this size among the neighbours of either makes it independent."""
    i, j = pair
    tried = set[tuple[int, ...]]()
    for around in (beside[i] - {j}, beside[j] - {i}):
        for given in combinations(sorted(around), size):
            if given in tried:
                continue
            tried.add(given)
            p = test(names[i], names[j], [names[k] for k in given])
            # An undecided test (NaN) is no evidence for an edge.
            if not p <= significance:
                found.separated[pair] = frozenset(given), 1.0 if math.isnan(p) else p
                found.joined[i, j] = found.joined[j, i] = False
                return


# Directions


def _directed(names: list[str], found: Skeleton, known: Knowledge) -> NDArray[np.bool_]:
    """Direct edges by knowledge first, then by colliders, then by what follows from both; never close a cycle.

    Colliders may contradict each other on real data. The one whose ends are more clearly independent (with the larger
    p-value) goes first, then the first by name. A collider that would reverse an arrow, close a cycle or contradict
    knowledge is left out entirely.
    """
    a = found.joined.copy()

    def allowed(i: int, j: int) -> bool:
        return known.allows(names[i], names[j])

    for i, j in sorted(np.argwhere(a).tolist(), key=lambda e: not known.requires(names[e[0]], names[e[1]])):
        if not allowed(j, i):
            orientation.direct(a, i, j, allowed)
    for i, k, j in _colliders(found):
        _collide(a, i, k, j, allowed)
    return orientation.meek(a, allowed)


def _colliders(found: Skeleton) -> list[tuple[int, int, int]]:
    """Unshielded triples whose middle does not separate the ends, the clearest first."""
    strength = dict[tuple[int, int, int], float]()
    for i, k, j in orientation.unshielded(found.joined):
        given, p = found.separated.get((i, j), (frozenset([k]), 0.0))
        if k not in given:
            strength[i, k, j] = p
    return sorted(strength, key=lambda triple: (-strength[triple], triple))


def _collide(a: NDArray[np.bool_], i: int, k: int, j: int, allowed: orientation.Allowed) -> None:
    """Direct i -> k <- j if both arrows are possible."""
    before = a.copy()
    for end in (i, j):
        is_arrow = a[end, k] and not a[k, end]
        if not is_arrow and not orientation.direct(a, end, k, allowed):
            a[:] = before
            return


# Inputs


def _columns(table: Any, schema: Schema) -> Natural:
    """The checked natural columns of a table, or of a mapping of natural columns."""
    if not isinstance(table, Mapping):
        columns = schema.checked(table)
        odd = [name for name in schema.categories if (columns[name] < 0).any()]
        if odd:
            problem, remedy = "has missing values, or levels that the schema lacks", "Leave such rows out."
            raise DataError("discover", [Fault(f"column {name!r}", problem, remedy) for name in odd])
        return columns
    missing = [Fault(f"column {n!r}", "is missing") for n in schema.names if n not in table]
    if missing:
        raise DataError("discover", missing)
    columns = {n: np.asarray(table[n]) for n in schema.names}
    lengths = {len(c) for c in columns.values()}
    if len(lengths) > 1:
        raise DataError(f"natural columns have different lengths: {some(sorted(lengths))}")
    faults = [Fault(f"column {f.name!r}", "has values that are not natural") for f in schema if not _fits(f, columns)]
    if faults:
        raise DataError("natural columns must hold finite numbers, or codes of levels for categories", faults)
    return columns


def _fits(feature: Feature, columns: Natural) -> bool:
    values = columns[feature.name]
    if feature.is_category:
        return values.dtype.kind in "iu" and bool(((values >= 0) & (values < len(feature.levels))).all())
    return values.dtype.kind in "iuf" and bool(np.isfinite(values).all())


def _number_faults(significance: Any, max_condition: Any, n_effective: Any, bootstrap: Any) -> list[Fault]:
    faults = []
    if not isinstance(significance, int | float) or isinstance(significance, bool) or not 0 < significance < 1:
        faults.append(Fault("significance", f"is {significance!r:.80}, not between 0 and 1", "0.01 is usual."))
    for name, value, least in (
        ("max_condition", max_condition, 0),
        ("n_effective", n_effective, FEWEST_ROWS),
        ("bootstrap", bootstrap, 0),
    ):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least):
            faults.append(Fault(name, f"is {value!r:.80}, not a whole number of {least} or more"))
    return faults


def _test_faults(test: Any, bootstrap: int) -> list[Fault]:
    if isinstance(test, str):
        return []
    if not callable(test):
        return [Fault("test", f"is {test!r:.80}, neither a name nor an IndependenceTest")]
    return [Fault("bootstrap", "needs a test that can be rebuilt", "Give the test by its name.")] if bootstrap else []
