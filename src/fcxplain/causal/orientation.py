"""Directions of edges in an adjacency matrix: `a[i, j]` and not `a[j, i]` is i -> j, both is undirected.

Meek's four rules (Meek 1995), the consistent extension of a partly directed graph (Dor & Tarsi 1992) and
d-separation (Koller & Friedman 2009, algorithm 3.1).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.bool_]
Allowed = Callable[[int, int], bool]


def cycle(arrows: Matrix) -> list[int]:
    """The nodes of a directed cycle, or nothing."""
    left = set(range(len(arrows))) - set(order(arrows))
    if not left:
        return []
    path = [min(left)]
    # Every remaining node has a parent among them, so following parents must return to a visited node.
    while True:
        parent = next(k for k in np.flatnonzero(arrows[:, path[-1]]).tolist() if k in left)
        if parent in path:
            return path[path.index(parent) :][::-1]
        path.append(parent)


def order(arrows: Matrix) -> list[int]:
    """A topological order, with ties in the order of the table; nodes on cycles are left out."""
    waiting = arrows.sum(axis=0)
    free, found = np.flatnonzero(waiting == 0).tolist(), list[int]()
    while free:
        found.append(heapq.heappop(free))
        for effect in np.flatnonzero(arrows[found[-1]]).tolist():
            waiting[effect] -= 1
            if not waiting[effect]:
                heapq.heappush(free, effect)
    return found


def leads(a: Matrix, start: int, end: int) -> bool:
    """Whether directed edges lead from one node to another."""
    arrows, seen, todo = a & ~a.T, {start}, [start]
    while todo:
        for j in np.flatnonzero(arrows[todo.pop()]):
            if j == end:
                return True
            if j not in seen:
                seen.add(int(j))
                todo.append(int(j))
    return False


def direct(a: Matrix, i: int, j: int, allowed: Allowed) -> bool:
    """Turn i - j into i -> j in place, unless that is not allowed or closes a cycle; return whether it was done."""
    if not (a[i, j] and a[j, i] and allowed(i, j)) or leads(a, j, i):
        return False
    a[j, i] = False
    return True


def always(i: int, j: int) -> bool:
    """Every direction is allowed."""
    return True


def meek(a: Matrix, allowed: Allowed = always) -> Matrix:
    """A copy with every direction that follows from the others (Meek's rules 1 to 4)."""
    a, changed = a.copy(), True
    while changed:
        changed = False
        for i, j in np.argwhere(a & a.T).tolist():
            # Never a short circuit: each round tries every edge.
            changed |= bool(a[i, j] and a[j, i]) and _follows(a, i, j) and direct(a, i, j, allowed)
    return a


def _follows(a: Matrix, i: int, j: int) -> bool:
    """Whether one of the rules directs i - j as i -> j."""
    arrows, both = a & ~a.T, a & a.T
    joined = a | a.T
    # 1: k -> i - j with k and j apart, else a new collider. 2: i -> k -> j, else a cycle.
    if (arrows[:, i] & ~joined[:, j]).any() or (arrows[i] & arrows[:, j]).any():
        return True
    # 3: i - k -> j and i - l -> j with k and l apart.
    if any(not joined[k, m] for k, m in combinations(np.flatnonzero(both[i] & arrows[:, j]), 2)):
        return True
    # 4: i - k -> l -> j with i joined to l, and k and j apart.
    first = np.flatnonzero(both[i] & ~joined[:, j])
    return bool((arrows[first].any(axis=0) & arrows[:, j] & joined[i]).any())


def unshielded(a: Matrix) -> Iterator[tuple[int, int, int]]:
    """Triples i - k - j with i < j, where i and j are apart."""
    joined = a | a.T
    for k in range(len(a)):
        for i, j in combinations(np.flatnonzero(joined[k]).tolist(), 2):
            if not joined[i, j]:
                yield i, k, j


def cpdag(dag: Matrix) -> Matrix:
    """The graph of all DAGs that are Markov equivalent to this one."""
    a = dag | dag.T
    for i, k, j in unshielded(dag):
        if dag[i, k] and dag[j, k]:
            a[k, i] = a[k, j] = False
    return meek(a)


def extension(a: Matrix) -> Matrix | None:
    """A DAG with the same adjacencies, arrows and colliders, or None if there is none."""
    dag, joined, left = a.copy(), a | a.T, set(range(len(a)))
    # Once no undirected edge is left, there is nothing more to decide.
    while (dag & dag.T).any():
        sink = next((x for x in sorted(left, reverse=True) if _may_end(a, joined, x, left)), None)
        if sink is None:
            return None
        left.remove(sink)
        # In the remaining graph, every edge at the sink points to it.
        dag[sink, list(left)] = False
    return dag


def _may_end(a: Matrix, joined: Matrix, x: int, left: set[int]) -> bool:
    """Whether x has no effects left, and its undirected neighbours are joined to all neighbours of x."""
    beside = [i for i in np.flatnonzero(joined[x]).tolist() if i in left]
    if any(a[x, i] and not a[i, x] for i in beside):
        return False
    near = [i for i in beside if a[x, i]]
    return all(joined[y, i] for y in near for i in beside if i != y)


def forced(a: Matrix) -> Matrix:
    """A DAG with the same adjacencies and arrows; undirected edges follow an order of the arrows."""
    place = np.argsort(order(a & ~a.T))
    return np.asarray(a & ~(a.T & (place[:, None] > place)))


def separated(dag: Matrix, a: int, b: int, given: set[int]) -> bool:
    """Whether no active trail joins a and b given a set of nodes."""
    if a in given or b in given:
        return True
    opened, todo = set(given), list(given)
    while todo:  # a node with a descendant in the conditioning set opens a collider
        for k in np.flatnonzero(dag[:, todo.pop()]).tolist():
            if k not in opened:
                opened.add(k)
                todo.append(k)
    return b not in _reached(dag, a, given, opened)


def _reached(dag: Matrix, start: int, given: set[int], opened: set[int]) -> set[int]:
    """Nodes on active trails from the start; a trail is followed by node and direction."""
    seen, todo = set[tuple[int, bool]](), [(start, True)]
    while todo:
        node, up = step = todo.pop()
        if step in seen:
            continue
        seen.add(step)
        if node not in given:
            todo += [(int(c), False) for c in np.flatnonzero(dag[node])]
        if (up and node not in given) or (not up and node in opened):
            todo += [(int(p), True) for p in np.flatnonzero(dag[:, node])]
    return {node for node, _ in seen if node not in given}
