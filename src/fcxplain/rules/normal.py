"""Normal forms. Every formula becomes `and`/`or` over plain atoms, and, where it stays small, disjuncts.

Plain atoms are: a linear comparison without `!=`, membership of a category, and two categories with the same level.
A comparison with a few `abs` becomes linear ones; with more of them it stays whole, as their number doubles with each.
A disjunct is a set of atoms that must hold together; most are boxes, as each of their atoms mentions one
counterfactual value only. Rules are prepared once for a task: groups that share no counterfactual value, and the ways
of keeping each group.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial, reduce
from itertools import product
from math import prod
from operator import or_

from ..schema import Schema
from .nodes import OPPOSITE, Abs, Affine, And, Atom, Compare, Formula, Implies, Member, Not, Op, Or, Ref, Same, refs_of
from .rule import Rule

TRUE = And(())
FALSE = Or(())
MAX_DISJUNCTS = 1024
# Sets of this many pairs of levels are left to the integer program.
MAX_PAIRS = 2000
_ZERO = Affine()
# Which signs of a sum a comparison with 0 allows.
SIGNS: dict[Op, frozenset[int]] = {
    "<": frozenset({-1}),
    "<=": frozenset({-1, 0}),
    "==": frozenset({0}),
    ">=": frozenset({0, 1}),
    ">": frozenset({1}),
}
OPS = {signs: op for op, signs in SIGNS.items()}
ANY_SIGN = frozenset({-1, 0, 1})
# A comparison with more `abs` than this, and so with 2 ** 4 signs, is left to the integer program.
MAX_FOLDS = 4
# Sets of atoms joined or compared before a disjunctive form is given up.
MAX_WORK = 1_000_000
# With more disjuncts than this, those covered by others are not searched for: that takes quadratic time.
MANY = 512
# More ways than this, with atoms that no box can express, take longer to go through than the integer program.
MOST_WIDE = 128
# Groups that are remembered: tasks that differ in a rule or two have most of them in common.
REMEMBERED = 512


def substituted(formula: Formula, frozen: frozenset[str]) -> Formula:
    """The formula in which the counterfactual value of frozen features is their present value."""
    match formula:
        case Compare(left=left, op=op, right=right):
            return Compare(_substituted_affine(left, frozen), op, _substituted_affine(right, frozen))
        case Member(ref=ref):
            return replace(formula, ref=_present(ref, frozen))
        case Same(left=first, right=second):
            return replace(formula, left=_present(first, frozen), right=_present(second, frozen))
        case And(items=items) | Or(items=items):
            return replace(formula, items=tuple(substituted(i, frozen) for i in items))
        case Not(item=item):
            return Not(substituted(item, frozen))
        case Implies(condition=condition, consequence=consequence):
            return Implies(substituted(condition, frozen), substituted(consequence, frozen))


def _present(ref: Ref, frozen: frozenset[str]) -> Ref:
    return replace(ref, primed=False) if ref.name in frozen else ref


def _substituted_affine(affine: Affine, frozen: frozenset[str]) -> Affine:
    parts = [Affine(constant=affine.constant)]
    for weight, atom in affine.terms:
        new = Abs(_substituted_affine(atom.inside, frozen)) if isinstance(atom, Abs) else _present(atom, frozen)
        parts.append(Affine(((weight, new),)))
    return Affine.total(parts)


def normal_form(formula: Formula, *, wanted: bool = True) -> Formula:
    """`and`/`or` over plain atoms; with `wanted=False` of the formula's opposite."""
    match formula:
        case Compare(left=left, op=op, right=right):
            return _plain_comparison(Compare(left - right, op if wanted else OPPOSITE[op], _ZERO))
        case Member(ref=ref, values=values, negated=negated):
            return _plain_member(ref, values, wanted ^ negated)
        case Same(left=first, right=second, negated=negated) if first == second:
            return FALSE if negated == wanted else TRUE
        case Same(negated=negated):
            return replace(formula, negated=negated == wanted)
        case Not(item=item):
            return normal_form(item, wanted=not wanted)
        case Implies(condition=condition, consequence=consequence):
            pair = (normal_form(condition, wanted=not wanted), normal_form(consequence, wanted=wanted))
            return _or(pair) if wanted else _and(pair)
        case And(items=items) | Or(items=items):
            parts = tuple(normal_form(i, wanted=wanted) for i in items)
            return _and(parts) if isinstance(formula, And) == wanted else _or(parts)


