"""Task: a table, a model, rules and a desired outcome, checked together before any work begins."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .classifier import as_classifier
from .classifier.labels import (
    agreement,
    called_otherwise,
    checked_target,
    classes_of,
    is_regression,
    names_read,
    split_label,
)
from .classifier.protocol import CheckedClassifier, Predictions
from .classifier.rows import legal_rows
from .encoding import TableEncoder
from .errors import (
    ClassifierError,
    DataError,
    Fault,
    FcxError,
    FcxWarning,
    RuleError,
    SchemaError,
    did_you_mean,
    raise_all,
    some,
)
from .outcome import Outcome, Outcomes, as_target, checked_probability
from .region.conflict import NO_PRIME, contradiction
from .region.region import Region
from .region.repair import Repairer
from .rules import Rule, RuleSource, in_words, parse_rules, read_rules, rules_grid
from .rules.normal import frozen_names
from .schema import Natural, Schema
from .schema.column import short_float
from .schema.inference import without_ignored
from .schema.schema import named
from .schema.validation import not_a_table, salvaged
from .text import Glance, counted

# Training rows that are enough to see what a model usually answers.
PROBES = 2_000
# Training rows kept with a model, to measure density and to find neighbours.
SAMPLE = 50_000
# Training rows with a missing value that show whether a model accepts them.
GAPS = 16
# A model that gives fewer than this share of training rows the desired outcome deserves a warning.
RARE = 0.001


class Task:
    """The problem that every method solves: a table, a model, rules and a desired outcome, checked together.

    Faults in the rules, the target and the model are reported together; those of a table that does not fit its schema
    come first, since nothing can be checked without it.

    Parameters
    ----------
    train : DataFrame
        The training table. Rows with missing values are kept if the model accepts them; otherwise they are left out,
        with a warning that counts them. `Feature.missing` sets this per feature.
    classifier : estimator, torch module, ONNX session or path, callable, or Classifier
        The model to explain: a scikit-learn estimator or pipeline on raw columns, a torch module on encoded columns, a
        callable from table to probabilities, ...; see `as_classifier`. Regressors too: those with scikit-learn's API
        say so themselves; any other model counts as one if `target` is a range and no classes are given.
    schema : Schema, str or Path, optional
        The features, or the path of a schema file; inferred from the table by default.
    rules : str, Path or iterable of rules
        Text with one rule per line, a list of lines, the `Path` of a file, or parsed rules.
    target : optional
        The desired outcome: a class, or a list of acceptable classes. With two classes it may be omitted: then it is
        the other class, row by row. For a regressor, a range of its output: ">= 700", "<= 0.05", "700..800", or "+10 %"
        relative to the row's current output.
    label : str, optional
        The column of `train` with the true class; it is not a feature.
    graph : CausalGraph, matrix, networkx graph or path, optional
        A causal graph over the features, for methods that use one.
    classes : iterable, optional
        The model's classes in order, if the model does not name them itself.
    threshold : float, optional
        With two classes, the probability from which the second is predicted. Without it, a model with its own `predict`
        decides by that, and no claim is made that `predict` does not confirm; with it, `predict` is not used.
    target_probability : float, optional
        The minimum probability of the desired class, or of all acceptable classes together: a safety margin.
    encoder : TableEncoder, optional
        An encoder that was fitted on these features; its ranges and units are kept. By default one is fitted on
        `train`.
    ignore : iterable of str
        Columns of `train` that are not features, such as an identifier.
    immutable : iterable of str
        Features that may not change, in addition to those of the schema.
    seed : int, default=0
        The seed for sampling training rows.

    Attributes
    ----------
    train : DataFrame
        The features of the training rows that are kept.
    labels : Series or None
        The true classes of these rows.
    schema : Schema
        The features, with all bounds and levels.
    rules : tuple of Rule
        The parsed rules.
    classifier : CheckedClassifier
        The model behind a uniform interface.
    encoder : TableEncoder
        Converts between tables and tensors.
    units : dict
        The size of one unit of cost, per number.
    target : optional
        The desired class, an `Outcome` of several classes or a range, or None for the other class.
    target_probability : float or None
        Its minimum probability.

    Raises
    ------
    SchemaError
        If the table does not fit the schema.
    FcxError
        If rules cannot be read or contradict each other, the target is not a class of the model, or the model does not
        answer as a classifier should; a `RuleError`, `DataError` or `ClassifierError` if all faults are of one kind.

    Examples
    --------
    >>> from fcxplain import Task, load_dataset, train_classifier
    >>> data = load_dataset("adult", rows=2000)
    >>> task = Task(data.train, train_classifier(data), schema=data.schema, rules="age' >= age", target=data.target)
    ... # doctest: +SKIP
    """

    def __init__(
        self,
        train: pd.DataFrame,
        classifier: Any,
        *,
        schema: Schema | str | Path | None = None,
        rules: RuleSource = (),
        target: Any = None,
        label: str | None = None,
        graph: Any = None,
        classes: Iterable[Any] | None = None,
        threshold: float | None = None,
        target_probability: float | None = None,
        encoder: TableEncoder | None = None,
        ignore: Iterable[str] = (),
        immutable: Iterable[str] = (),
        seed: int = 0,
    ) -> None:
        self.seed, self.graph = seed, graph
        self.readings: dict[str, Any] = {}
        """What was read of the model, such as its trees as numbers; shared with relaxed tasks."""
        self.on_schema: dict[Schema, Task] = {}
        """This task on looser schemas; shared with relaxed tasks."""
        schema = Schema.from_toml(schema) if isinstance(schema, str | Path) else schema
        named_classes = None if classes is None else tuple(classes)
        whole = without_ignored(_checked_table(train), named(ignore), schema.names if schema else (), label)
        train, self.labels = split_label(whole, label, schema, classifier, named_classes)
        fixed = named(immutable)
        schema = schema.freeze(*fixed) if schema is not None else Schema.infer(train, immutable=fixed)
        schema = _with_gaps(train, schema, classifier, named_classes)
        train, kept = _without_missing(train, schema)
        self.labels = None if self.labels is None else self.labels[kept]
        self.schema = schema.complete(train)
        self.encoder = _checked_encoder(encoder, self.schema, train)
        self.train = train[list(self.schema.names)]
        self.units = self.encoder.units_

        faults: list[FcxError] = []
        self.rules: tuple[Rule, ...] = ()
        try:
            self.rules = _checked_rules(rules, self.schema)
        except RuleError as error:
            faults.append(error)
        probes = _sample(len(self.train), seed)
        try:
            regression = is_regression(classifier, target, named_classes, self.labels)
            if named_classes is None and not regression:
                named_classes = classes_of(self.labels, classifier)
            how: dict[str, Any] = {"classes": named_classes, "threshold": threshold, "regression": regression}
            made = as_classifier(classifier, schema=self.schema, encoder=self.encoder, **how)
            self.classifier, apart = made.compared(self.train.iloc[probes])
            answers = self.classifier.predict(self.train.iloc[probes])
            otherwise = partial(self._called_otherwise, target, whole[kept], classifier, probes)
            self.target = checked_target(target, self.classes, otherwise)
            self.target_probability = checked_probability(target_probability, self.classes)
            _check_class_labels(self.schema, self.classes)
        except FcxError as error:
            faults.append(error)
        raise_all(faults, "this task cannot work")
        self._warn(probes, answers, apart)

    def _called_otherwise(self, target: Any, whole: pd.DataFrame, model: Any, probes: NDArray[np.int64]) -> str:
        """The remedy for a target that is a value of some column but not a class of the model."""
        answers = self.classifier.decide(self.train.iloc[probes]).choice
        return called_otherwise(
            target, whole.iloc[probes], names_read(model) or self.schema.names, answers, self.classes
        )

    def __str__(self) -> str:
        rules = counted(len(self.rules), "rule")
        return f"Task({self.about}, {self.classifier!r}, {rules}, target {self.outcome_words})"

    def __repr__(self) -> str:
        return self._glance().text()

    def _repr_html_(self) -> str:
        return self._glance().html()

    def _glance(self) -> Glance:
        threshold = self.classifier.threshold
        decides = "" if threshold is None else f"; {self.classes[1]!r} from a probability of {threshold:g}"
        if self.classifier.parts:
            decides = "; decided by its predict, not by probabilities"
        facts = (
            ("model", self.classifier.name),
            ("classes", some(self.classes) + decides if self.classes else "none; it predicts numbers"),
            ("target", self.outcome_words),
            ("rules", f"{len(self.rules):,}" if self.rules else "none"),
        )
        return Glance(f"Task: {self.about}", facts=facts, grids=(rules_grid(self.rules),))

    @property
    def about(self) -> str:
        """The number of training rows, of features, and of features that may change."""
        return f"{counted(len(self.train), 'row')}, {self.schema.freeze(*self.frozen).summary}"

    @property
    def outcome_words(self) -> str:
        """The desired outcome in words."""
        wanted = "the other class" if self.target is None else _shown(self.target)
        least = self.target_probability
        return wanted if least is None else f"{wanted}, with a probability of {least:g} or more"

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classifier's classes."""
        return self.classifier.classes

    @cached_property
    def sample(self) -> NDArray[np.int64]:
        """Up to 50,000 training rows as grid codes, drawn with the seed: those that a saved model keeps.

        Everything that uses training rows to explain uses these, so that a saved and loaded model gives the same
        answers.
        """
        order = np.random.default_rng(self.seed).permutation(len(self.train))
        return self.encoder.codes(self.train.iloc[np.sort(order[:SAMPLE])])

    @cached_property
    def class_names(self) -> NDArray[np.object_]:
        """The classes as an array, indexed by position."""
        names = np.empty(len(self.classes), dtype=object)
        names[:] = self.classes
        return names

    def outcomes(self, wanted: NDArray[Any]) -> Outcomes:
        """The desired outcomes of rows, which say of the model's output whether they are met.

        Parameters
        ----------
        wanted : array
            The desired outcome of each row: a class, or an `Outcome`.

        Returns
        -------
        Outcomes
            One per row.

        Raises
        ------
        DataError
            If one is not a class of the model.
        """
        model = self.classifier
        how = {"threshold": model.guide, "least": self.target_probability, "unit": model.unit}
        return Outcomes.of(np.asarray(wanted).tolist(), self.classes, **how)

    def outcomes_to_try(self, said: NDArray[np.float64]) -> Outcomes:
        """Outcomes for comparing a reading of the model with the model: each class in rotation, or a usual output.

        Parameters
        ----------
        said : array of float
            The model's output for some rows: probabilities, or numbers, `n x 1`.

        Returns
        -------
        Outcomes
            One per row.
        """
        if not self.classes:
            return self.outcomes(np.full(len(said), Outcome(low=float(np.median(said))), dtype=object))
        return self.outcomes(self.class_names[np.arange(len(said)) % len(self.classes)])

    def outcomes_of(self, found: Predictions) -> Outcomes:
        """The desired outcomes of rows, given the model's decisions about them.

        Parameters
        ----------
        found : Predictions
            The result of `classifier.decide` for the rows.

        Returns
        -------
        Outcomes
            One per row.
        """
        return self.outcomes(self.wanted(self.classifier.named(found)))

    @property
    def dtypes(self) -> dict[str, Any]:
        """The dtypes that the model sees: those of the training rows, if they can hold all legal values."""
        return self.encoder.dtypes_

    @cached_property
    def frozen(self) -> frozenset[str]:
        """Features that may not change, by the schema or by a rule."""
        return frozen_names(self.rules, self.schema)

    @cached_property
    def repairer(self) -> Repairer:
        """The rules, prepared once for all regions."""
        return Repairer(self.rules, self.schema, self.units)

    def region(self, natural: Natural) -> Region:
        """The feasible region of rows under rules, bounds and immutable features.

        Parameters
        ----------
        natural : mapping of arrays
            The rows as natural columns.

        Returns
        -------
        Region
            One region per row.
        """
        return Region(self.repairer, natural)

    def legal_rows(self, count: int, *, seed: int) -> pd.DataFrame:
        """Rows drawn uniformly from all legal ones, as the model sees them.

        Parameters
        ----------
        count : int
            The number of rows.
        seed : int
            The seed of the draw.

        Returns
        -------
        DataFrame
            The rows.
        """
        return legal_rows(self.schema, count, seed=seed, dtypes=self.dtypes)

    def table(self, natural: Natural, index: pd.Index | None = None) -> pd.DataFrame:
        """Natural columns as a table, in the dtypes that the model sees.

        Parameters
        ----------
        natural : mapping of arrays
            Numbers in their own units, categories as level codes.
        index : Index, optional
            The row labels.

        Returns
        -------
        DataFrame
            The table.
        """
        return self.schema.table(natural, index, self.dtypes)

    def readable(self, rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[int, tuple[str, ...]]]:
        """Read all rows as far as possible, and list why some cannot be read, by position.

        Parameters
        ----------
        rows : DataFrame
            Rows with at least the features' columns.

        Returns
        -------
        tuple of DataFrame and dict
            The table, with missing values where one cannot be read, and the reasons.

        Raises
        ------
        SchemaError
            If a column is missing.
        """
        natural, reasons = salvaged(self.schema.features, rows)
        return self.table(natural, rows.index) if reasons else rows, reasons

    def read(self, rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, NDArray[Any]]]:
        """Rows as the model sees them, and their natural columns.

        A number that the dtype of its training column cannot hold is rounded to that dtype.

        Parameters
        ----------
        rows : DataFrame
            Rows with at least the features' columns.

        Returns
        -------
        tuple of DataFrame and dict
            The table, and its columns as arrays by name.

        Raises
        ------
        SchemaError
            If the rows do not fit the schema.
        """
        natural, given = self.schema.checked(rows), self.schema.columns_of(rows)
        known = [self.dtypes[n] for n in self.schema.names]
        if given.dtypes.tolist() == known:
            return given, natural
        table = self.table(natural, rows.index)
        short = [n for n in self.schema.numbers if short_float(self.dtypes[n]) is not None]
        return table, natural | self.schema.natural(table, short)

    def predict(self, rows: pd.DataFrame) -> NDArray[Any]:
        """The model's prediction for each row.

        Parameters
        ----------
        rows : DataFrame
            The rows.

        Returns
        -------
        array
            A class for each row, or a regressor's output.
        """
        return self.classifier.predict(rows)

    def wanted(self, predicted: NDArray[Any]) -> NDArray[Any]:
        """The desired outcome of rows with these predictions: the target, or the other of two classes.

        Parameters
        ----------
        predicted : array
            The result of `predict` for the rows.

        Returns
        -------
        array
            A class for each row, or an `Outcome`.
        """
        if isinstance(self.target, Outcome):
            found = np.empty(len(predicted), dtype=object)
            found[:] = [self.target.of_row(now) for now in np.asarray(predicted).tolist()]
            return found
        if self.target is not None:
            dtype = np.asarray(predicted).dtype
            # Text of fixed width would truncate a longer class name.
            return np.full(len(predicted), self.target, dtype=object if dtype.kind == "U" else dtype)
        first, second = self.classes
        return np.asarray(np.where(np.asarray(predicted) == second, first, second))

    def answered(self, rows: pd.DataFrame) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
        """The model's predictions for rows, their desired outcomes, and whether these are met.

        Parameters
        ----------
        rows : DataFrame
            The rows.

        Returns
        -------
        tuple of arrays
            The results of `predict` and `wanted`, and a boolean per row.
        """
        found = self.classifier.decide(rows, wanted=self.outcomes_of)
        predicted = self.classifier.named(found)
        wanted = self.wanted(predicted)
        return predicted, wanted, self.outcomes(wanted).met(found.probabilities, found.choice)

    def failures(self, natural: Natural, ask: Callable[[NDArray[np.int64]], object]) -> dict[int, str]:
        """Query the model about all rows, and by halves where it fails, to find the single rows that it fails on.

        Parameters
        ----------
        natural : dict of arrays
            The rows, column by column.
        ask : callable
            Takes positions of rows, queries the model about them, and stores the answers.

        Returns
        -------
        dict of int to str
            The model's error message, by position.

        Raises
        ------
        ClassifierError
            If the model fails on every row, although one of them has only values that the schema knows.
        """
        known = np.all([f.on_grid(natural[f.name]) for f in self.schema], axis=0)
        left, found = [np.arange(len(known))], dict[int, str]()
        while left:
            which = left.pop()
            try:
                ask(which)
            except ClassifierError as error:
                if len(which) > 1:
                    left += [which[: len(which) // 2], which[len(which) // 2 :]]
                else:
                    found[int(which[0])] = str(error)
        if found and len(found) == len(known) and known.any():
            raise ClassifierError(found[0])
        return found

    def refused(self, rows: pd.DataFrame) -> NDArray[np.bool_]:
        """Whether each row misses its desired outcome, and so needs an explanation.

        Parameters
        ----------
        rows : DataFrame
            The rows.

        Returns
        -------
        array of bool
            One per row.
        """
        return ~self.answered(rows)[2]

    def validate(self, rows: pd.DataFrame) -> None:
        """Refuse rows that do not fit the schema.

        Parameters
        ----------
        rows : DataFrame
            The rows.

        Raises
        ------
        SchemaError
            Names each faulty column, and the index of its first faulty row.
        """
        self.schema.validate(rows)

    def relaxed(
        self,
        *,
        rules: Iterable[Rule] | None = None,
        schema: Schema | None = None,
        target: Any = None,
        target_probability: float | None = None,
    ) -> Task:
        """The same task with other rules, looser features, or another outcome.

        Nothing is fitted or checked again, and the model is the same; a torch module gets an encoder that accepts the
        wider values.

        Parameters
        ----------
        rules : iterable of Rule, optional
            Rules in place of the task's.
        schema : Schema, optional
            The same features and levels, some of them mutable or with wider bounds.
        target : optional
            Another class, or `Outcome`.
        target_probability : float, optional
            Its minimum probability, in place of the task's.

        Returns
        -------
        Task
            A copy.
        """
        rules = self.rules if rules is None else tuple(rules)
        if schema is None or schema == self.schema:
            other = copy.copy(self)
        else:
            other, rules = copy.copy(self._on(schema)), parse_rules(rules, schema)
        other.graph = self.graph
        if rules != other.rules:
            other.rules = rules
            for fact in ("frozen", "repairer"):
                other.__dict__.pop(fact, None)
        other.target = self.target if target is None else as_target(target, self.classes)
        if target_probability is not None:
            other.target_probability = checked_probability(target_probability, self.classes)
        return other

    def _on(self, schema: Schema) -> Task:
        """The task on looser features; cached, so that what is computed from it can be shared."""
        if schema not in self.on_schema:
            other = copy.copy(self)
            other.schema, other.rules = schema, ()
            # Codes start at a feature's lower bound.
            for fact in ("sample", "frozen", "repairer"):
                other.__dict__.pop(fact, None)
            other.encoder = _refitted(self.encoder, schema)
            other.classifier = _reading_wider(self.classifier, schema)
            other.readings = self.readings if other.classifier is self.classifier else {}
            self.on_schema[schema] = other
        return self.on_schema[schema]

    def _warn(self, probes: NDArray[np.int64], answers: NDArray[Any], apart: int) -> None:
        """Warn of what looks wrong but may be intended, given the predictions for some training rows."""
        if apart:
            seen = f"{apart:,} of {len(probes):,} training rows"
            remedy = "predict decides; to decide by probabilities, give threshold= or a callable around predict_proba"
            _warn(f"the classifier's predict disagrees with its probabilities on {seen}: {remedy}")
        for name in self.classes if self.target is None else (self.target,):
            share = _share(name, answers)
            if share < RARE:
                seen, shown = f"{share:.2%} of {len(probes):,} training rows", _shown(name)
                model = "classifier" if self.classes else "regressor"
                _warn(f"the {model} predicts the target {shown} for {seen}; counterfactuals may be hard to find")
        for rule in self.rules:
            if not any(ref.primed for ref in rule.refs):
                _warn(f"rule {rule.text!r} (line {rule.line}) {NO_PRIME}")
        found = None
        if self.labels is not None and self.classes:
            found = agreement(self.outcomes(answers).places, self.labels.iloc[probes], self.classes)
        if found is not None and found.is_other:
            seen = f"{found.given:.0%} of {len(probes):,} training rows (averaged over classes)"
            better = f"but would agree on {found.best:.0%} with classes={found.order!r}"
            _warn(f"the classifier agrees with the labels on {seen}, {better}; are the classes in the right order?")


def refuse_all_but_a_task(given: object, *others: object) -> None:
    """Refuse rows and labels, as scikit-learn's `fit` takes them."""
    if others or not isinstance(given, Task):
        passed = " and ".join(f"a {type(one).__name__}" for one in (given, *others))
        remedy = "Make one from the rows and the fitted model to explain: Task(rows, model, target=...)."
        raise DataError("", [Fault("fit", f"takes a Task, not {passed}", remedy)])


def _checked_table(train: object) -> pd.DataFrame:
    if not isinstance(train, pd.DataFrame):
        remedy = "Give its training part, data.train." if hasattr(train, "train") else not_a_table(train).remedy
        raise DataError("", [Fault("train", f"is a {type(train).__name__}, not a pandas DataFrame", remedy)])
    if not len(train):
        raise DataError("train has no rows")
    return train


def _checked_encoder(given: TableEncoder | None, schema: Schema, train: pd.DataFrame) -> TableEncoder:
    """The given encoder, if it fits these features and reads the rows; otherwise a new one."""
    if given is None:
        return TableEncoder().fit(schema, train)
    if given.schema_ != schema:
        raise DataError("", [Fault("encoder", "was fitted on other features", "Leave it out.")])
    given.schema_.checked(train)
    return given


def _refitted(encoder: TableEncoder, schema: Schema) -> TableEncoder:
    """The encoder with its ranges and units, on a schema with the same columns."""
    return TableEncoder().restore(schema, encoder.scale_, encoder.units_, encoder.dtypes_, encoder.usual_)


def _reading_wider(classifier: CheckedClassifier, schema: Schema) -> CheckedClassifier:
    """The classifier itself, or its module behind an encoder that accepts the wider values of the schema."""
    if classifier.module is None or classifier.encoder is None:
        return classifier
    own = classifier.encoder.schema_
    wider = replace(own, features=tuple(f.replace(low=schema[f.name].low, high=schema[f.name].high) for f in own))
    if wider == own:
        return classifier
    return as_classifier(
        getattr(classifier.answer, "model", None) if classifier.regression else classifier.module,
        schema=schema,
        encoder=_refitted(classifier.encoder, wider),
        classes=classifier.classes or None,
        threshold=classifier.threshold,
        output="logits",
        regression=classifier.regression,
    )


def _with_gaps(train: pd.DataFrame, schema: Schema, classifier: Any, classes: tuple[Any, ...] | None) -> Schema:
    """The schema, with missing values kept in features where the model accepts them."""
    gaps = schema.missing(train)
    names = [n for n in gaps.columns if schema[n].missing is None and gaps[n].any() and not gaps[n].all()]
    if not names:
        return schema
    kept = replace(schema, features=tuple(f.replace(missing="kept") if f.name in names else f for f in schema))
    some = {n: train[gaps[n]].iloc[:GAPS] for n in names}
    try:
        known = kept.complete(train)
        encoder = TableEncoder().fit(known, train[~gaps.drop(columns=names).any(axis=1)])
        model = as_classifier(classifier, schema=known, encoder=encoder, classes=classes)
    except FcxError:
        # The task reports the error itself.
        return schema
    knows = [n for n in names if _answers_gaps(model, known, encoder, some[n], n)]
    return replace(schema, features=tuple(f.replace(missing="kept") if f.name in knows else f for f in schema))


def _answers_gaps(
    model: CheckedClassifier, schema: Schema, encoder: TableEncoder, rows: pd.DataFrame, name: str
) -> bool:
    """Whether a model accepts rows with a missing value in this feature only."""
    natural = schema.natural(rows)
    table = schema.table(encoder.filled(natural) | {name: natural[name]}, dtypes=encoder.dtypes_)
    try:
        model.probabilities(table)
    except FcxError:
        return False
    return True


def _without_missing(train: pd.DataFrame, schema: Schema) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    missing = schema.missing(train)[
        [f.name for f in schema if f.missing in (None, "never") and f.name in train.columns]
    ]
    rows = missing.any(axis=1).to_numpy(dtype=bool)
    if rows.any():
        counts = missing.sum()
        where = ", ".join(f"{name} {count:,}" for name, count in counts[counts > 0].items())
        remedy = "a model with an imputer in its pipeline could use these rows"
        _warn(f"left out {rows.sum():,} of {len(train):,} training rows with missing values ({where}); {remedy}")
    if rows.all():
        raise DataError("every training row has a missing value")
    return train[~rows], ~rows


def _check_class_labels(schema: Schema, classes: tuple[Any, ...]) -> None:
    """Refuse display names for classes that the model does not have."""
    known = [str(name) for name in classes]
    there = f"The classes are {some(classes)}." if classes else "The model predicts numbers and has no classes."
    faults = [
        Fault(f"[classes] {name}", "is not a class of the model", did_you_mean(name, known) or there)
        for name in schema.classes
        if name not in known
    ]
    if faults:
        raise SchemaError("the schema does not fit the model", faults)


def _checked_rules(source: RuleSource, schema: Schema) -> tuple[Rule, ...]:
    """The parsed rules. Raises all faults at once: rules that cannot be read, and contradictions."""
    rules, faults = read_rules(source, schema)
    core = contradiction(rules, schema)
    if core:
        said = "; ".join(f"line {r.line}: {in_words(r)}" for r in core)
        problem = "no legal row can satisfy it" if len(core) == 1 else "no legal row can satisfy all of them"
        conflict = Fault("contradictory rules", f"{problem} ({said})", "Drop or relax one of them.")
        faults = (*faults, conflict)
    if faults:
        raise RuleError("the rules cannot be used", faults)
    return rules


def _sample(rows: int, seed: int) -> NDArray[np.int64]:
    """Positions of at most `PROBES` rows."""
    return np.sort(np.random.default_rng(seed).permutation(rows)[:PROBES])


def _share(wanted: Any, answers: NDArray[Any]) -> float:
    """The share of predictions that meet the target; 1 if that differs from row to row."""
    if not isinstance(wanted, Outcome):
        return float(np.mean(answers == wanted))
    if wanted.classes:
        return float(np.mean([a in wanted.classes for a in answers.tolist()]))
    return 1.0 if wanted.change is not None else float(np.mean((wanted.low <= answers) & (answers <= wanted.high)))


def _shown(wanted: Any) -> str:
    return str(wanted) if isinstance(wanted, Outcome) else repr(wanted)


def _warn(message: str) -> None:
    warnings.warn(message, FcxWarning, stacklevel=4)
