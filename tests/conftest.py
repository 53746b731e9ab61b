"""Settings for every test: one thread, so that two workers share two cores, and the longest files first."""

import os

# Threads of OpenMP wait by spinning: where two workers share two cores, a small boosting model takes a hundred times as
# long with two threads each. Read when the library is loaded, so before any import that loads it; processes inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)

# A busy machine is slow, not wrong. With HYPOTHESIS_PROFILE=thorough many more examples are tried.
PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("suite", max_examples=30, **PATIENT)
settings.register_profile("thorough", max_examples=500, **PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

# A worker takes whole files. If the longest came last, the other worker would wait for them.
LONGEST = (
    "test_cli.py",
    "test_cli_manners.py",
    "test_prove_trees.py",
    "test_promise.py",
    "test_classifier.py",
    "test_cli_models.py",
    "test_determinism.py",
    "test_task.py",
    "test_docs.py",
    "test_methods.py",
    "test_company.py",
    "test_whynot.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONGEST)))