def _plain_comparison(formula: Compare) -> Formula:
    """Splits `!=` into less and greater, and a few `abs` by sign."""
    left = formula.left
    if formula.op == "!=":
        return _or(_plain_comparison(replace(formula, op=op)) for op in ("<", ">"))
    if not left.folds:
        sign = (left.constant > 0) - (left.constant < 0)
        return formula if left.terms else TRUE if sign in SIGNS[formula.op] else FALSE
    if formula.op == "==":
        return _and(_plain_comparison(replace(formula, op=op)) for op in ("<=", ">="))
    limits = _limits_of_each(formula)
    if left.folds > MAX_FOLDS:
        return _and((formula, *limits))
    place = next(i for i, (_, atom) in enumerate(left.terms) if _is_fold(atom))
    weight, fold = left.terms[place]
    assert isinstance(fold, Abs)
    rest = Affine(left.terms[:place] + left.terms[place + 1 :], left.constant)
    signed = (rest + fold.inside * (weight * sign) for sign in (1.0, -1.0))
    # The size of e is the larger of e and -e: at most something where both are, at least that where one is.
    join = _and if (weight > 0) == (formula.op in ("<", "<=")) else _or
    # A sum of them is kept whole next to its signs: where its nearest points are known, no sign need be tried.
    whole = (formula, *limits) if limits else ()
    return join((*whole, *(_plain_comparison(replace(formula, left=case)) for case in signed)))


def _limits_of_each(formula: Compare) -> list[Formula]:
    """Of `abs(a) + abs(b) <= c` that either is at most `c`, which boxes can say; nothing of other comparisons."""
    upper = formula.op in ("<", "<=")
    primed = [(w, atom) for w, atom in formula.left.terms if atom.primed]
    if len(primed) < 2 or not all(_is_fold(atom) and (w > 0) == upper for w, atom in primed):
        return []
    rest = Affine(tuple(t for t in formula.left.terms if not t[1].primed), formula.left.constant)
    return [
        _plain_comparison(replace(formula, left=rest + atom.inside * (weight * sign)))
        for weight, atom in primed
        for sign in (1.0, -1.0)
        if isinstance(atom, Abs) and not atom.inside.folds
    ]


def _is_fold(atom: Ref | Abs) -> bool:
    return isinstance(atom, Abs) and atom.primed


def _plain_member(ref: Ref, values: tuple[float, ...], wanted: bool) -> Formula:
    if ref.feature.is_category:
        every = range(len(ref.feature.levels))
        codes = tuple(c for c in every if (c in values) == wanted)
        return TRUE if len(codes) == len(every) else Member(ref, codes) if codes else FALSE
    one = Affine(((1.0, ref),))
    parts = tuple(
        _plain_comparison(Compare(one + Affine(constant=-v), "==" if wanted else "!=", _ZERO)) for v in values
    )
    return _or(parts) if wanted else _and(parts)


def _joined(kind: type[And] | type[Or], decisive: Formula, items: Iterable[Formula]) -> Formula:
    """Items joined flat and without repetition; a decisive one settles the matter alone."""
    flat: list[Formula] = []
    for item in items:
        flat += item.items if isinstance(item, kind) else [item]
    if decisive in flat:
        return decisive
    distinct = tuple(dict.fromkeys(flat))
    return distinct[0] if len(distinct) == 1 else kind(distinct)


_and = partial(_joined, And, FALSE)
_or = partial(_joined, Or, TRUE)


def disjuncts(formula: Formula, limit: int = MAX_DISJUNCTS) -> list[tuple[Atom, ...]] | None:
    """The disjunctive form of a normal form, or None where it has more than `limit` disjuncts or takes too long."""
    plain = _written_out(formula)
    spread = _Spread(list(dict.fromkeys(atoms_of(plain))), limit)
    try:
        return _merged([spread.needed(found) for found in spread.of(plain)])
    except _TooManyError:
        return None


def _written_out(formula: Formula) -> Formula:
    """Atoms on several counterfactual categories are written out over the levels of the first, where these are few."""
    if isinstance(formula, And | Or):
        join = _and if isinstance(formula, And) else _or
        return join(_written_out(item) for item in formula.items)
    assert isinstance(formula, Compare | Member | Same), f"not a normal form: {formula!r}"
    features = formula.primed
    if len(features) < 2 or features[0].is_number or (isinstance(formula, Compare) and formula.left.folds):
        return formula
    if prod(len(feature.levels) for feature in features) > MAX_PAIRS:
        return formula
    first, codes = Ref(features[0], primed=True), range(len(features[0].levels))
    return _or(_and((Member(first, (c,)), _written_out(_at_level(formula, first, c)))) for c in codes)


