"""Normal forms. Every formula becomes `and`/`or` over plain atoms, and, where it stays small, disjuncts.

Plain atoms are: a linear comparison without `abs` and `!=`, membership of a category, and two categories with
the same level. A disjunct is a set of atoms that must hold together; most are boxes, as each of their atoms
speaks of one counterfactual value only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from .nodes import (
    OPPOSITE,
    Abs,
    Affine,
    And,
    Atom,
    Compare,
    Formula,
    Implies,
    Member,
    Not,
    Op,
    Or,
    Ref,
    Same,
)

TRUE = And(())
FALSE = Or(())
MAX_DISJUNCTS = 4096
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
ANY_SIGN = frozenset({-1, 0, 1})
# Among more disjuncts than this, those that others cover are not looked for: that takes time squared.
MANY = 512


def substituted(formula: Formula, frozen: frozenset[str]) -> Formula:
    """The formula in which the counterfactual value of frozen features is their present value."""
    match formula:
        case Compare(left=left, op=op, right=right):
            return Compare(_substituted_affine(left, frozen), op, _substituted_affine(right, frozen))
        case Member(ref=ref):
            return replace(formula, ref=_present(ref, frozen))
        case Same(left=first, right=second):
            return replace(formula, left=_present(first, frozen), right=_present(second, frozen))
        case And(items=items):
            return And(tuple(substituted(i, frozen) for i in items))
        case Or(items=items):
            return Or(tuple(substituted(i, frozen) for i in items))
        case Not(item=item):
            return Not(substituted(item, frozen))
        case Implies(condition=condition, consequence=consequence):
            return Implies(substituted(condition, frozen), substituted(consequence, frozen))


def _present(ref: Ref, frozen: frozenset[str]) -> Ref:
    return replace(ref, primed=False) if ref.name in frozen else ref


def _substituted_affine(affine: Affine, frozen: frozenset[str]) -> Affine:
    total = Affine(constant=affine.constant)
    for weight, atom in affine.terms:
        new = Abs(_substituted_affine(atom.inside, frozen)) if isinstance(atom, Abs) else _present(atom, frozen)
        total = total + Affine(((weight, new),))
    return total


def normal_form(formula: Formula, *, wanted: bool = True) -> Formula:
    """`and`/`or` over plain atoms; with `wanted=False` of the formula's opposite."""
    match formula:
        case Compare(left=left, op=op, right=right):
            return _plain_comparison(Compare(left - right, op if wanted else OPPOSITE[op], _ZERO))
        case Member(ref=ref, values=values, negated=negated):
            return _plain_member(ref, values, wanted ^ negated)
        case Same(negated=negated):
            return _plain_same(replace(formula, negated=negated == wanted))
        case Not(item=item):
            return normal_form(item, wanted=not wanted)
        case Implies(condition=condition, consequence=consequence):
            pair = (normal_form(condition, wanted=not wanted), normal_form(consequence, wanted=wanted))
            return _or(pair) if wanted else _and(pair)
        case And(items=items) | Or(items=items):
            parts = tuple(normal_form(i, wanted=wanted) for i in items)
            return _and(parts) if isinstance(formula, And) == wanted else _or(parts)


def _plain_comparison(formula: Compare) -> Formula:
    """Splits `!=` into less and greater, and every `abs` by the sign of what it holds."""
    first = next((atom for _, atom in formula.left.terms if isinstance(atom, Abs)), None)
    if first is not None:
        return _or(tuple(_with_sign(formula, first, sign) for sign in (1.0, -1.0)))
    if formula.op == "!=":
        return _or((replace(formula, op="<"), replace(formula, op=">")))
    return formula if formula.left.terms else _constant(formula)


def _with_sign(formula: Compare, absolute: Abs, sign: float) -> Formula:
    total = Affine(constant=formula.left.constant)
    for weight, atom in formula.left.terms:
        total = total + (absolute.inside * (weight * sign) if atom == absolute else Affine(((weight, atom),)))
    condition = _plain_comparison(Compare(absolute.inside * sign, ">=", _ZERO))
    return _and((condition, _plain_comparison(replace(formula, left=total))))


def _constant(formula: Compare) -> Formula:
    value = formula.left.constant
    true = {"<": value < 0, "<=": value <= 0, "==": value == 0, ">=": value >= 0, ">": value > 0}
    return TRUE if true[formula.op] else FALSE


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


def _plain_same(formula: Same) -> Formula:
    if formula.left == formula.right:
        return FALSE if formula.negated else TRUE
    return formula


def _and(items: Iterable[Formula]) -> Formula:
    return _joined(And, items, FALSE)


def _or(items: Iterable[Formula]) -> Formula:
    return _joined(Or, items, TRUE)


def _joined(kind: type[And] | type[Or], items: Iterable[Formula], decisive: Formula) -> Formula:
    """Items joined flat and without repetition; a decisive one settles the matter alone."""
    flat: list[Formula] = []
    for item in items:
        flat += item.items if isinstance(item, kind) else [item]
    if decisive in flat:
        return decisive
    distinct = tuple(dict.fromkeys(flat))
    return distinct[0] if len(distinct) == 1 else kind(distinct)


