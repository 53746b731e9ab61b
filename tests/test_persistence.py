"""Saved folders (manifest, weights) and fingerprints."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import random
import shutil
import signal
import stat
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fcxplain
from effort import examples
from fcxplain.errors import FormatError
from fcxplain.saving import FORMAT, fingerprint, read, write

CONTENT = {"name": "Größe", "rates": [0.1, 1e-300, -0.0], "schema": {"z": 1, "a": None, "m": True}, "empty": {}}
TENSORS = {
    "layer.weight": torch.arange(6.0).reshape(2, 3),
    "layer.steps": torch.tensor(7),
    "flags": torch.tensor([True]),
}
OLD, NEW = {"version": "old"}, {"version": "new"}
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    write(folder, "model", CONTENT, TENSORS)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def seal(manifest: dict) -> None:
    """The hash of all other keys, worked out as the documentation says, and not by the code under test."""
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    manifest["sha256"] = hashlib.sha256(json.dumps(rest, separators=(",", ":")).encode()).hexdigest()


def edit(folder: Path, change: Callable[[dict], object], *, sealed: bool = True) -> None:
    """Change a manifest, and by default its seal as well, as somebody would who knows how."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    if sealed:
        seal(manifest)
    path.write_text(json.dumps(manifest))


def replace_weights(folder: Path, data: bytes) -> None:
    """Other weights, with the size and hash in the manifest to match."""
    (folder / "weights.safetensors").write_bytes(data)
    entry = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    edit(folder, lambda m: m["files"].update({"weights.safetensors": entry}))


def equal(found: np.ndarray, written: torch.Tensor) -> bool:
    """The same numbers, in the same shape and dtype."""
    return found.dtype == written.detach().numpy().dtype and torch.equal(torch.from_numpy(found), written)


