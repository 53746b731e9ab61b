"""FCx: fit a generator of counterfactuals to a task, explain rows and files, save and load."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from functools import lru_cache, partial
from inspect import signature
from operator import is_not
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import pandas as pd

from .causal import CausalGraph, as_graph, discover
from .classifier.named import is_onnx
from .errors import (
    ClassifierError,
    DataError,
    Fault,
    FcxWarning,
    FormatError,
    NotFittedError,
    between,
    did_you_mean,
    one_of,
    refuse,
    unknown,
    whole,
)
from .explanation import Explanation
from .explanation.certificate import model_id
from .generator import presets
from .generator.settings import Architecture, Hard, LossWeights, TermSettings, refuse_frozen
from .hashing import fingerprint
from .options import DRAWS, Options, answered, answered_apart, with_unreadable
from .outcome import as_target, checked_probability
from .overrides import as_table
from .progress import EXPLAINING, OnProgress, Progress, ProgressLines, both, no_progress
from .saving.explainer import PARAMETERS, PARTS, Fitted, read_fitted, settings_data, write_fitted
from .search import ORACLES, PREFERENCES, UNPROVED, Budget, CostWeights, Search, as_budget, imitation_of
from .streaming import (
    OnCluster,
    Partition,
    SliceReader,
    Streamed,
    WorkerJob,
    check_engine,
    explain_partition,
    matched,
    stream,
)
from .task import Task, refuse_all_but_a_task
from .text import Glance, counted
from .training_loop import History, Schedule

if TYPE_CHECKING:
    # The generator is loaded only where it is trained or used: it needs torch.
    from .classifier import Differentiable
    from .classifier.imitation import ImitatingTrees
    from .generator.cvae import ConditionalVAE
    from .generator.training import Callback, Training

    BaseEstimator = object  # scikit-learn has no types
else:
    from sklearn.base import BaseEstimator

# Model queries for each row that the generator learns from, if the model could not be read.
TAUGHT_BY = 8


class FCx(BaseEstimator):
    """Verified counterfactuals for any classifier, by a search and a conditional variational autoencoder.

    The generator is trained with the paper's seven loss terms, and to imitate answers of the search. Its draws are
    candidates of the search. `explain` returns only counterfactuals that the model, the rules and the schema
    confirm. FCx is a scikit-learn estimator: `fit` checks the parameters, and `get_params`, `set_params` and `clone`
    work, also on nested settings: `set_params(architecture__latent=5, loss_weights__density=0)`.

    Parameters
    ----------
    generator : bool, default=True
        Whether `fit` trains a generator. Without one, `fit` takes a second or two and `explain` uses the search alone;
        the parameters of the generator (`architecture` to `hard`, `device`) must then keep their defaults.
    architecture : Architecture
        The network.
    loss_weights : LossWeights
        The weight of each loss term.
    terms : TermSettings
        Settings inside the loss terms.
    schedule : Schedule
        Epochs, batch size, learning rate and stopping.
    hard : {"layer", "rules", "hinge"}, default="layer"
        How rules act in training. "layer" maps the network's outputs into the feasible region and penalises what is
        left; "rules" makes every rule a penalty with a margin; "hinge" uses the paper's two penalties.
    significance : float, default=0.01
        Significance level for causal discovery (see `discover`), if the task has no graph.
    n_effective : int or None, default=5000
        The maximum sample size that its tests assume; None for all rows.
    search : bool, default=True
        Whether `explain` searches for verified answers. Without it, every draw is returned, as in the paper.
    prefer : {"fewest", "sparse", "balanced", "plausible"}, default="balanced"
        The default preference of `explain`; see there.
    oracle : {"auto", "model"}, default="auto"
        What the search queries. "auto" uses the model's own trees or weights or, if they cannot be read, an imitation
        that `fit` learns from at most 36,000 of its answers, and checks the best candidates with the model itself.
        "model" queries the model itself about every candidate.
    seed : int, default=0
        The same seed gives the same model and the same answers.
    device : str, default="cpu"
        Where the network is trained, e.g. "cpu" or "cuda".

    Attributes
    ----------
    task_ : Task
        The task it was fitted to.
    model_ : ConditionalVAE or None
        The generator; None without one.
    history_ : History
        The losses of every epoch; empty without a generator.
    graph_ : CausalGraph
        The causal graph used in training and in checking answers.
    surrogate_ : Differentiable or None
        A differentiable copy of the classifier; None without a generator.
    source_ : dict
        The `source` that was saved with it.

    Examples
    --------
    >>> from fcxplain import FCx, Task, load_dataset, train_classifier
    >>> data = load_dataset("adult", rows=2000)
    >>> task = Task(data.train, train_classifier(data), schema=data.schema, rules="age' >= age", target=1)
    ... # doctest: +SKIP
    >>> fcx = FCx(seed=0).fit(task)  # doctest: +SKIP
    >>> fcx.explain(data.test).frame  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        generator: bool = True,
        architecture: Architecture = presets.ARCHITECTURE,
        loss_weights: LossWeights = presets.WEIGHTS,
        terms: TermSettings = presets.TERMS,
        schedule: Schedule = presets.SCHEDULE,
        hard: Hard = "layer",
        significance: float = 0.01,
        n_effective: int | None = 5_000,
        search: bool = True,
        prefer: str = "balanced",
        oracle: str = "auto",
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.generator = generator
        self.architecture, self.loss_weights, self.terms, self.schedule = architecture, loss_weights, terms, schedule
        self.hard, self.significance, self.n_effective = hard, significance, n_effective
        self.search, self.prefer, self.oracle, self.seed, self.device = search, prefer, oracle, seed, device

    @classmethod
    def as_published(
        cls,
        constraint: presets.Constraint = "unary",
        dataset: str = presets.PUBLISHED_DATASET,
        seed: int = 0,
        *,
        weights: presets.Preset = "tuned",
        learning_rate: presets.Rate | None = None,
    ) -> FCx:
        """The paper's method with its settings for one of its data sets; the rules come from the task.

        Parameters
        ----------
        constraint : {"unary", "binary"}, default="unary"
            One of the paper's two models.
        dataset : str, default="adult"
            The data set whose settings to use.
        seed : int, default=0
            The seed of the training and of the draws.
        weights : {"tuned", "authors"}, default="tuned"
            The paper does not state its loss weights. "tuned": ours, one set for all data sets. "authors": those of the
            authors' notebooks, with their units, their mean KL, 50 draws per row and step, weight decay, sum-to-one
            term, latent size, epochs and learning rate. Their Census model is `train_classifier(data, "balanced")`.
        learning_rate : float or "paper", optional
            By default that of the authors' code; "paper" uses the values in the paper (0.1 and 0.2).

        Returns
        -------
        FCx
            Not fitted, without search.

        Raises
        ------
        DataError
            If the constraint, the data set or the weights are unknown.
        """
        return cls(**presets.as_published(constraint, dataset, weights, learning_rate), seed=seed)

    def __repr__(self) -> str:
        return self._glance().text()

    def _repr_html_(self) -> str:
        return self._glance().html()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        # In notebooks scikit-learn's own diagram would come first.
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _glance(self) -> Glance:
        if faults := self._part_faults():
            return Glance("FCx(not fitted)", notes=tuple(map(str, faults)))
        shape, schedule, kind = self.architecture, self.schedule, "no generator"
        if self.generator:
            kind = f"latent {shape.latent}, {schedule.epochs} epochs at {schedule.learning_rate:g}"
        if not hasattr(self, "task_"):
            return Glance(f"FCx(not fitted, {kind}, seed {self.seed})")
        task, graph = self.task_, self.graph_
        facts = (
            ("fitted to", task.about),
            ("wanted", f"{task.outcome_words} from {task.classifier.name}"),
            ("rules", f"{len(task.rules):,}" if task.rules else "none"),
            ("causal graph", counted(len(graph.directed) + len(graph.undirected), "edge")),
            *((("training", self.history_.summary),) if self.history_.epochs else ()),
            ("answers", f"by search, {self.prefer} by default" if self.search else "drawn, as published"),
        )
        return Glance(f"FCx(fitted, {kind}, seed {self.seed})", facts=facts)

    # Parameters, as in scikit-learn

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters.

        Parameters
        ----------
        deep : bool, default=True
            Include nested settings, as `part__name`.

        Returns
        -------
        dict
            Values by name.
        """
        found = {name: getattr(self, name) for name in PARAMETERS}
        if deep:
            parts = {name: value for name, value in found.items() if is_dataclass(value)}
            found |= {f"{n}__{f.name}": getattr(v, f.name) for n, v in parts.items() for f in fields(v)}
        return found

    def set_params(self, **params: Any) -> Self:
        """Change parameters, or nested settings by `part__name`.

        Parameters
        ----------
        **params
            New values by name, e.g. `prefer="sparse", schedule__epochs=10`.

        Returns
        -------
        FCx
            Itself.

        Raises
        ------
        DataError
            If a name is unknown; the nearest one is suggested.
        TrainingError
            If a nested setting is invalid.
        """
        if faults := unknown("parameter", params, self.get_params()):
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
        *others: object,
        validation: pd.DataFrame | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | Path | None = None,
        progress: bool = False,
    ) -> Self:
        """Train the generator on the training rows that do not get the desired outcome.

        Without a generator, only discover a causal graph. A fit that fails or is interrupted leaves the explainer
        unchanged.

        Parameters
        ----------
        task : Task
            The table, the model, the rules and the target.
        *others
            Not accepted: rows and labels, as other estimators take them, belong in a `Task`.
        validation : DataFrame, optional
            Rows that decide which epoch is best; by default a tenth of the refused training rows.
        callbacks : iterable of Callback
            Their methods (`on_train_begin`, `on_epoch_end`, ...) are called with the `Training`, whose `epoch`,
            `schedule` and `history` they may read.
        checkpoint : str or Path, optional
            A folder for the state of the training. An interrupted fit resumes from it, with exactly the result of an
            uninterrupted one.
        progress : bool, default=False
            Print progress on standard error, one line every few seconds.

        Returns
        -------
        FCx
            Itself.

        Raises
        ------
        TrainingError
            If parameters are invalid (all are listed), or the training diverges.
        DataError
            If this is not a task, or no feature may change.
        FormatError
            If the checkpoint is damaged or belongs to another fit.
        """
        refuse_all_but_a_task(task, *others)
        callbacks = tuple(callbacks)
        self._check({"validation": validation is not None, "callbacks": callbacks, "checkpoint": checkpoint})
        lines, learns = ProgressLines("fit"), self.generator and self._can_learn(task)
        if progress:
            causes = "discovering causes"
            lines.say("preparing: rows that the model refuses, its gradients, the causal graph" if learns else causes)
        refuse_frozen(task)
        graph, imitation = self._graph(task), self._imitated(task)
        if not learns:
            self._learnt(task, graph, imitation)
            return self
        from .generator.training import TrainingLines

        callbacks = (*callbacks, TrainingLines(lines)) if progress else callbacks
        surrogate = self._surrogate(task)
        training = self._training(task, surrogate, graph, validation, callbacks, imitation)
        if checkpoint is not None:
            from .saving.checkpoint import Checkpoint, resume

            identity = self._identity(task, graph, training)
            training.callbacks += (Checkpoint(checkpoint, identity=identity),)
            resume(training, checkpoint, identity)
        history = training.run()
        self._learnt(task, graph, imitation, surrogate, training.model.to("cpu"), history)
        return self

    def _learnt(
        self,
        task: Task,
        graph: CausalGraph,
        imitation: ImitatingTrees | None,
        surrogate: Differentiable | None = None,
        model: ConditionalVAE | None = None,
        history: History | None = None,
        source: Mapping[str, Any] | None = None,
    ) -> None:
        """Store the result, all at once and last: a fit that fails or is interrupted leaves everything unchanged."""
        self._imitation = imitation
        self.task_, self.graph_, self.surrogate_, self.model_ = task, graph, surrogate, model
        self.history_, self.source_ = history or History(), dict(source or {})

    def _can_learn(self, task: Task) -> bool:
        """Whether all rows have the same target; warns if a range relative to each row's output rules that out."""
        if task.classes or task.target.change is None:
            return True
        if not self.search:
            refuse("this task", [Fault("search=False", "leaves no source of answers", "Set search=True.")])
        reason = f"the target range {task.target} differs from row to row, so no generator is trained"
        remedy = "the search alone finds the answers; only quick=True needs a generator"
        warnings.warn(f"{reason}: {remedy}", FcxWarning, stacklevel=3)
        return False

    def _imitated(self, task: Task) -> ImitatingTrees | None:
        """The imitation that is searched in place of a model that cannot be read."""
        return imitation_of(task, seed=self.seed) if self.search and self.oracle == "auto" else None

    def _check(self, given: Mapping[str, object]) -> None:
        """Refuse invalid parameters, all at once, before any work; `given` are those of `fit`."""
        stray = [] if self.generator else [_needs_generator(name) for name, value in given.items() if value]
        refuse("these parameters", self._faults(), stray, _device_faults(self.device) if self.generator else [])

    def _faults(self) -> list[Fault]:
        """What is wrong with the parameters, on any machine."""
        parts = self._part_faults()
        return [
            *one_of("generator", self.generator, (True, False)),
            *([] if self.generator else self._generator_faults()),
            *parts,
            *one_of("hard", self.hard, get_args(Hard)),
            *([] if parts else self._gate_faults()),
            *between("significance", self.significance, 0, 1, open_low=True),
            *([] if self.n_effective is None else whole("n_effective", self.n_effective, 1)),
            *one_of("search", self.search, (True, False)),
            *one_of("prefer", self.prefer, tuple(PREFERENCES)),
            *one_of("oracle", self.oracle, ORACLES),
            *whole("seed", self.seed, 0),
        ]

    def _part_faults(self) -> list[Fault]:
        """Parts of the wrong type."""
        return [
            Fault(name, f"is a {type(getattr(self, name)).__name__}", f"Give a {part.__name__}.")
            for name, part in PARTS.items()
            if not isinstance(getattr(self, name), part)
        ]

    def _generator_faults(self) -> list[Fault]:
        """Parameters of the generator that were set although there is none."""
        usual: dict[str, Any] = {name: p.default for name, p in signature(type(self)).parameters.items()}
        chosen = (*PARTS, "hard", "device")
        faults = [_needs_generator(name) for name in chosen if getattr(self, name) != usual[name]]
        if not self.search:
            remedy = "Set search=True, or generator=True."
            faults.append(Fault("search=False", "leaves no source of answers without a generator", remedy))
        return faults

    def _gate_faults(self) -> list[Fault]:
        """Settings that need a network with gates."""
        if self.architecture.gates:
            return []
        needs = {"hard='layer'": self.hard == "layer", "sparsity='gates'": self.terms.sparsity == "gates"}
        remedy = "Set architecture__gates=True, or choose another."
        return [Fault(name, "needs a network with gates", remedy) for name, wanted in needs.items() if wanted]

    def training(self, task: Task, *, validation: pd.DataFrame | None = None) -> Training:
        """The training run of `fit`, ready to start.

        Parameters
        ----------
        task : Task
            As for `fit`.
        validation : DataFrame, optional
            As for `fit`.

        Returns
        -------
        Training
            Start it with `run()`.
        """
        if not self.generator:
            refuse("this explainer", [_needs_generator("training")])
        return self._training(task, self._surrogate(task), self._graph(task), validation, (), self._imitated(task))

    def _surrogate(self, task: Task) -> Differentiable:
        """A differentiable copy of the model or, for a regressor, of whether its output is in the target range."""
        from .classifier import differentiable
        from .generator.view import shares_met

        reading = None if task.classes else partial(shares_met, task)
        return differentiable(task.classifier, task, seed=self.seed, reading=reading)

    def _training(
        self,
        task: Task,
        surrogate: Differentiable,
        graph: CausalGraph,
        validation: pd.DataFrame | None,
        callbacks: Iterable[Callback],
        imitation: ImitatingTrees | None,
    ) -> Training:
        import torch

        from .generator import view
        from .generator.cvae import ConditionalVAE
        from .generator.training import Training

        boxes = view.RuleBoxes(task) if self.hard == "layer" else None
        explain = self._teacher(task, surrogate, graph, imitation)
        table = view.taught_rows(task, self.seed) if self.loss_weights.imitation else task.train
        rows = view.refused_rows(task, table, boxes, explain)
        held = None if validation is None else view.refused_rows(task, validation, boxes)
        train, held = view.parted(rows, self.seed) if held is None else (rows, held)
        objective = view.objective(task, surrogate.module, graph, self.hard, self.loss_weights, self.terms)
        generator = torch.Generator().manual_seed(self.seed)
        model = ConditionalVAE(view.layout(task), self.architecture, generator).to(task.encoder.dtype_)
        return Training(model.to(self.device), objective, train, held, self.schedule, generator, callbacks)

    def _teacher(
        self, task: Task, surrogate: Differentiable, graph: CausalGraph, imitation: ImitatingTrees | None
    ) -> Callable[[pd.DataFrame], Explanation] | None:
        """A search that the generator learns from, if it does and the search needs few queries of the user's model."""
        if not (self.search and self.loss_weights.imitation and self.architecture.gates):
            return None
        search = Search(
            task,
            prefer=self.prefer,
            budget=TAUGHT_BY,
            seed=self.seed,
            surrogate=surrogate if task.classes else None,
            graph=graph,
            imitation=imitation,
        )
        return partial(search.explain, depth=UNPROVED) if search.context.oracle.cheap else None

    def _graph(self, task: Task) -> CausalGraph:
        if task.graph is not None:
            return as_graph(task.graph, task.schema.names)
        if self.generator and not self.loss_weights.soft:
            return CausalGraph(task.schema.names)
        train = task.encoder.filled(task.schema.natural(task.train))
        return discover(train, task.schema, significance=self.significance, n_effective=self.n_effective)

    def _identity(self, task: Task, graph: CausalGraph, training: Training) -> str:
        """A fingerprint of everything that a training depends on, so that it never resumes another's checkpoint."""
        rows = [training.train.x, training.train.y_target, training.validation.x, training.validation.y_target]
        rules = [rule.text for rule in task.rules]
        rows += [part.answers for part in (training.train, training.validation) if part.answers is not None]
        classifier = list(training.objective.classifier.state_dict().values())
        return fingerprint(self._settings(), rows, rules, classifier, graph.to_dict())

    # Explaining

    def explain(
        self,
        rows: pd.DataFrame,
        k: int = 1,
        *,
        target: Any = None,
        target_probability: float | None = None,
        prefer: str | None = None,
        budget: Budget | Mapping[str, Any] | int | None = None,
        overrides: pd.DataFrame | Mapping[Any, Mapping[str, Any]] | None = None,
        why_not: bool | Literal["all"] = False,
        cost: CostWeights | Mapping[str, float] | None = None,
        difficulty: Mapping[str, float] | None = None,
        draws: int | None = None,
        quick: bool = False,
        best_effort: bool = False,
        strict: bool = False,
        on_progress: OnProgress = no_progress,
        progress: bool = False,
    ) -> Explanation:
        """Find up to `k` verified counterfactuals for each row that does not have the desired outcome.

        An answer depends on its row, the model, the rules and the seed, never on other rows. For a row without an
        answer, the status says whether that is proved (`impossible`) or not (`not_found`). FCx as published has no
        search: it draws `k` times per row and returns every draw.

        Parameters
        ----------
        rows : DataFrame
            The rows to explain. For files, use `explain_file`.
        k : int, default=1
            The maximum number of answers per row; all are different.
        target : optional
            The desired outcome, in place of the task's: a class, a list of classes, or for a regressor a range such as
            ">= 700"; see `Task`. A target in `overrides` takes precedence.
        target_probability : float, optional
            The minimum probability of the desired outcome, in place of the task's.
        prefer : {"fewest", "sparse", "balanced", "plausible"}, optional
            Which answers to prefer: those with the fewest changes, however large; with few and small changes; balanced;
            or close to real rows. By default that of the constructor.
        budget : Budget, mapping or int, optional
            The limit per row: the number of queries of a model that is not a network, 1,000 by default, or
            `Budget(calls=..., seconds=...)`. A row that exhausts it keeps the best answer verified so far.
        overrides : DataFrame or mapping, optional
            Settings for single rows: a table indexed by row labels with the columns `freeze`, `target`, `rules`,
            `difficulty`, or a feature's name for the values allowed there. Or a mapping by label, e.g.
            `{"C102632": {"freeze": "job", "income": "2000..3000"}}`.
        why_not : bool or "all", default=False
            For rows without an answer, find the rules and bounds that block them and the smallest relaxation that would
            help. Immutable and frozen features are never named unless this is "all".
        cost : CostWeights or mapping, optional
            The weight of each part of the cost, in place of the preference's.
        difficulty : mapping, optional
            The relative cost of changing each feature; 1 by default.
        draws : int, optional
            Candidates that the generator draws for each row; 16 by default. With 1, a row whose only draw passes gets
            that draw unchanged.
        quick : bool, default=False
            Answer in one pass, many times faster than a search: the draws of a row are ranked by the model's own trees
            or weights, or an imitation, and at most two are checked with the model itself. Only rows without a valid
            draw are searched. Needs the generator; with `k` above 1, all rows are searched.
        best_effort : bool, default=False
            Give rows without an answer the nearest candidate, marked `best_effort`.
        strict : bool, default=False
            Raise an error if any row cannot be read, listing every fault. By default such rows are `unreadable`, with
            the reason, and do not affect the others.
        on_progress : callable, optional
            Called with a `Progress`: the rows `done` and the `total`. With `why_not`, a row without an answer is done
            when its reason is known; finding reasons is a `stage` of its own, which counts the rows without an answer.
        progress : bool, default=False
            Print progress on standard error, one line every few seconds.

        Returns
        -------
        Explanation
            The answers with their certificates, and the status of each row.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        SchemaError
            If a column is missing or, with `strict`, a row does not fit the schema; every fault is listed.
        DataError
            If an option or an override is invalid.
        ClassifierError
            If the model fails on every row.

        Examples
        --------
        >>> answers = fcx.explain(rows, k=3, prefer="sparse", why_not=True)  # doctest: +SKIP
        >>> answers.frame  # doctest: +SKIP
        """
        asked = (prefer, budget, why_not, cost, difficulty, draws, quick, best_effort, target, target_probability)
        options = self._options(k, *asked)
        if isinstance(rows, str | Path):
            remedy = 'Use explain_file(rows, "answers.parquet"), or read the file first.'
            raise DataError("explain", [Fault(f"rows {str(rows)!r}", "is a path, not a table", remedy)])
        if progress:
            on_progress = both(ProgressLines("explain").tell, on_progress)
        own = None if overrides is None else as_table(overrides)
        if strict:
            self.task_.schema.checked(rows)
        if self.model_ is not None and self.surrogate_ is not None and not self.search:
            from .generator.draws import drawn_answers

            options.refuse_without_search(self.prefer, own)
            draw = partial(drawn_answers, self.model_, self.surrogate_, self.task_, k=k, seed=self.seed)
            drawn = with_unreadable(self.task_, rows, draw)
            on_progress(Progress(EXPLAINING, len(rows), len(rows)))
            return drawn
        if own is None:
            return answered(self._search(options), rows, options, on_progress)
        return answered_apart(self._search(options), rows, options, own, on_progress)

    def explain_file(
        self,
        source: str | Path,
        out: str | Path,
        k: int = 1,
        *,
        overrides: pd.DataFrame | Mapping[Any, Mapping[str, Any]] | None = None,
        index: str | None = None,
        chunk: int | None = None,
        overwrite: bool = False,
        key: bytes | None = None,
        strict: bool = False,
        engine: Literal["dask"] | None = None,
        workers: int | None = None,
        scheduler: str | None = None,
        classifier: str | Path | None = None,
        on_progress: OnProgress = no_progress,
        progress: bool = False,
        **options: Any,
    ) -> Streamed:
        """Explain files of rows into files of answers, in chunks, in this process or on a cluster.

        The answers are those of `explain`. Memory use does not grow with the number of rows, and an interrupted run
        resumes where it stopped. A row that cannot be read is `unreadable`, with the reason; the others are answered.

        Parameters
        ----------
        source : str or Path
            A parquet or CSV file of rows, a folder of such files, a glob (`"rows/*.parquet"`), or any of these at an
            fsspec address (`"s3://..."`). Rows are numbered across all files, in the order of their names.
        out : str or Path
            A folder for the answers (a name without an extension): parquet files and a `manifest.json`, with the same
            bytes however the rows are split into files and whoever explains them. Or one parquet file, which is written
            when all answers are complete; until then the parts are in the folder `<out>.parts`.
        k : int, default=1
            The maximum number of answers per row.
        overrides : DataFrame or mapping, optional
            Settings for single rows; see `explain`.
        index : str, optional
            The column with the row labels, such as an identifier. By default the file's own index, or the row number.
        chunk : int, optional
            Rows that are answered and saved together, and rows per file of a folder; 20,000, or 1,000 if the model is
            not a network and answers go to one file.
        overwrite : bool, default=False
            Discard what an earlier run has left.
        key : bytes, optional
            Secret bytes for the digest of the file; see `Explanation.to_parquet`.
        strict : bool, default=False
            Check every row against the schema before the first is explained, and refuse the file if one does not fit.
        engine : {"dask"}, optional
            Explain on the workers of a Dask cluster. They load the model from the folder that it was saved to.
        workers : int, optional
            With Dask, the number of processes on this machine; by default one per core.
        scheduler : str, optional
            With Dask, the address of a cluster's scheduler, e.g. `"tcp://10.0.0.1:8786"`.
        classifier : str or Path, optional
            With Dask, how workers find your own model: an ONNX file, or `module:attribute` of code that they can
            import. By default as it was loaded. A Python object is never sent.
        on_progress : callable, optional
            Called with a `Progress` for rows that are done, and after each chunk that is saved. Rows that an earlier
            run has answered form a stage of their own, with a note that the run is resumed. Finding reasons is another,
            as in `explain`.
        progress : bool, default=False
            Print progress on standard error, one line every few seconds.
        **options
            `target`, `target_probability`, `prefer`, `budget`, `why_not`, `cost`, `difficulty`, `draws`, `quick` and
            `best_effort`, as in `explain`.

        Returns
        -------
        Streamed
            The place of the answers, the rows per status, and failed partitions; `explanation(task)` reads the answers.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        FileNotFoundError
            If a file of rows does not exist.
        SchemaError
            If a column is missing or, with `strict`, a row does not fit the schema.
        DataError
            If an option or an override is invalid, the answers cannot be written, or the cluster cannot be used.
        ClassifierError
            If workers could not load the model.

        Examples
        --------
        >>> done = fcx.explain_file("rows.parquet", "answers.parquet", prefer="sparse")  # doctest: +SKIP
        >>> done = fcx.explain_file("rows/*.parquet", "answers", engine="dask", workers=2)  # doctest: +SKIP
        >>> done.counts  # doctest: +SKIP
        """
        asked = self._options(k, **options)
        if progress:
            on_progress = both(ProgressLines("explain").tell, on_progress)
        table = None if overrides is None else as_table(overrides)
        own = None if table is None else matched(table, source, self.task_, index)
        mapped = None
        if engine is not None or workers is not None or scheduler is not None or classifier is not None:
            check_engine(engine, workers, scheduler)
            folder, name = self._for_workers(classifier)
            job = WorkerJob(folder, name, self._fingerprint(), index, strict, k, options, own)
            mapped = OnCluster(explain_on_worker, job.to_json(), workers, scheduler)
        return stream(
            partial(_part_answers, self, k, own, options),
            source,
            out,
            task=self.task_,
            identity=fingerprint(self._fingerprint(), repr(asked), "" if table is None else table.to_csv()),
            chunk=chunk,
            overwrite=overwrite,
            index=index,
            key=key,
            strict=strict,
            on_progress=on_progress,
            options=asdict(asked) | {"index": index, "strict": strict, "overrides": table is not None},
            mapped=mapped,
        )

    def _fingerprint(self) -> str:
        """A fingerprint of the explainer: its settings, rules, model and weights."""
        weights = [] if self.model_ is None else list(self.model_.state_dict().values())
        return fingerprint(self._settings(), [rule.text for rule in self.task_.rules], model_id(self.task_), weights)

    def _for_workers(self, classifier: str | Path | None) -> tuple[str, str | None]:
        """The folder and the classifier that workers load; loaded here first, before any worker starts."""
        folder, given = self.__dict__.get("_home", (None, None))
        given = given if classifier is None else classifier
        if folder is None:
            problem, remedy = "is in memory only; workers load it from a folder", "Save it first: fcx.save(folder)."
            raise DataError("engine='dask'", [Fault("this explainer", problem, remedy)])
        remedy = 'Pass classifier="module:attribute" of code that workers can import, or "model.onnx".'
        if not isinstance(given, str | Path | None):
            problem = f"is a {type(given).__name__} in memory, which cannot be sent to workers"
            raise ClassifierError("engine='dask'", [Fault("classifier", problem, remedy)])
        name = str(Path(given).expanduser().absolute()) if given is not None and is_onnx(str(given)) else given
        try:
            again = FCx.load(folder, None if name is None else str(name))
        except ClassifierError as error:
            raise ClassifierError(f"workers could not load the model. {remedy} The error was: {error}") from error
        if again._fingerprint() != self._fingerprint():
            problem, remedy = "holds a different model", "Save this one again: fcx.save(folder)."
            raise DataError("engine='dask'", [Fault(str(folder), problem, remedy)])
        return str(folder), None if name is None else str(name)

    def _options(
        self,
        k: int,
        prefer: str | None = None,
        budget: Budget | Mapping[str, Any] | int | None = None,
        why_not: bool | Literal["all"] = False,
        cost: CostWeights | Mapping[str, float] | None = None,
        difficulty: Mapping[str, float] | None = None,
        draws: int | None = None,
        quick: bool = False,
        best_effort: bool = False,
        target: Any = None,
        target_probability: float | None = None,
        **others: Any,
    ) -> Options:
        """The options of `explain`, checked."""
        if others:
            known = [f.name for f in fields(Options)]
            said = (f"{name!r}. {did_you_mean(name, known)}".rstrip() for name in others)
            raise TypeError(f"FCx.explain_file has no parameter {' '.join(said)}")
        self._fitted()
        if self.model_ is None and (draws or quick):
            raise DataError("explain", [_needs_generator(f"draws={draws}" if draws else "quick=True")])
        n_draws = (0 if self.model_ is None else DRAWS) if draws is None else draws
        chosen, budget = prefer or self.prefer, as_budget(budget)
        wanted = None if target is None else as_target(target, self.task_.classes)
        least = checked_probability(target_probability, self.task_.classes)
        return Options(k, chosen, budget, cost, difficulty, n_draws, quick, why_not, best_effort, wanted, least)

    def _search(self, options: Options) -> Search:
        """The search for these options. The last one is reused: building it takes longer than answering one row."""
        state = (self.model_, self.task_, self.surrogate_, self.graph_)
        kept = self.__dict__.get("_kept")
        if kept is None or any(map(is_not, kept[0], state)) or kept[1] != (self.seed, options.key):
            draws = None
            if self.model_ is not None:
                from .generator.draws import Proposer

                draws = Proposer(self.model_, self.task_, seed=self.seed).draws
            made = Search(
                self.task_.relaxed(target=options.target, target_probability=options.target_probability),
                prefer=options.prefer,
                weights=options.cost,
                difficulty=options.difficulty,
                budget=options.budget,
                draws=draws,
                n_draws=options.draws,
                quick=options.quick,
                seed=self.seed,
                # A regressor's surrogate knows only the range that it was trained for.
                surrogate=self.surrogate_ if self.task_.classes else None,
                graph=self.graph_,
                oracle=self.oracle,
                imitation=self._imitation,
            )
            kept = self.__dict__["_kept"] = (state, (self.seed, options.key), made)
        search: Search = kept[2]
        return search

    # Saving

    def save(self, folder: str | Path, *, overwrite: bool = False, source: Mapping[str, Any] | None = None) -> None:
        """Write everything that `load` needs to a folder, completely or not at all.

        The classifier is saved only if it is a network made by `train_classifier`. Up to 50,000 training rows are
        saved: do not give the folder to people who may not see them.

        Parameters
        ----------
        folder : str or Path
            The folder to write.
        overwrite : bool, default=False
            Replace an existing model.
        source : mapping, optional
            Your own plain data, such as where the table came from; after `load` it is in `source_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        FormatError
            If the folder cannot be written.
        """
        self._fitted()
        params, kept = self.get_params(deep=False), self.source_ if source is None else source
        learnt = (self.task_, self.graph_, self.surrogate_, self.model_, self.history_)
        write_fitted(Fitted(params, *learnt, kept), folder, overwrite=overwrite)
        self._home = (Path(folder).expanduser().absolute(), None)

    @classmethod
    def load(cls, folder: str | Path, classifier: Any = None, *, any_classifier: bool = False) -> FCx:
        """Load an explainer from a folder. Nothing in the folder is executed.

        Parameters
        ----------
        folder : str or Path
            The folder that `save` wrote.
        classifier : optional
            Your own model, if the explainer was fitted to one.
        any_classifier : bool, default=False
            Accept a model whose answers differ from those of the fitted one.

        Returns
        -------
        FCx
            The explainer as it was saved.

        Raises
        ------
        FileNotFoundError
            If the folder does not exist.
        FormatError
            If files were altered, are missing or damaged.
        ClassifierError
            If your own model must be given, or is a different one.

        Examples
        --------
        >>> fcx.save("model")  # doctest: +SKIP
        >>> again = FCx.load("model")  # doctest: +SKIP
        """
        found = read_fitted(folder, classifier, any_classifier=any_classifier)
        fcx = cls(**found.params)
        if faults := fcx._faults():
            raise FormatError(f"{folder}: the manifest has invalid settings. Save the model again", faults)
        imitation = fcx._imitated(found.task)
        fcx._learnt(found.task, found.graph, imitation, found.surrogate, found.model, found.history, found.source)
        fcx._home = (Path(folder).expanduser().absolute(), classifier)
        return fcx

    def _settings(self) -> dict[str, Any]:
        return settings_data(self.get_params(deep=False))

    def _fitted(self) -> None:
        if not hasattr(self, "task_"):
            raise NotFittedError("this FCx is not fitted yet. Call fit(task) first, or FCx.load(folder)")