def disjuncts(formula: Formula, limit: int = MAX_DISJUNCTS) -> list[tuple[Atom, ...]] | None:
    """The disjunctive form of a normal form, or None where it has more than `limit` disjuncts."""
    atoms: dict[Atom, int] = {}
    found = _disjuncts(formula, atoms, limit)
    if found is None:
        return None
    by_number = list(atoms)
    return _merged([tuple(by_number[i] for i in sorted(d)) for d in found])


def _merged(found: list[tuple[Atom, ...]]) -> list[tuple[Atom, ...]]:
    """Disjuncts with one comparison of each sum at most, without such as nothing can keep or another one covers."""
    boxes = [box for box in map(_signs, found) if all(signs for signs in box.values())]
    if len(boxes) > MANY:
        return [_atoms(box) for box in boxes]
    # Of two that cover each other the first stays.
    covered = (
        any(_covers(o, box) and (j < i or not _covers(box, o)) for j, o in enumerate(boxes) if j != i)
        for i, box in enumerate(boxes)
    )
    return [_atoms(box) for box, spare in zip(boxes, covered, strict=True) if not spare]


def _signs(atoms: tuple[Atom, ...]) -> dict[Affine | Atom, frozenset[int]]:
    """For each sum that is compared with 0, which signs all its comparisons allow; other atoms are as they are."""
    box: dict[Affine | Atom, frozenset[int]] = {}
    for atom in atoms:
        key: Affine | Atom = atom.left if isinstance(atom, Compare) else atom
        signs = SIGNS[atom.op] if isinstance(atom, Compare) else ANY_SIGN
        box[key] = box.get(key, ANY_SIGN) & signs
    return box


def _covers(wide: dict[Affine | Atom, frozenset[int]], narrow: dict[Affine | Atom, frozenset[int]]) -> bool:
    """Whether whatever keeps the narrow box keeps the wide one."""
    return all(key in narrow and narrow[key] <= signs for key, signs in wide.items())


def _atoms(box: dict[Affine | Atom, frozenset[int]]) -> tuple[Atom, ...]:
    by_signs = {signs: op for op, signs in SIGNS.items()}
    found: list[Atom] = []
    for key, signs in box.items():
        found.append(Compare(key, by_signs[signs], _ZERO) if isinstance(key, Affine) else key)
    return tuple(found)


def _disjuncts(formula: Formula, atoms: dict[Atom, int], limit: int) -> list[frozenset[int]] | None:
    match formula:
        case Or(items=items):
            parts = [_disjuncts(i, atoms, limit) for i in items]
            if any(p is None for p in parts):
                return None
            together = _least({d for p in parts if p is not None for d in p})
            return together if len(together) <= limit else None
        case And(items=items):
            total: list[frozenset[int]] = [frozenset()]
            for item in items:
                part = _disjuncts(item, atoms, limit)
                # Bounded before it is built: the product of two lists within the limit stays affordable.
                if part is None or len(total) * len(part) > 16 * limit:
                    return None
                total = _least({a | b for a, b in product(total, part)})
                if len(total) > limit:
                    return None
            return total
        case Compare() | Member() | Same():
            boxes = _as_boxes(formula)
            if boxes is not None:
                return _disjuncts(boxes, atoms, limit)
            return [frozenset({atoms.setdefault(formula, len(atoms))})]
    raise TypeError(f"not a normal form: {formula!r}")


def _least(found: set[frozenset[int]]) -> list[frozenset[int]]:
    """Without disjuncts that ask for more than another one does."""
    ordered = sorted(found, key=lambda d: (len(d), sorted(d)))
    if len(ordered) > MANY:
        return ordered
    kept: list[frozenset[int]] = []
    for one in ordered:
        if not any(other <= one for other in kept):
            kept.append(one)
    return kept


def _as_boxes(atom: Atom) -> Formula | None:
    """An atom on several counterfactual categories, written out over the levels of one of them."""
    features = atom.primed
    if len(features) < 2 or features[0].is_number:
        return None
    pairs = 1
    for feature in features:
        pairs *= len(feature.levels)
    if pairs > MAX_PAIRS:
        return None
    first = Ref(features[0], primed=True)
    cases = (_and((Member(first, (code,)), _at_level(atom, first, code))) for code in range(len(first.feature.levels)))
    return _or(cases)


def _at_level(atom: Atom, ref: Ref, code: int) -> Formula:
    """The atom where one category is known to have a level."""
    if isinstance(atom, Same):
        other = atom.right if atom.left == ref else atom.left
        found = other.feature.level_of_text.get(str(ref.feature.levels[code]))
        return _plain_member(other, () if found is None else (found,), not atom.negated)
    if isinstance(atom, Member):
        return TRUE if code in atom.values else FALSE
    total = Affine(constant=atom.left.constant)
    for weight, part in atom.left.terms:
        known = Affine(constant=weight * ref.feature.ranks[code])
        total = total + (known if part == ref else Affine(((weight, part),)))
    return _plain_comparison(replace(atom, left=total))