def safetensors(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def refused(folder: Path, kind: str = "model") -> str:
    with pytest.raises(FormatError) as caught:
        read(folder, kind)
    return str(caught.value)


# What comes back


def test_what_was_written_comes_back(model):
    saved = read(model, "model")
    assert saved.content == CONTENT
    assert saved.tensors.keys() == TENSORS.keys()
    assert all(equal(saved.tensors[n], t) for n, t in TENSORS.items())


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(content=st.dictionaries(st.text(), plain, max_size=4))
@examples(40)
def test_plain_data_comes_back_to_the_bit_and_in_order(content, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "plain"
    write(folder, "model", content, {}, overwrite=True)
    # repr tells 1 from 1.0 and from True, 0.0 from -0.0, and one order of keys from another.
    assert repr(read(folder, "model").content) == repr(content)


def test_views_shared_memory_parameters_and_empty_tensors_are_kept(tmp_path):
    base = torch.arange(12.0).reshape(3, 4)
    tensors = {
        "turned": base.T,
        "part": base[1:],
        "same": base,
        "weight": torch.nn.Parameter(base[0]),
        "none": torch.zeros(0, 3),
        "one": torch.tensor(2.5, dtype=torch.float64),
    }
    write(tmp_path / "m", "model", {}, tensors)
    found = read(tmp_path / "m", "model").tensors
    assert all(equal(found[name], tensor) for name, tensor in tensors.items())
    assert found["none"].shape == (0, 3)
    found["same"][0, 0] = 99.0
    assert found["part"][0, 0] == 4.0
    assert base[0, 0] == 0.0


def test_the_manifest_says_what_it_is_and_the_hash_of_every_part(model):
    manifest = json.loads((model / "manifest.json").read_text())
    weights = (model / "weights.safetensors").read_bytes()
    assert manifest["format"] == FORMAT == 1
    assert (manifest["kind"], manifest["fcxplain"], manifest["torch"]) == (
        "model",
        fcxplain.__version__,
        torch.__version__,
    )
    assert manifest["files"] == {
        "weights.safetensors": {"sha256": hashlib.sha256(weights).hexdigest(), "bytes": len(weights)}
    }
    before = manifest["sha256"]
    seal(manifest)
    assert manifest["sha256"] == before


def test_the_same_thing_is_written_as_the_same_bytes(model, tmp_path):
    write(tmp_path / "again", "model", CONTENT, TENSORS)
    assert contents(model) == contents(tmp_path / "again")


# What is not written


def test_every_value_without_a_form_in_json_is_named_with_its_place(tmp_path):
    content = {"best": math.inf, "list": [1.0, math.nan], "odd": {3: "x"}, "array": np.zeros(2), "fine": (1, 2)}
    with pytest.raises(FormatError) as caught:
        write(tmp_path / "m", "model", content, {"half": torch.zeros(2, dtype=torch.float16)})
    places = [fault.place for fault in caught.value.faults]
    assert places == ["content.best", "content.list[1]", "content.odd", "content.array", "tensor 'half'"]
    assert "inf cannot be written as JSON" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_are_not_finite_need_leave_both_ways(tmp_path):
    tensors = {"a": torch.tensor([math.inf]), "b": torch.tensor([math.nan])}
    with pytest.raises(FormatError, match="tensor 'b': has values that are not finite"):
        write(tmp_path / "m", "model", {}, tensors, non_finite=["a"])
    write(tmp_path / "m", "model", {}, tensors, non_finite=["a", "b"])
    assert np.isnan(read(tmp_path / "m", "model", non_finite=["a", "b"]).tensors["b"]).all()
    with pytest.raises(FormatError, match="tensor 'a': has values that are not finite"):
        read(tmp_path / "m", "model", non_finite=["b"])


def test_content_that_could_not_be_read_again_is_not_written(tmp_path):
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    for content in ({"deep": deep}, {"long": 10**5000}, {"long": "x" * (64 * 2**20)}):
        with pytest.raises(FormatError, match="cannot be written"):
            write(tmp_path / "m", "model", content, {})
    with pytest.raises(FormatError, match="reserved"):
        write(tmp_path / "m", "model", {}, {"__metadata__": torch.zeros(1)})
    assert list(tmp_path.iterdir()) == []


# Where it is written


def test_an_existing_folder_is_replaced_only_if_told(model):
    before = contents(model)
    with pytest.raises(FormatError, match=r"model: exists already\. .*overwrite=True"):
        write(model, "model", NEW, {})
    assert contents(model) == before
    write(model, "model", NEW, {}, overwrite=True)
    assert read(model, "model").content == NEW
    assert os.listdir(model.parent) == ["model"]


def make_notes(folder: Path) -> None:
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")


def make_damaged(folder: Path) -> None:
    folder.mkdir()
    (folder / "manifest.json").write_text("{")


def make_foreign(folder: Path) -> None:
    folder.mkdir()
    (folder / "manifest.json").write_text('{"name": "an extension of a browser", "format": 1}')


def make_mixed(folder: Path) -> None:
    write(folder, "model", OLD, {})
    (folder / "notes.txt").write_text("mine")


def make_linked(folder: Path) -> None:
    write(folder, "model", OLD, {})
    (folder / "weights.safetensors").rename(folder.parent / "elsewhere")
    (folder / "weights.safetensors").symlink_to(folder.parent / "elsewhere")


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (make_notes, "notes.txt"),
        (make_damaged, "cannot be identified as ours"),
        (make_foreign, "was not written by fcxplain"),
        (make_mixed, "notes.txt"),
        (make_linked, "is not a regular file"),
        (lambda folder: write(folder, "checkpoint", OLD, {}), "holds a saved 'checkpoint', not a 'model'"),
        (lambda folder: folder.write_text("a file"), "is a file"),
    ],
)
def test_what_is_not_ours_or_of_another_kind_is_never_overwritten(make, word, tmp_path):
    folder = tmp_path / "model"
    make(folder)
    before = contents(folder) if folder.is_dir() else folder.read_bytes()
    with pytest.raises(FormatError, match=word) as caught:
        write(folder, "model", NEW, {}, overwrite=True)
    assert str(folder) in str(caught.value)
    assert (contents(folder) if folder.is_dir() else folder.read_bytes()) == before


def test_an_empty_folder_has_nothing_to_lose(tmp_path):
    (tmp_path / "model").mkdir()
    with pytest.raises(FormatError, match="exists already"):
        write(tmp_path / "model", "model", NEW, {})
    write(tmp_path / "model", "model", NEW, {}, overwrite=True)
    assert read(tmp_path / "model", "model").content == NEW


def test_a_place_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for place, word in [
        ("missing/model", "missing: does not exist. Create this folder first"),
        ("file/model", "is a file, so nothing can be saved below it"),
        ("circle/model", "circle"),
        ("nul\0/model", "is not a usable path"),
        ("x" * 300, "cannot be written"),
    ]:
        with pytest.raises(FormatError, match=word):
            write(tmp_path / place, "model", {}, {})
        with pytest.raises(FormatError):
            read(tmp_path / place, "model")
    with pytest.raises(FormatError):
        write(Path("/"), "model", {}, {}, overwrite=True)


