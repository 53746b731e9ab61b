"""FCx: fit a generator of counterfactuals to a task, explain rows with it, keep it in a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Self, get_args, overload

import pandas as pd
import torch
from torch import Tensor

from . import model_view
from .answering import DRAWS, Answering, Wishes, refuse_wishes
from .causal import CausalGraph, discover
from .classifier import differentiable
from .datasets import DEFAULT_DATASET
from .drawing import drawn_answers
from .errors import ClassifierError, DataError, Fault, FcxError, FormatError, NotFittedError, did_you_mean
from .explanation import Explanation
from .explanation.identity import model_id
from .fingerprint import fingerprint
from .model.cvae import Architecture, ConditionalVAE, weight_shapes
from .model.history import History
from .model.objective import Objective, TermSettings, Weights
from .model.settings import between, one_of, refuse, whole
from .model.training import Callback, Schedule, Training
from .model_view import Hard
from .persistence import Checkpoint, Saved, read, resume, write
from .persistence.problem import restored_stand_in, restored_task, stand_in_content, task_content
from .persistence.weights import below
from .presets import ARCHITECTURE, SCHEDULE, TERMS, WEIGHTS, Constraint, Rate, as_published
from .rule_boxes import RuleBoxes
from .search import PREFERENCES, Budget, as_budget
from .streaming import Streamed, stream
from .task import Task

KIND = "fcx"


class FCx:
    """Counterfactuals by a conditional variational autoencoder, trained with seven terms for any classifier.

    architecture: the network. weights: what each of the seven terms counts for. terms: the free choices inside
        the terms. schedule: how long and how fast it is trained.
    hard: how rules act in training: "layer" (the network's outputs are put where the rules allow, and the rest acts
        as a penalty), "rules" (any rule as a penalty, with a margin) or "hinge" (the paper's two forms).
    alpha, n_effective: of the causal discovery (see `discover`), where the task brings no graph of its own.
    search: whether `explain` searches for verified answers, with the network's draws among its proposals. Without it
        every draw is handed out, as in the paper.
    prefer: what answers are to be where `explain` is not told: "fewest", "sparse", "balanced" or
        "plausible"; see `explain`.
    device: where the network is trained, e.g. "cpu" or "cuda".

    `get_params` and `set_params` reach into the parts: `set_params(architecture__latent=5, weights__density=0)`.
    After `fit`: `model_`, `history_`, `graph_`, `stand_in_` (the classifier with gradients) and `task_`.
    """

    def __init__(
        self,
        *,
        architecture: Architecture = ARCHITECTURE,
        weights: Weights = WEIGHTS,
        terms: TermSettings = TERMS,
        schedule: Schedule = SCHEDULE,
        hard: Hard = "layer",
        alpha: float = 0.01,
        n_effective: int | None = 5_000,
        search: bool = True,
        prefer: str = "balanced",
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.architecture, self.weights, self.terms, self.schedule = architecture, weights, terms, schedule
        self.hard, self.alpha, self.n_effective = hard, alpha, n_effective
        self.search, self.prefer, self.seed, self.device = search, prefer, seed, device
        self.source_: dict[str, Any] = {}

    @classmethod
    def as_published(
        cls,
        constraint: Constraint = "unary",
        dataset: str = DEFAULT_DATASET,
        seed: int = 0,
        *,
        learning_rate: Rate = 1e-2,
    ) -> FCx:
        """The paper's method with the paper's settings for one of its data sets; the rules come from the task.

        `constraint` chooses the settings for the unary or the binary model. The default learning rate is that
        of the authors' code; `learning_rate="paper"` takes the ones that the paper names (0.1 and 0.2).
        """
        return cls(**as_published(constraint, dataset, learning_rate), seed=seed)

    def __repr__(self) -> str:
        state = "fitted" if hasattr(self, "model_") else "not fitted"
        a, s = self.architecture, self.schedule
        return f"FCx({state}, latent {a.latent}, {s.epochs} epochs at {s.learning_rate:g}, seed {self.seed})"

    # Parameters, as in scikit-learn

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters; with `deep`, also those of their parts as `part__name`."""
        found = {name: getattr(self, name) for name in PARAMETERS}
        if deep:
            parts = {name: value for name, value in found.items() if is_dataclass(value)}
            found |= {f"{n}__{f.name}": getattr(v, f.name) for n, v in parts.items() for f in fields(v)}
        return found

    def set_params(self, **params: Any) -> Self:
        """Change parameters, or single settings of their parts by `part__name`."""
        known = self.get_params()
        unknown = [p for p in params if p not in known]
        if unknown:
            faults = [Fault(f"parameter {p!r}", "is not known", did_you_mean(p, known)) for p in unknown]
            raise DataError("FCx.set_params", faults)
        for name in sorted(params, key=lambda p: "__" in p):
            part, _, inner = name.partition("__")
            value = replace(getattr(self, part), **{inner: params[name]}) if inner else params[name]
            setattr(self, part, value)
        return self

    # Fitting

    def fit(
        self,
        task: Task,
        *,
        validation: pd.DataFrame | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Learn from the training rows that do not get the class wanted.

        validation: rows that say which epoch was best; by default a tenth of the refused training rows.
        checkpoint: a folder for the state of the training. A fit that was cut off goes on from there, and ends
            exactly where an uninterrupted one does.
        """
        self._check()
        training = self.training(task, validation=validation, callbacks=callbacks)
        if checkpoint is None:
            self.history_ = training.run()
        else:
            identity = self._identity(training)
            training.callbacks += (Checkpoint(checkpoint, identity=identity),)
            resume(training, checkpoint, identity)
            self.history_ = training.run()
        self.model_ = training.model.to("cpu")
        return self

    def _check(self) -> None:
        """Refuse parameters that cannot work, all at once, before anything is done."""
        parts = [
            Fault(name, f"is a {type(getattr(self, name)).__name__}", f"Give a {part.__name__}.")
            for name, part in PARTS.items()
            if not isinstance(getattr(self, name), part)
        ]
        refuse(
            "these parameters",
            parts,
            one_of("hard", self.hard, get_args(Hard)),
            self._gate_faults(),
            between("alpha", self.alpha, 0, 1, open_low=True),
            [] if self.n_effective is None else whole("n_effective", self.n_effective, 1),
            one_of("search", self.search, (True, False)),
            one_of("prefer", self.prefer, tuple(PREFERENCES)),
            whole("seed", self.seed, 0),
            _device_faults(self.device),
        )

    def _gate_faults(self) -> list[Fault]:
        """What only a network with gates can do."""
        if not isinstance(self.architecture, Architecture) or self.architecture.gates:
            return []
        needs = {"hard='layer'": self.hard == "layer", "sparsity='gates'": self.terms.sparsity == "gates"}
        remedy = "Set architecture__gates=True, or choose another."
        return [Fault(name, "needs a network with gates", remedy) for name, wanted in needs.items() if wanted]

    def training(
        self, task: Task, *, validation: pd.DataFrame | None = None, callbacks: Iterable[Callback] = ()
    ) -> Training:
        """The training run that `fit` makes, ready to begin; the graph and the stand-in are there already."""
        boxes = RuleBoxes(task) if self.hard == "layer" else None
        rows = model_view.refused_rows(task, task.train, boxes)
        held = None if validation is None else model_view.refused_rows(task, validation, boxes)
        train, held = model_view.parted(rows, self.seed) if held is None else (rows, held)
        objective = self._objective(task)
        generator = torch.Generator().manual_seed(self.seed)
        model = ConditionalVAE(model_view.layout(task), self.architecture, generator).to(task.encoder.dtype_)
        self.task_ = task
        return Training(model.to(self.device), objective, train, held, self.schedule, generator, callbacks)

    def _objective(self, task: Task) -> Objective:
        self.stand_in_ = differentiable(task.classifier, task, seed=self.seed)
        self.graph_ = self._graph(task)
        joined, apart = model_view.causal_masks(self.graph_, task, model_view.layout(task))
        penalty = model_view.rule_penalty(task, self.hard, self.terms.alpha, self.terms.beta)
        return Objective(
            self.stand_in_.module,
            penalty,
            joined,
            apart,
            weights=self.weights,
            settings=self.terms,
            scale=model_view.proximity_scale(task, self.terms.number_unit),
            expected=model_view.expected_correlation(task) if self.terms.standardised else None,
        )

    def _graph(self, task: Task) -> CausalGraph:
        if task.graph is not None:
            return model_view.as_graph(task.graph, task.schema.names)
        if not self.weights.soft:
            return CausalGraph(task.schema.names)
        return discover(task.train, task.schema, alpha=self.alpha, n_effective=self.n_effective)

    def _identity(self, training: Training) -> str:
        """A fingerprint of all that a training depends on, so that its checkpoint is never taken for another's."""
        rows = [training.train.x, training.train.y_target, training.validation.x, training.validation.y_target]
        rules = [rule.text for rule in self.task_.rules]
        classifier = list(training.objective.classifier.state_dict().values())
        return fingerprint(self._settings(), rows, rules, classifier, self.graph_.to_dict())

    # Explaining

    @overload
    def explain(self, rows: str | Path, k: int = 1, **wishes: Any) -> Streamed: ...

    @overload
    def explain(self, rows: pd.DataFrame, k: int = 1, **wishes: Any) -> Explanation: ...

    def explain(
        self,
        rows: pd.DataFrame | str | Path,
        k: int = 1,
        *,
        prefer: str | None = None,
        budget: Budget | Mapping[str, Any] | int | None = None,
        overrides: pd.DataFrame | None = None,
        why_not: bool = False,
        weights: Mapping[str, float] | None = None,
        difficulty: Mapping[str, float] | None = None,
        draws: int = DRAWS,
        best_effort: bool = False,
        out: str | Path | None = None,
        **streaming: Any,
    ) -> Explanation | Streamed:
        """At most `k` verified counterfactuals for each row that does not have the class wanted.

        Rows are neither changed nor reordered; an answer depends on its row, the model, the rules and the seed, never
        on the rows beside it. A row without an answer says whether that is proved (`impossible`) or not (`not_found`).

        rows: a table. Or the path of a parquet or CSV file: then the answers go to the parquet file `out`, some rows at
            a time, and a run that was cut off goes on where it stopped; `chunk`, `overwrite` and `on_chunk` are as for
            `streaming.stream`.
        prefer: "fewest" (changes, however large), "sparse" (few changes, none of them large), "balanced", or
            "plausible" (like rows that there are).
        budget: what may be spent on each row: how often a model that is no network is asked, 1,000 times by default,
            or `Budget(calls=..., seconds=...)`. A row that spent it keeps the best answer verified so far.
        overrides: what holds for single rows: a table with some of the rows' labels as its index and the columns
            `freeze`, `target`, `rules`, `difficulty`, or a feature's name for what is allowed there.
        why_not: say of rows without an answer what stands in the way, and what would help.
        weights: what each part of the cost counts for, in place of the preference's.
        difficulty: what changing a feature costs in comparison with others, 1 by default.
        draws: proposals of the network for each row. With 1, a row whose only draw passes gets it as it is: fast.
        best_effort: give rows without an answer what came nearest, marked as such.

        FCx as published has no search and none of these choices: it draws `k` times, and hands out every draw.
        """
        self._fitted()
        chosen = Wishes(k, prefer or self.prefer, as_budget(budget), weights, difficulty, draws, why_not, best_effort)
        if isinstance(rows, str | Path):
            return self._streamed(Path(rows), out, chosen, overrides, streaming)
        if out is not None or streaming:
            raise DataError("out and the settings of streaming need a file of rows; a table's answers have to_parquet")
        return self._explained(rows, chosen, overrides)

    def _explained(self, rows: pd.DataFrame, wishes: Wishes, overrides: pd.DataFrame | None) -> Explanation:
        if self.search:
            return self._answering().answers(rows, wishes, overrides)
        refuse_wishes(wishes, Wishes(wishes.k, self.prefer), overrides)
        return drawn_answers(self.model_, self.stand_in_, self.task_, rows, k=wishes.k, seed=self.seed)

    def _streamed(
        self,
        source: Path,
        out: str | Path | None,
        wishes: Wishes,
        overrides: pd.DataFrame | None,
        settings: dict[str, Any],
    ) -> Streamed:
        if out is None:
            raise DataError("", [Fault("out", "is not given", "Name the parquet file for the answers: out=...")])

        def explain(rows: pd.DataFrame) -> Explanation:
            some = None if overrides is None else overrides[overrides.index.isin(rows.index)]
            return self._explained(rows, wishes, some)

        asked = [repr(wishes), "" if overrides is None else overrides.to_csv()]
        rules = [rule.text for rule in self.task_.rules]
        weights = list(self.model_.state_dict().values())
        identity = fingerprint(self._settings(), rules, asked, model_id(self.task_), weights)
        return stream(explain, source, out, task=self.task_, identity=identity, **settings)

    def _answering(self) -> Answering:
        """The search and all that it needs, made once for a fitted state."""
        state = (self.model_, self.task_, self.stand_in_, self.graph_, self.seed)
        kept = self.__dict__.get("_kept")
        if kept is None or any(a is not b for a, b in zip(kept[0], state, strict=True)):
            made = Answering(self.model_, self.task_, self.stand_in_, self.graph_, seed=self.seed)
            kept = self.__dict__["_kept"] = (state, made)
        answering: Answering = kept[1]
        return answering

    # Keeping

    def save(self, folder: str | Path, *, overwrite: bool = False, source: Mapping[str, Any] | None = None) -> None:
        """Write everything that `load` needs to a folder, whole or not at all.

        The classifier is written only if `train_classifier` made it and it is a network. Up to 50,000 training rows
        are: do not give the folder to people who may not see them. `source` is plain data of your own (where the
        table came from, say); after `load` it is in `source_`.
        """
        self._fitted()
        task, tensors = task_content(self.task_)
        layers, stand_in = stand_in_content(self.stand_in_)
        content = {
            "settings": self._settings(),
            "task": task,
            "graph": self.graph_.to_dict(),
            "history": self.history_.to_list(),
            "stand_in": layers,
            "source": self.source_ if source is None else dict(source),
        }
        weights = {f"model.{name}": tensor for name, tensor in self.model_.state_dict().items()}
        write(folder, KIND, content, tensors | stand_in | weights, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | Path, classifier: Any = None, *, any_classifier: bool = False) -> FCx:
        """An explainer from a folder. Nothing in it is executed, and anything altered is a `FormatError`.

        classifier: the model, if it is your own. One that answers otherwise than the one fitted to is refused
            unless `any_classifier` is true.
        """
        saved = read(folder, KIND)
        try:
            return cls._restored(saved, classifier, any_classifier)
        except (ClassifierError, FormatError) as error:
            raise type(error)(f"{folder}: {error}") from error
        except (FcxError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
            # The seal of the manifest holds, so that somebody has written what we never do.
            problem = f"{folder}: the manifest does not describe an explainer ({type(error).__name__}: {error})"
            raise FormatError(f"{problem}. Save the model again.") from error

    @classmethod
    def _restored(cls, saved: Saved, classifier: Any, any_classifier: bool) -> FCx:
        content, tensors = saved.content, saved.tensors
        settings = content["settings"]
        parts = {name: part(**_tuples(settings[name])) for name, part in PARTS.items()}
        plain = {name: settings[name] for name in PARAMETERS if name not in PARTS}
        fcx = cls(**parts, **plain)
        fcx.graph_ = CausalGraph.from_dict(content["graph"])
        fcx.task_ = restored_task(content["task"], tensors, classifier, fcx.graph_, any_classifier=any_classifier)
        fcx.stand_in_ = restored_stand_in(content["stand_in"], tensors, fcx.task_)
        fcx.history_, fcx.source_ = History.from_list(content["history"]), dict(content["source"])
        fcx.model_ = fcx._restored_model(below(tensors, "model."))
        return fcx

    def _restored_model(self, weights: dict[str, Tensor]) -> ConditionalVAE:
        shape = model_view.layout(self.task_)
        # Before anything is built: a manifest may declare any size.
        expected = weight_shapes(shape, self.architecture)
        if {name: tuple(tensor.shape) for name, tensor in weights.items()} != expected:
            raise FormatError("the weights do not have the shapes of the architecture that the manifest names")
        model = ConditionalVAE(shape, self.architecture, torch.Generator().manual_seed(self.seed))
        model.to(self.task_.encoder.dtype_).load_state_dict(weights)
        return model.eval()

    def _settings(self) -> dict[str, Any]:
        found = self.get_params(deep=False)
        return found | {name: asdict(found[name]) for name in PARTS}

    def _fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFittedError("this FCx is not fitted yet; call fit(task) first, or FCx.load(folder)")


PARTS: dict[str, type[Any]] = {
    "architecture": Architecture,
    "weights": Weights,
    "terms": TermSettings,
    "schedule": Schedule,
}
PARAMETERS = (*PARTS, "hard", "alpha", "n_effective", "search", "prefer", "seed", "device")


def _device_faults(device: object) -> list[Fault]:
    try:
        torch.empty(0, device=torch.device(str(device)))
    except (RuntimeError, AssertionError) as error:
        return [Fault(f"device {device!r}", f"cannot be used ({str(error).splitlines()[0]})", "Give cpu, or cuda.")]
    return []


def _tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they were before JSON made lists of tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