# On workers

# A worker explains one partition at a time, whatever its number of threads.
_ALONE = Lock()


def explain_on_worker(partition: str, *, asked: str) -> str:
    """Explain a partition in a worker process; arguments and result are JSON."""
    with _ALONE:
        explain, reader = _prepared(asked)
        return explain_partition(Partition.from_json(partition), explain, reader).to_json()


@lru_cache(maxsize=1)
def _prepared(asked: str) -> tuple[Callable[..., Explanation], SliceReader]:
    """The loaded model's `explain`, and a reader of rows; made once per process."""
    job = WorkerJob.from_json(asked)
    fcx = FCx.load(job.model, job.classifier)
    if fcx._fingerprint() != job.identity:
        problem, remedy = "holds another model on this worker", "Give workers the folder that the run was started with."
        raise DataError("a worker", [Fault(job.model, problem, remedy)])
    reader = SliceReader(fcx.task_, job.index, strict=job.strict)
    return partial(_part_answers, fcx, job.k, job.overrides, job.options), reader


def _part_answers(
    fcx: FCx, k: int, own: pd.DataFrame | None, options: Mapping[str, Any], rows: pd.DataFrame, tell: OnProgress
) -> Explanation:
    here = None if own is None else own[own.index.isin(rows.index)]
    return fcx.explain(rows, k, overrides=here, on_progress=tell, **options)


def _needs_generator(name: str) -> Fault:
    return Fault(
        name, "needs the generator, which is off (generator=False)", "Leave it out, or fit with generator=True."
    )


def _device_faults(device: object) -> list[Fault]:
    import torch

    try:
        torch.empty(0, device=torch.device(str(device)))
    except (RuntimeError, AssertionError) as error:
        return [Fault(f"device {device!r}", f"cannot be used ({str(error).splitlines()[0]})", "Give cpu, or cuda.")]
    return []
