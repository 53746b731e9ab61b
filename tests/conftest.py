"""Settings for every test: one thread, so that two workers share two cores."""

import gc
import os

# Threads of OpenMP wait by spinning: where two workers share two cores, a small boosting model takes a hundred times as
# long with two threads each. Read when the library is loaded, so before any import that loads it; processes inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

from effort import PATIENT

# Nothing that imports make is garbage: it is not looked for until all tests are collected.
gc.disable()

# With HYPOTHESIS_PROFILE=thorough many more examples are tried.
settings.register_profile("suite", max_examples=12, **PATIENT)
settings.register_profile("thorough", max_examples=500, **PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


def pytest_collection_finish() -> None:
    """What all the imports made is there to stay: it need not be looked through with every collection of garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
