"""Receipts: an answer that was shown, signed with the server's key (Ed25519), to be checked with model and rules later.

The signature proves that the server gave this answer and that it was not altered; checking it with the model shows
whether it still holds. The signature covers everything else in the receipt, as JSON with sorted keys.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ..errors import FcxError, FormatError
from ..explanation import Explanation
from ..explanation.certificate import issued, model_id, rules_id
from ..explanation.files.verification import certificate_differences
from ..overrides import Overrides
from ..task import Task

KIND, FORMAT = "fcxplain receipt", 1
# The fields of a certificate about the answer itself, not about how it was found.
ABOUT = ("predicted", "probability", "output", "valid", "feasible", "in_domain", "immutables_kept", "changes", "rules")


class Signer:
    """Signs receipts with one private key."""

    def __init__(self, private: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(private)
        self.public = _text(self._key.public_key().public_bytes_raw())

    @staticmethod
    def new_key() -> bytes:
        """A new private key."""
        return Ed25519PrivateKey.generate().private_bytes_raw()

    def receipt(self, asked: Mapping[str, Any], answer: Mapping[str, Any], way: Mapping[str, Any]) -> dict[str, Any]:
        """A signed receipt of one option: the person, their wishes, and what was found and checked."""
        content = {
            "kind": KIND,
            "format": FORMAT,
            "id": uuid4().hex,
            "issued": datetime.now(UTC).isoformat(timespec="seconds"),
            "person": asked["label"],
            "values": dict(asked["values"]),
            "wishes": dict(asked["wishes"]),
            "own_rules": list(answer["own_rules"]),
            "counterfactual": dict(way["values"]),
            "certificate": dict(way["certificate"]),
            "wanted": answer["wanted"],
            "model": answer["model"],
            "rules_id": way["certificate"]["rules_id"],
            "key": self.public,
        }
        return content | {"signature": _text(self._key.sign(_signed(content)))}


def read_receipt(text: str | bytes) -> dict[str, Any]:
    """A receipt from its JSON."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"this is not a receipt: {error}") from error
    parts = {"id": str, "values": dict, "counterfactual": dict, "certificate": dict, "own_rules": list, "key": str}
    parts |= {"signature": str, "rules_id": str}
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise FormatError(f"this is not a receipt: it does not say that its kind is {KIND!r}")
    if found.get("format") != FORMAT:
        raise FormatError(f"this receipt has format {found.get('format')!r}; this version reads {FORMAT}")
    odd = [name for name, kind in parts.items() if not isinstance(found.get(name), kind)]
    if odd:
        raise FormatError(
            f"this receipt cannot be read: {', '.join(odd)} {'is' if len(odd) == 1 else 'are'} not in the expected form"
        )
    return found


@dataclass(frozen=True)
class ReceiptCheck:
    """What still holds for a receipt; `differences` says in words what does not."""

    signature: bool
    key: str
    model: bool
    rules: bool
    answer: bool
    differences: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether all of it does."""
        return self.signature and self.model and self.rules and self.answer

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return vars(self) | {"holds": self.holds, "differences": list(self.differences)}


def is_signed(receipt: Mapping[str, Any]) -> bool:
    """Whether the signature is valid for the receipt's key and content."""
    content = {name: value for name, value in receipt.items() if name != "signature"}
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(receipt["key"]))
        key.verify(base64.urlsafe_b64decode(receipt["signature"]), _signed(content))
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def held_against(task: Task, receipt: Mapping[str, Any]) -> ReceiptCheck:
    """Check a receipt: its signature, and its answer again with the present model and rules."""
    said = receipt["certificate"]
    same_model = receipt.get("model") == model_id(task)
    texts = [rule.text for rule in task.rules] + [str(text) for text in receipt["own_rules"]]
    same_rules = receipt["rules_id"] == rules_id(task.schema, texts)
    try:
        found = _certificate_now(task, receipt)
        wrong = [
            f"{name}: {stored!r} in the receipt, {now!r} with the present model and rules"
            for name, stored, now in certificate_differences(json.dumps(said), json.dumps(found))
            if name in ABOUT
        ]
        wrong += [] if found["passed"] else ["the answer does not pass every check"]
    except (FcxError, KeyError, ValueError, TypeError) as error:
        wrong = [f"the answer cannot be checked: {error}"]
    return ReceiptCheck(is_signed(receipt), receipt["key"], same_model, same_rules, not wrong, tuple(wrong))


def _certificate_now(task: Task, receipt: Mapping[str, Any]) -> dict[str, Any]:
    """The certificate that the present model and rules would issue for the receipt's answer."""
    label = receipt["person"]
    before = pd.DataFrame([receipt["values"]], index=[label])[list(task.schema.names)]
    after = pd.DataFrame([receipt["counterfactual"]], index=[label])[list(task.schema.names)]
    (rows, _), (answers, _) = task.read(before), task.read(after)
    lines = [json.dumps({"rules": receipt["own_rules"]}) if receipt["own_rules"] else ""]
    own, one = Overrides.from_json(lines, task), np.zeros(1, dtype=np.int64)
    made = Explanation.of(task, rows, answers, one, method="receipt", wanted=task.answered(rows)[1], own=own)
    return issued(made, one, np.full(1, np.nan))[0].to_dict()


def _signed(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode("ascii")