@contextlib.contextmanager
def ordinary_user(folder: Path) -> Iterator[None]:
    """Somebody who has no rights in this folder."""
    folder.chmod(0o000)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs users")
def test_no_permission_is_a_format_error(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    write(inner / "model", "model", OLD, {})
    with ordinary_user(inner):
        with pytest.raises(FormatError, match=r"cannot be read .*ermission"):
            read(inner / "model", "model")
        with pytest.raises(FormatError, match="ermission"):
            write(inner / "other", "model", NEW, {})
    assert read(inner / "model", "model").content == OLD


def test_what_a_link_points_to_is_replaced_and_the_mode_stays(model, tmp_path):
    model.chmod(0o700)
    (tmp_path / "latest").symlink_to(model, target_is_directory=True)
    write(tmp_path / "latest", "model", NEW, {}, overwrite=True)
    assert (tmp_path / "latest").is_symlink()
    assert read(model, "model").content == read(tmp_path / "latest", "model").content == NEW
    assert stat.S_IMODE(model.stat().st_mode) == 0o700


# What is not read


def swap_files(folder: Path) -> None:
    manifest, weights = folder / "manifest.json", folder / "weights.safetensors"
    manifest.rename(folder / "x")
    weights.rename(manifest)
    (folder / "x").rename(weights)


def link_manifest(folder: Path) -> None:
    (folder / "manifest.json").rename(folder.parent / "elsewhere")
    (folder / "manifest.json").symlink_to(folder.parent / "elsewhere")


def raw(text: str | bytes) -> Callable[[Path], object]:
    data = text.encode() if isinstance(text, str) else text
    return lambda folder: (folder / "manifest.json").write_bytes(data)


def rewrite(old: str, new: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        text = (folder / "manifest.json").read_text()
        assert old in text
        (folder / "manifest.json").write_text(text.replace(old, new))

    return change


def sparse(folder: Path) -> None:
    os.truncate(folder / "manifest.json", 64 * 2**20 + 1)


DAMAGE = {
    "folder missing": (shutil.rmtree, "model: does not exist. Check the path"),
    "a file": (lambda f: (shutil.rmtree(f), f.write_text("x")), "is a file; a saved model is a folder"),
    "not ours": (lambda f: (shutil.rmtree(f), make_notes(f)), "is not a saved model: it has no manifest.json"),
    "manifest missing": (lambda f: (f / "manifest.json").unlink(), "it has no manifest.json"),
    "manifest a folder": (lambda f: ((f / "manifest.json").unlink(), (f / "manifest.json").mkdir()), "manifest.json"),
    "manifest a pipe": (lambda f: ((f / "manifest.json").unlink(), os.mkfifo(f / "manifest.json")), "manifest.json"),
    "manifest a link": (link_manifest, "it has no manifest.json"),
    "manifest empty": (raw(""), "manifest.json: is not valid JSON"),
    "not UTF-8": (raw(b"\xff\xfe{}"), "manifest.json: is not valid JSON"),
    "not JSON": (raw("format: 1"), "manifest.json: is not valid JSON"),
    "too deep": (raw("[" * 200_000), "manifest.json: is not valid JSON"),
    "digits": (raw("9" * 10_000), "manifest.json: is not valid JSON"),
    "NaN": (rewrite("0.1", "NaN"), "NaN is not JSON"),
    "infinity": (rewrite("0.1", "-Infinity"), "-Infinity is not JSON"),
    "overflow": (rewrite("1e-300", "1e999"), "the number '1e999' is too large"),
    "twins": (rewrite('"name"', '"empty"'), "duplicate keys: 'empty'"),
    "an array": (raw("[1, 2]"), "was not written by fcxplain"),
    "huge": (sparse, "67,108,865 bytes, the limit is 67,108,864"),
    "newer": (lambda f: edit(f, lambda m: m.update(format=FORMAT + 1, more=1)), "newer fcxplain .*Upgrade fcxplain"),
    "older": (lambda f: edit(f, lambda m: m.update(format=0)), "has an unknown format, 0"),
    "odd format": (lambda f: edit(f, lambda m: m.update(format=True)), "has an unknown format, True"),
    "no format": (lambda f: edit(f, lambda m: m.pop("format")), "was not written by fcxplain"),
    "other kind": (lambda f: edit(f, lambda m: m.update(kind="surrogate")), "is a saved 'surrogate', not a 'model'"),
    "keys": (lambda f: edit(f, lambda m: (m.pop("torch"), m.update(x=1))), "(?s)has no 'torch'.*unknown keys: 'x'"),
    "types": (
        lambda f: edit(f, lambda m: m.update(content=[], kind=3)),
        "(?s)'kind' must be text.*'content' must be an",
    ),
    "edited": (lambda f: edit(f, lambda m: m["content"].update(name="x"), sealed=False), "was changed after"),
    "reordered": (
        lambda f: edit(f, lambda m: m.update(content=dict(sorted(m["content"].items()))), sealed=False),
        "was changed after",
    ),
    "weights missing": (lambda f: (f / "weights.safetensors").unlink(), "weights.safetensors: is missing"),
    "extra": (lambda f: ((f / "b.pkl").touch(), (f / "a").mkdir()), "do not belong there: 'a', 'b.pkl'"),
    "weights a link": (lambda f: (shutil.rmtree(f), make_linked(f)), "weights.safetensors: is not a regular file"),
    "longer": (lambda f: (f / "weights.safetensors").open("ab").write(b"x"), "weights.safetensors: has .* bytes, the"),
    "swapped": (swap_files, "manifest.json: is not valid JSON"),
    "size": (lambda f: edit(f, lambda m: m["files"]["weights.safetensors"].update(bytes=10**30)), "the manifest says"),
    "hash": (
        lambda f: edit(f, lambda m: m["files"]["weights.safetensors"].update(sha256="0" * 64)),
        "its sha256 differs",
    ),
    "entry": (lambda f: edit(f, lambda m: m["files"].update({"weights.safetensors": None})), "does not describe"),
    "bool": (
        lambda f: edit(f, lambda m: m["files"]["weights.safetensors"].update(bytes=True)),
        "'bytes' must be a whole",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_refused_with_the_file_and_the_reason(name, model):
    harm, word = DAMAGE[name]
    harm(model)
    with pytest.raises(FormatError, match=word) as caught:
        read(model, "model")
    assert str(model) in str(caught.value)


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/b", "a\\b", "nul\0", "C:\\x", "C:x", "", ".", "Weights.safetensors", "con"]
)
def test_no_name_in_a_manifest_leads_anywhere(name, model):
    edit(model, lambda m: m["files"].update({name: m["files"]["weights.safetensors"]}))
    assert "names files other than 'weights.safetensors'" in refused(model)
    edit(model, lambda m: m["files"].pop("weights.safetensors"))
    assert "names files other than 'weights.safetensors'" in refused(model)


ENTRY = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        struct.pack("<Q", 2**63) + b"{}",
        safetensors(b"{"),
        safetensors(b"\xff\xff"),
        safetensors(b"[" * 10_000),
        safetensors([]),
        safetensors({"a": 1}),
        safetensors({"a": ENTRY}),
        safetensors({"a": ENTRY}, b"12345"),
        safetensors({"a": ENTRY | {"shape": [2**62]}}, b"1234"),
        safetensors({"a": ENTRY | {"shape": [2**40, 2**40], "data_offsets": [0, 2**63]}}, b"1234"),
        safetensors({"a": ENTRY | {"shape": [0, 2**63 + 1], "data_offsets": [0, 0]}}),
        safetensors({"a": ENTRY | {"shape": [0] + [2**40] * 4, "data_offsets": [0, 0]}}),
        safetensors({"a": ENTRY | {"shape": [-1]}}, b"1234"),
        safetensors({"a": ENTRY | {"data_offsets": [4, 0]}}, b"1234"),
        safetensors({"a": ENTRY, "b": ENTRY}, b"1234"),
        safetensors({"a": ENTRY | {"dtype": "F99"}}, b"1234"),
        safetensors({"a": ENTRY | {"dtype": "F4", "shape": [8]}}, b"1234"),
        safetensors({"a": ENTRY | {"dtype": "F16", "shape": [2]}}, b"1234"),
        safetensors({"a": ENTRY | {"dtype": "BOOL", "shape": [4]}}, b"\0\1\2\3"),
        safetensors({"a": ENTRY}, struct.pack("<f", math.nan)),
    ],
    ids=range(22),
)
def test_bad_weights_are_refused_even_with_the_right_hashes(data, model):
    replace_weights(model, safetensors({"a": ENTRY}, b"1234"))
    assert read(model, "model").tensors["a"].shape == (1,)
    replace_weights(model, data)
    assert "weights.safetensors" in refused(model)


def mutants(data: bytes, random: random.Random) -> Iterator[bytes]:
    """Bits flipped, ends cut off or added, pieces copied about, in endless variety."""
    while True:
        start, stop = sorted(random.choices(range(len(data) + 1), k=2))
        flipped = bytearray(data)
        for _ in range(random.choice([1, 1, 1, 8])):
            flipped[random.randrange(len(data))] ^= 1 << random.randrange(8)
        yield bytes(flipped)
        yield data[:start]
        yield data + random.randbytes(random.randrange(1, 50))
        yield data[:start] + data[stop:]
        yield data[:start] + random.randbytes(stop - start) + data[stop:]


def same_or_refused(folder: Path) -> None:
    """Nothing but a FormatError, and nothing but what was written (a flip may be without meaning: 1E-300 for 1e-300)."""
    with contextlib.suppress(FormatError):
        saved = read(folder, "model")
        assert saved.content == CONTENT
        assert all(equal(saved.tensors[name], tensor) for name, tensor in TENSORS.items())


@pytest.mark.parametrize("file", ["manifest.json", "weights.safetensors"])
def test_random_damage_to_either_file_is_refused_or_without_meaning(file, model):
    whole = (model / file).read_bytes()
    source = mutants(whole, random.Random(0))
    for _ in range(600):
        (model / file).write_bytes(next(source))
        same_or_refused(model)
    (model / file).write_bytes(whole)
    assert read(model, "model").content == CONTENT


def test_random_weights_with_the_right_hashes_end_in_tensors_or_a_format_error(model):
    whole = (model / "weights.safetensors").read_bytes()
    source, outcomes = mutants(whole, random.Random(1)), set()
    for _ in range(600):
        replace_weights(model, next(source))
        try:
            saved = read(model, "model")
        except FormatError:
            outcomes.add("refused")
        else:
            outcomes.add("read")
            assert all(isinstance(tensor, np.ndarray) for tensor in saved.tensors.values())
    assert outcomes == {"read", "refused"}


def places(value: object, path: tuple = ()) -> Iterator[tuple]:
    yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def put_at(value: object, path: tuple, new: object) -> object:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = put_at(value[path[0]], path[1:], new)
    return copy


def test_any_value_of_the_manifest_replaced_by_another_is_refused_sealed_or_not(model):
    whole = json.loads((model / "manifest.json").read_text())
    strange = [None, True, -1, 10**40, 0.5, "", "../x", [], [[]], {}, {"a": {}}, {"sha256": "x", "bytes": -1}]
    for path in places(whole):
        for new in strange:
            changed = put_at(whole, path, new)
            is_inert = path[:1] in [("content",), ("fcxplain",), ("torch",)] and isinstance(
                new, dict if path == ("content",) else str if len(path) == 1 else object
            )
            for sealed in (False, True):
                if sealed and isinstance(changed, dict):
                    seal(changed)
                (model / "manifest.json").write_text(json.dumps(changed))
                if sealed and is_inert:
                    read(model, "model")
                elif changed != whole:
                    refused(model)


# Crashes


@needs_fork
def test_killed_at_any_step_the_old_or_the_new_is_there_and_the_next_write_tidies_up(tmp_path):
    folder, seen = tmp_path / "model", []
    for step in range(1, 100):
        write(folder, "model", OLD, TENSORS, overwrite=True)
        survived = killed_at(step, lambda: write(folder, "model", NEW, TENSORS, overwrite=True))
        seen.append(read(folder, "model").content["version"])
        write(folder, "model", OLD, TENSORS, overwrite=True)
        assert os.listdir(tmp_path) == ["model"]
        if survived:
            break
    assert survived
    assert seen == sorted(seen, reverse=True)
    assert {"old", "new"} == set(seen)
    assert seen.count("new") > 3


@needs_fork
def test_killed_at_any_step_of_a_first_write_there_is_nothing_or_all_of_it(tmp_path):
    folder = tmp_path / "model"
    for step in range(1, 100):
        survived = killed_at(step, lambda: write(folder, "model", NEW, TENSORS))
        if folder.exists():
            assert read(folder, "model").content == NEW
            shutil.rmtree(folder)
        if survived:
            break
    write(folder, "model", NEW, TENSORS)
    assert os.listdir(tmp_path) == ["model"]


def killed_at(step: int, action: Callable[[], object]) -> bool:
    """Do it in a process that kills itself with SIGKILL before its n-th call to the file system; whether it lived."""
    child = os.fork()
    if not child:
        count = 0

        def watch(event: str, arguments: tuple) -> None:
            nonlocal count
            count += event == "open" or event.startswith(("os.", "fcntl."))
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        action()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status == 0


@pytest.mark.parametrize("failure", [OSError("no more room"), KeyboardInterrupt()])
@pytest.mark.parametrize("for_good", [False, True])
@pytest.mark.parametrize("function", ["rename", "mkdir", "fsync", "unlink", "rmdir", "listdir", "open"])
def test_a_failing_file_system_never_costs_both_versions(function, for_good, failure, tmp_path, monkeypatch):
    folder, real = tmp_path / "model", getattr(os, function)
    for turn in range(1, 9):
        write(folder, "model", OLD, TENSORS, overwrite=True)
        calls = []

        def failing(*arguments, calls=calls, turn=turn, **options):
            calls.append(1)
            if len(calls) == turn or (for_good and len(calls) > turn):
                raise failure
            return real(*arguments, **options)

        with monkeypatch.context() as patched, contextlib.suppress(FormatError, KeyboardInterrupt):
            patched.setattr(os, function, failing)
            write(folder, "model", NEW, TENSORS, overwrite=True)
        assert read(folder, "model").content in (OLD, NEW)
        if len(calls) < turn:
            break
    assert len(calls) < turn
    write(folder, "model", NEW, TENSORS, overwrite=True)
    assert os.listdir(tmp_path) == ["model"]


def test_a_rename_that_fails_once_puts_the_old_folder_back_and_leaves_nothing(tmp_path, monkeypatch):
    folder, real, calls = tmp_path / "model", os.rename, []
    write(folder, "model", OLD, {})

    def failing(source, target):
        calls.append(1)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        real(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", failing)
        with pytest.raises(FormatError, match="No space left on device"):
            write(folder, "model", NEW, {}, overwrite=True)
    assert os.listdir(tmp_path) == ["model"]
    assert read(folder, "model").content == OLD


def cut_between_renames(folder: Path) -> None:
    """The state that a crash between the two renames leaves."""
    folder.rename(folder.parent / f".{folder.name}.fcxplain-old")
    write(folder.parent / f".{folder.name}.fcxplain-new-0123abcd", "model", NEW, {})


def test_what_was_put_aside_is_read_where_it_is_and_said_to_be(tmp_path, caplog):
    folder = tmp_path / "model"
    write(folder, "model", OLD, {})
    cut_between_renames(folder)
    before = sorted(os.listdir(tmp_path))
    with caplog.at_level(logging.WARNING, "fcxplain"):
        assert read(folder, "model").content == OLD
    assert "a save was interrupted" in caplog.text
    assert sorted(os.listdir(tmp_path)) == before


def test_what_was_put_aside_counts_as_there_for_the_next_writer(tmp_path):
    folder = tmp_path / "model"
    write(folder, "model", OLD, {})
    cut_between_renames(folder)
    with pytest.raises(FormatError, match="exists already"):
        write(folder, "model", NEW, {})
    with pytest.raises(FormatError, match="holds a saved 'model'"):
        write(folder, "checkpoint", NEW, {}, overwrite=True)
    write(folder, "model", {"version": "newest"}, {}, overwrite=True)
    assert read(folder, "model").content == {"version": "newest"}
    assert os.listdir(tmp_path) == ["model"]


def test_leftovers_with_other_things_in_them_or_behind_a_link_are_not_removed(tmp_path, caplog):
    folder, mine, others = tmp_path / "model", tmp_path / ".model.fcxplain-new-mine", tmp_path / "others"
    make_mixed(mine)
    write(others, "model", OLD, {})
    (tmp_path / ".model.fcxplain-new-link").symlink_to(others)
    write(folder, "model", NEW, {})
    assert (mine / "notes.txt").read_text() == "mine"
    assert read(others, "model").content == OLD
    assert caplog.text.count("could not be removed") == 2


def test_readers_and_writers_at_once_only_ever_see_whole_folders(tmp_path):
    folder, stop, errors = tmp_path / "model", threading.Event(), []
    write(folder, "model", {"writer": 0}, {"a": torch.full((1000,), 0.0)})

    def keep_writing(number: int) -> None:
        try:
            while not stop.is_set():
                write(folder, "model", {"writer": number}, {"a": torch.full((1000,), float(number))}, overwrite=True)
        except FormatError as error:
            errors.append(error)

    writers = [threading.Thread(target=keep_writing, args=(number,)) for number in (1, 2)]
    for thread in writers:
        thread.start()
    try:
        for _ in range(200):
            saved = read(folder, "model")
            assert (saved.tensors["a"] == saved.content["writer"]).all()
    finally:
        stop.set()
        for thread in writers:
            thread.join()
    assert not errors
    assert os.listdir(tmp_path) == ["model"]


# Fingerprints


def test_a_fingerprint_does_not_depend_on_the_order_of_keys():
    one = {"a": 1, "b": {"x": [1.5, None], "y": "t"}}
    other = {"b": {"y": "t", "x": (1.5, None)}, "a": 1}
    assert fingerprint(one) == fingerprint(other)
    assert len(fingerprint(one)) == 64


def test_a_fingerprint_is_the_same_in_every_run_and_on_every_machine():
    known = hashlib.sha256(b"list\0" + hashlib.sha256(b"text\0a").digest()).hexdigest()
    assert fingerprint("a") == known
    data = struct.pack("<2f", 1.0, 2.0)
    inner = hashlib.sha256(b"array <f4 (2,)\0" + data).digest()
    assert fingerprint(torch.tensor([1.0, 2.0])) == hashlib.sha256(b"list\0" + inner).hexdigest()


def test_different_things_have_different_fingerprints():
    different = [
        (),
        ([],),
        ({},),
        ("",),
        (b"",),
        (None,),
        ("None",),
        (0,),
        (0.0,),
        (-0.0,),
        (False,),
        ("0",),
        (1,),
        (1.0,),
        (True,),
        ([1, 2],),
        (1, 2),
        ([12],),
        ([1], [2]),
        ([[1], 2],),
        ([1, [2]],),
        ("ab", "c"),
        ("a", "bc"),
        ({"a": "b"},),
        ({"b": "a"},),
        (["a", "b"],),
        ({"a": 1, "b": 2},),
        ({"a": 2, "b": 1},),
        (math.nan,),
        (math.inf,),
        *[(torch.zeros(4, dtype=dtype),) for dtype in (torch.float32, torch.float64, torch.int64, torch.bool)],
        (torch.zeros(2, 2),),
        (torch.zeros(4, 1),),
        (torch.zeros(0),),
        (torch.zeros(0, 2),),
        (torch.tensor(0.0),),
        (torch.tensor([0.0, 1.0]),),
        (torch.tensor([1.0, 0.0]),),
        (np.float32(0.0),) * 2,
    ]
    assert len({fingerprint(*parts) for parts in different}) == len(different)


def test_arrays_and_tensors_of_the_same_numbers_are_one_whatever_their_memory():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    same = [array, torch.from_numpy(array), np.asfortranarray(array), array.astype(">f4"), torch.tensor(array).T.T]
    same += [array.repeat(2, axis=0)[::2], torch.nn.Parameter(torch.tensor(array))]
    assert len({fingerprint(each) for each in same}) == 1
    assert fingerprint(array.T) != fingerprint(array)
    assert fingerprint(np.float64(0.1)) == fingerprint(0.1)


def test_what_has_no_canonical_form_has_no_fingerprint():
    for part in (object(), {1, 2}, np.array(["a", None], dtype=object), [lambda: 0]):
        with pytest.raises(TypeError, match="cannot fingerprint"):
            fingerprint(part)


@given(st.lists(plain, max_size=4), st.lists(plain, max_size=4))
@examples(80)
def test_fingerprints_are_equal_just_where_the_data_is(one, other):
    def text(value: object) -> str:
        if isinstance(value, dict):
            return "{" + ",".join(sorted(f"{k!r}:{text(v)}" for k, v in value.items())) + "}"
        return "[" + ",".join(map(text, value)) + "]" if isinstance(value, list) else repr(value)

    assert (fingerprint(one) == fingerprint(other)) == (text(one) == text(other))
