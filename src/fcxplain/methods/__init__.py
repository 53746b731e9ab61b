"""Methods from the literature to compare with, behind one protocol, and a dict of all of them by name."""

from collections.abc import Callable
from functools import partial

from ..errors import DataError, also, did_you_mean, some
from .base import Method
from .ceils import CEILS
from .cem import CEM
from .dice import DiCERandom
from .face import FACE
from .fcegan import FCEGAN
from .latent import CCHVAE, REVISE
from .mahajan import Mahajan
from .vcnet import VCNet

__all__ = ["METHODS", "Method"]


class Methods(dict[str, Callable[..., Method]]):
    """Methods by name; an unknown name raises an error that suggests the nearest one."""

    def __missing__(self, name: object) -> Callable[..., Method]:
        remedy = f"{did_you_mean(name, self)} There are {some(self, 20)}.".lstrip()
        raise also(DataError, KeyError)(f"no method {name!r}. {remedy}")


# Each takes its settings by keyword and is then fitted to a task: METHODS["revise"](seed=0).fit(task).explain(rows).
METHODS = Methods(
    {
        "mahajan-unary": partial(Mahajan, constraint="unary"),
        "mahajan-binary": partial(Mahajan, constraint="binary"),
        "revise": REVISE,
        "cchvae": CCHVAE,
        "cem": CEM,
        "dice-random": DiCERandom,
        "face": FACE,
        "vcnet": VCNet,
        "fcegan": FCEGAN,
        "ceils": CEILS,
    }
)
