"""Settings of the generator's architecture and training, and the layout of its table, as data that needs no torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, get_args

from ..errors import DataError, Fault, TrainingError, between, one_of, refuse, whole

if TYPE_CHECKING:
    from ..task import Task

Variance = Literal["sigmoid", "softplus"]
Sparsity = Literal["l1", "threshold", "gates"]
NumberUnit = Literal["range", "mad", "own"]
Kl = Literal["sum", "mean"]
Hard = Literal["rules", "hinge", "layer"]


@dataclass(frozen=True)
class Architecture:
    """Architecture of the generator's network.

    Parameters
    ----------
    hidden : tuple of int
        Widths of the encoder's layers, mirrored in the decoder.
    latent : int
        Size of the latent space.
    dropout : float
        Share of values dropped in training.
    variance : {"sigmoid", "softplus"}
        Form of the variance: the paper's 0.5 + sigmoid, which cannot go below one half, or a softplus, which can.
    skip : bool
        Whether the decoder also reads the whole row, not only the latent point.
    gates : bool
        Whether the decoder ends in three heads (see `heads`); otherwise every mutable column gets a sigmoid.
    temperature : float
        Temperature of the soft choices that the gradient of the heads' hard choices is taken from.

    Examples
    --------
    >>> from fcxplain import Architecture, FCx
    >>> FCx(architecture=Architecture(hidden=(32, 16), latent=5))
    FCx(not fitted, latent 5, 8 epochs at 0.01, seed 0)
    """

    hidden: tuple[int, ...] = (20, 16, 14, 12)
    latent: int = 10
    dropout: float = 0.1
    variance: Variance = "sigmoid"
    skip: bool = False
    gates: bool = False
    temperature: float = 1.0

    def __post_init__(self) -> None:
        refuse(
            "this architecture",
            *(whole("hidden", width, 1) for width in self.hidden or (0,)),
            whole("latent", self.latent, 1),
            between("dropout", self.dropout, 0, 0.9),
            one_of("variance", self.variance, get_args(Variance)),
            one_of("skip", self.skip, (False, True)),
            one_of("gates", self.gates, (False, True)),
            between("temperature", self.temperature, 0, open_low=True),
        )


@dataclass(frozen=True)
class LossWeights:
    """Weights of the terms of the loss; 0 leaves a term out.

    Parameters
    ----------
    proximity, validity : float
        Distance of the counterfactual from the row, and by how much it misses the target class (Eq. 8).
    kl : float
        Divergence of the latent distribution from a normal one (Eq. 9).
    hard, soft : float
        Violation of the rules, and of the causal graph (Eq. 10).
    sparsity, density : float
        How much changes (Eq. 7), and how far the row is from others in the latent space (Eq. 11).
    imitation : float
        Distance of the generator's outputs from answers that the search found for some of the rows. It is not in the
        paper, and off by default. It needs gates.
    sums : float
        Deviation of the columns of each category from a sum of 1; in the authors' code, not in the paper.

    Examples
    --------
    >>> from fcxplain import FCx, LossWeights
    >>> fcx = FCx(loss_weights=LossWeights(sparsity=2.0, density=0.0))
    >>> fcx.get_params()["loss_weights__density"]
    0.0
    """

    proximity: float = 1.0
    validity: float = 1.0
    kl: float = 1.0
    hard: float = 1.0
    soft: float = 1.0
    sparsity: float = 1.0
    density: float = 1.0
    imitation: float = 0.0
    sums: float = 0.0

    def __post_init__(self) -> None:
        wrong = [name for name, weight in self if not (math.isfinite(weight) and weight >= 0)]
        remedy = "Give 0 or more; 0 leaves the term out."
        faults = [Fault(f"weight of {name}", f"is {getattr(self, name)}", remedy) for name in wrong]
        if not any(weight for _, weight in self):
            faults.append(
                Fault("weights", "are all 0, so there is nothing to minimise", "Give at least one term a weight.")
            )
        if faults:
            raise TrainingError("these weights cannot be used", faults)

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return iter((f.name, getattr(self, f.name)) for f in fields(self))


@dataclass(frozen=True)
class TermSettings:
    """Settings inside the terms; the defaults are the paper's forms.

    Parameters
    ----------
    norm : {1, 2}
        Norm of the proximity.
    number_unit : {"range", "mad", "own"}
        Unit of numbers in the proximity: their range in the training rows, their MAD there, or their own units.
    margin : float
        Margin by which the target class should lead: a difference of sigmoids, or of logits if not `squashed`.
    squashed : bool
        Whether the margin is measured after a sigmoid.
    alpha : float
        How far the condition of the paper's binary hinge may rise without a penalty.
    beta : float
        How far the condition of the paper's binary hinge may rise if the consequence rises by 1.
    theta : float
        How much joined columns should covary; if `standardised`, as a share of the correlation in the data.
    standardised : bool
        Whether covariances are compared with those of the data.
    weight_joined, weight_apart : float
        Weights of joined columns, and of columns apart, in the soft term.
    sparsity : {"l1", "threshold", "gates"}
        Form of the sparsity: the size of changes, the number of columns that change (no gradient), or the expected
        number of features that change (needs gates).
    threshold : float
        The change from which on a column counts as changed.
    kl : {"sum", "mean"}
        Over the latent dimensions: the sum, or the mean as in the authors' code.
    draws : int
        Latent points per row of a batch, over which the terms are averaged; LOF uses the first.
    lof_k : int
        Neighbours in the LOF.
    lof_chunk : int, optional
        Rows per chunk in which LOF is computed; by default 256, or 4 k if that is more.
    lof_rows : int, optional
        Rows of a batch whose LOF counts; by default all.

    Raises
    ------
    TrainingError
        If a setting cannot work.

    Examples
    --------
    >>> from fcxplain import FCx, TermSettings
    >>> fcx = FCx(terms=TermSettings(margin=0.2, draws=5))
    >>> fcx.get_params()["terms__draws"]
    5
    """

    norm: int = 1
    number_unit: NumberUnit = "range"
    margin: float = 0.5
    squashed: bool = True
    alpha: float = 0.0
    beta: float = 1.0
    theta: float = 0.2
    standardised: bool = False
    weight_joined: float = 1.0
    weight_apart: float = 1.0
    sparsity: Sparsity = "l1"
    threshold: float = 0.05
    kl: Kl = "sum"
    draws: int = 1
    lof_k: int = 20
    lof_chunk: int | None = None
    lof_rows: int | None = None

    def __post_init__(self) -> None:
        refuse(
            "these settings of the terms",
            one_of("norm", self.norm, (1, 2)),
            one_of("number_unit", self.number_unit, get_args(NumberUnit)),
            one_of("sparsity", self.sparsity, get_args(Sparsity)),
            one_of("squashed", self.squashed, (False, True)),
            *(
                between(n, getattr(self, n), 0)
                for n in ("margin", "theta", "threshold", "weight_joined", "weight_apart")
            ),
            *(between(n, getattr(self, n), -math.inf) for n in ("alpha", "beta")),
            one_of("kl", self.kl, get_args(Kl)),
            whole("draws", self.draws, 1),
            whole("lof_k", self.lof_k, 1),
            [] if self.lof_chunk is None else whole("lof_chunk", self.lof_chunk, 2),
            [] if self.lof_rows is None else whole("lof_rows", self.lof_rows, 2),
        )


@dataclass(frozen=True)
class Range:
    """The values that a number may take without rules, in encoded units: from `low` to `high` by `step`.

    Both ends lie on the grid of legal values.
    """

    low: float
    high: float
    step: float


@dataclass(frozen=True)
class Layout:
    """The encoded columns of each feature, and which features may change.

    `ranges` has a `Range` for each number and None for each category; a model without gates does not need it.
    """

    spans: tuple[tuple[int, int], ...]
    mutable: tuple[bool, ...]
    classes: int = 2
    ranges: tuple[Range | None, ...] = ()

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return self.spans[-1][1]

    @property
    def mutable_columns(self) -> list[int]:
        """The encoded columns of features that may change."""
        return [c for span, may in zip(self.spans, self.mutable, strict=True) if may for c in range(*span)]

    @property
    def head_width(self) -> int:
        """The number of outputs of a decoder with gates: one per mutable feature, then one per mutable column."""
        return len(self.mutable_features) + len(self.mutable_columns)

    @property
    def mutable_features(self) -> list[int]:
        """The indices of features that may change."""
        return [place for place, may in enumerate(self.mutable) if may]


def refuse_frozen(task: Task) -> None:
    """Raise an error for a task in which no feature may change."""
    if task.frozen.issuperset(task.schema.names):
        raise DataError("no feature may change: the schema or the rules freeze all of them")
