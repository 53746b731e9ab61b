"""Rule: one line of a rule file, and rules as a table to look over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..text import Glance, Overview, cut, grid
from .nodes import Formula, Ref, frozen_by, refs_of
from .wording import in_words


@dataclass(frozen=True)
class Rule:
    """One line of a rule file: its text, its meaning, and its line number.

    Parameters
    ----------
    text : str
        The rule as written.
    formula : Formula
        Its meaning in a schema.
    line : int, default=1
        The line of the file.

    Examples
    --------
    >>> from fcxplain import Feature, Schema, parse
    >>> rule = parse("age' >= age", Schema((Feature("age", "integer", low=18, high=90),)))
    >>> rule
    <rule age' >= age: age must not decrease>
    >>> rule.features
    ('age',)
    """

    text: str
    formula: Formula
    line: int = 1

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<rule {cut(self.text)}: {cut(in_words(self))}>"

    def _repr_html_(self) -> str:
        facts = (("in words", in_words(self)), ("about", ", ".join(self.features)))
        return Glance(self.text, facts=facts).html()

    @cached_property
    def refs(self) -> frozenset[Ref]:
        """Every name that the rule mentions."""
        return frozenset(refs_of(self.formula))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features that the rule mentions, sorted."""
        return tuple(sorted({r.name for r in self.refs}))

    @property
    def freezes(self) -> str | None:
        """The feature that this rule freezes (`f' == f`), if it says nothing else."""
        return frozen_by(self.formula)


def rules_grid(rules: Sequence[Rule]) -> Overview:
    """A table with one line per rule."""
    return grid(("rule", "in words"), [(rule.text, in_words(rule)) for rule in rules], "rule")