def atoms_of(formula: Formula) -> Iterator[Atom]:
    """The atoms of a normal form, in order, with repetition."""
    if isinstance(formula, And | Or):
        for item in formula.items:
            yield from atoms_of(item)
    elif isinstance(formula, Compare | Member | Same):
        yield formula


def _merged(found: list[tuple[Atom, ...]]) -> list[tuple[Atom, ...]]:
    """Disjuncts with one comparison of each sum at most, without those that nothing can keep."""
    boxes = []
    for atoms in found:
        # For each sum that is compared with 0, which signs all its comparisons allow; other atoms are as they are.
        box: dict[Affine | Atom, frozenset[int]] = {}
        for atom in atoms:
            key, signs = (atom.left, SIGNS[atom.op]) if isinstance(atom, Compare) else (atom, ANY_SIGN)
            box[key] = box.get(key, ANY_SIGN) & signs
        boxes += [tuple(box.items())] if all(box.values()) else []
    # One object for an atom of many disjuncts, which remembers what was worked out about it.
    made = {
        (key, signs): Compare(key, OPS[signs], _ZERO) if isinstance(key, Affine) else key
        for key, signs in dict.fromkeys(item for box in boxes for item in box)
    }
    return [tuple(made[item] for item in box) for box in boxes]


class _TooManyError(Exception):
    """Leaves a disjunctive form that grows too large; never leaves this module."""


# Atoms by their numbers, and all that these demand together.
_Disjunct = tuple[frozenset[int], int]


class _Spread:
    """The way to a disjunctive form: atoms by number, what each demands, and how much work is left.

    Demands are bits. A row that keeps a disjunct keeps every other one whose demands are a subset, so `x <= 1` is
    dropped next to `x <= 2`.
    """

    def __init__(self, atoms: list[Atom], limit: int) -> None:
        self.atoms, self.limit, self.work = atoms, limit, MAX_WORK
        self.number = {atom: number for number, atom in enumerate(atoms)}
        self.demands = _demands(atoms)

    def of(self, formula: Formula) -> list[_Disjunct]:
        """The disjuncts of a formula."""
        match formula:
            case Or(items=items):
                return self._least(d for item in items for d in self.of(item))
            case And(items=items):
                total: list[_Disjunct] = [(frozenset(), 0)]
                for item in items:
                    part = self.of(item)
                    self._spend(len(total) * len(part))
                    total = self._least((a | b, c | d) for (a, c), (b, d) in product(total, part))
                return total
            case Compare() | Member() | Same():
                number = self.number[formula]
                return [(frozenset({number}), self.demands[number])]
        raise TypeError(f"not a normal form: {formula!r}")

    def needed(self, disjunct: _Disjunct) -> tuple[Atom, ...]:
        """The atoms of a disjunct without those that the others imply."""
        kept = sorted(disjunct[0])
        for number in reversed(kept):
            others = reduce(or_, (self.demands[n] for n in kept if n != number), 0)
            if not self.demands[number] & ~others:
                kept.remove(number)
        return tuple(self.atoms[number] for number in kept)

    def _least(self, found: Iterable[_Disjunct]) -> list[_Disjunct]:
        """Without disjuncts that demand more than another one does."""
        ordered = sorted(set(found), key=lambda d: (len(d[0]), sorted(d[0])))
        if len(ordered) > max(MANY, self.limit):
            raise _TooManyError
        if len(ordered) <= MANY:
            kept: list[_Disjunct] = []
            for one in ordered:
                self._spend(len(kept))
                if all(other & ~one[1] for _, other in kept):
                    kept = [other for other in kept if one[1] & ~other[1]]
                    kept.append(one)
            ordered = kept
        if len(ordered) > self.limit:
            raise _TooManyError
        return ordered

    def _spend(self, work: int) -> None:
        """Called before the work is done, so that nothing grows beyond what is affordable."""
        self.work -= work
        if self.work < 0:
            raise _TooManyError


def _demands(atoms: Sequence[Atom]) -> list[int]:
    """What each atom demands, as bits: it implies all atoms whose bits are among its own."""
    scales: dict[Hashable, set[float]] = {}
    steps = [list(_steps(atom)) for atom in atoms]
    for scale, step in (pair for pairs in steps for pair in pairs):
        scales.setdefault(scale, set()).add(step)
    bits, first = dict[tuple[Hashable, float], int](), 0
    for scale, found in scales.items():
        # An atom that goes this far demands all shorter steps too.
        bits |= {(scale, step): ((1 << place) - 1) << first for place, step in enumerate(sorted(found), 1)}
        first += len(found)
    return [reduce(or_, (bits[pair] for pair in pairs), 0) for pairs in steps]


def _steps(atom: Atom) -> Iterator[tuple[Hashable, float]]:
    """How far an atom goes, on one scale or several; on each, who goes further demands more."""
    match atom:
        case Member(ref=ref, values=codes) if ref.feature.is_category:
            yield from (((ref, code), 1.0) for code in range(len(ref.feature.levels)) if code not in codes)
        case Compare(left=left, op=op):
            for side in (-1.0, 1.0):
                if side in SIGNS[op] or op == "==":
                    line = frozenset((weight * side, part) for weight, part in left.terms)
                    yield (line, "closed"), -left.constant * side
                    if 0 not in SIGNS[op]:
                        # Rounding forbids to say that `x <= 1` is `x < 2`, but never the reverse.
                        yield (line, "open"), -left.constant * side
        case _:
            yield atom, 1.0


def _at_level(atom: Atom, ref: Ref, code: int) -> Formula:
    """The atom where one category is known to have a level."""
    if isinstance(atom, Same):
        other = atom.right if atom.left == ref else atom.left
        found = other.feature.level_of_text.get(str(ref.feature.levels[code]))
        return _plain_member(other, () if found is None else (found,), not atom.negated)
    if isinstance(atom, Member):
        return TRUE if code in atom.values else FALSE
    known = sum(weight * ref.feature.ranks[code] for weight, part in atom.left.terms if part == ref)
    others = tuple(term for term in atom.left.terms if term[1] != ref)
    return _plain_comparison(replace(atom, left=Affine(others, atom.left.constant + known)))


@dataclass(frozen=True, eq=False)
class Disjunct:
    """One way of keeping some rules: atoms that must hold together, on the counterfactual values of some features."""

    names: tuple[str, ...]
    atoms: tuple[Atom, ...] = ()

    @cached_property
    def present(self) -> tuple[Atom, ...]:
        """Atoms about the present row alone."""
        return tuple(atom for atom in self.atoms if not atom.primed)

    @cached_property
    def alone(self) -> dict[str, tuple[Atom, ...]]:
        """Atoms about one counterfactual value, by its feature."""
        one = [(atom.primed[0].name, atom) for atom in self.atoms if atom.primed and not atom.is_wide]
        return {name: tuple(atom for own, atom in one if own == name) for name in self.names}

    @cached_property
    def wide(self) -> tuple[Atom, ...]:
        """Atoms that no box can express."""
        return tuple(atom for atom in self.atoms if atom.is_wide)

    @property
    def sums(self) -> list[Compare]:
        """The wide atoms that are linear comparisons."""
        return [atom for atom in self.wide if isinstance(atom, Compare) and not atom.left.folds]


@dataclass(frozen=True, eq=False)
class Group:
    """Rules that share counterfactual values: their normal form, the ways of keeping them if few, those features."""

    formula: Formula
    disjuncts: tuple[Disjunct, ...] | None
    names: tuple[str, ...]
    wide: bool

    @cached_property
    def ways(self) -> tuple[Disjunct, ...]:
        """What boxes can express of the ways of keeping the rules: nothing where there are too many to list."""
        return (Disjunct(self.names),) if self.disjuncts is None else self.disjuncts


def frozen_names(rules: Iterable[Rule], schema: Schema) -> frozenset[str]:
    """Features that the schema or a rule freezes."""
    return frozenset({*schema.immutable, *(rule.freezes for rule in rules if rule.freezes)})


def grouped(rules: Iterable[Rule], frozen: frozenset[str]) -> tuple[Group, ...]:
    """Groups of rules that share no counterfactual value; rules that freeze a feature are in none."""
    groups: list[tuple[set[str], list[Formula]]] = []
    for formula in (normal_form(substituted(rule.formula, frozen)) for rule in rules if not rule.freezes):
        if formula != TRUE:
            names, members = {r.name for r in refs_of(formula) if r.primed}, [formula]
            for other in [g for g in groups if g[0] & names]:
                groups.remove(other)
                names, members = names | other[0], other[1] + members
            groups.append((names, members))
    return tuple(_group(tuple(members)) for _, members in groups)


@lru_cache(maxsize=REMEMBERED)
def _group(formulas: tuple[Formula, ...]) -> Group:
    formula = normal_form(And(formulas))
    names = tuple(sorted({r.name for r in refs_of(formula) if r.primed}))
    found = disjuncts(formula)
    ways = None if found is None else tuple(Disjunct(names, atoms) for atoms in found)
    wide = ways is None or any(way.wide for way in ways)
    return Group(formula, None if wide and ways is not None and len(ways) > MOST_WIDE else ways, names, wide)
