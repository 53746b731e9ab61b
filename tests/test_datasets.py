"""The benchmark data sets: counts, schemas, splitting, and the way to their raw files."""

import contextlib
import gzip
import hashlib
import http.server
import io
import os
import random
import tarfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.preprocessing import OneHotEncoder

import made_loans
from fcxplain.datasets import DATASETS, Cleaned, DatasetSpec, RawFile, load_dataset, load_table, loans, write_dataset
from fcxplain.datasets import download as downloads
from fcxplain.datasets.download import cache_folder, raw_bytes
from fcxplain.encoding import TableEncoder
from fcxplain.errors import DataError
from fcxplain.rules import holds, parse_rules
from fcxplain.schema import Schema, natural_column

ROWS = {"adult": 32_561, "adult-authors": 15_691, "census": 199_523, "law": 20_512, "folktables": 665_800}
WIDTHS = {"adult": 29, "adult-authors": 29, "census": 164, "law": 21, "folktables": 44}
COUNTS = {
    "adult": (24_720, 7_841),
    "adult-authors": (11_500, 4_191),
    "census": (187_141, 12_382),
    "law": (1_043, 19_469),
    "folktables": (420_286, 245_514),
}
RULES = {
    "adult": ["education' > education => age' > age", "education' >= education"],
    "law": ["tier' > tier => lsat' > lsat", "tier' >= tier"],
}


def at_hand(name):
    file, folder = DATASETS[name].file, os.environ.get("FCXPLAIN_DATA")
    return file.packaged or (
        folder is not None and any((Path(folder) / f"{file.name}{end}").is_file() for end in ("", ".gz"))
    )


def real(name):
    reason = f"needs {DATASETS[name].file.name} in FCXPLAIN_DATA"
    return pytest.param(name, marks=pytest.mark.skipif(not at_hand(name), reason=reason))


every_dataset = pytest.mark.parametrize("name", [real(name) for name in DATASETS if DATASETS[name].published])


@pytest.fixture(scope="module")
def loaded():
    kept = {}

    def load(name):
        if name not in kept:
            kept[name] = load_dataset(name)
        return kept[name]

    return load


def whole(data):
    return pd.concat([data.train, data.validation, data.test])


@every_dataset
def test_rows_and_classes_are_those_of_the_published_file(name, loaded):
    data = loaded(name)
    assert len(data) == ROWS[name]
    counts = whole(data)[data.label].value_counts()
    assert (counts[0], counts[1]) == COUNTS[name]
    assert data.target == 1
    assert data.classes == (0, 1)


@every_dataset
def test_every_row_fits_the_schema_and_every_level_occurs(name, loaded):
    data = loaded(name)
    table = whole(data)
    data.schema.validate(table[data.features])
    for feature in data.schema:
        assert feature.on_grid(natural_column(feature, table[feature.name])).all()
        if feature.is_category:
            assert set(table[feature.name].unique()) == set(feature.levels)
    assert list(table.columns) == [*data.features, data.label]


@every_dataset
def test_encoded_width_is_that_of_the_paper(name, loaded):
    data = loaded(name)
    assert TableEncoder().fit(data.schema, data.train).width_ == WIDTHS[name]


@every_dataset
def test_split_is_stratified_disjoint_and_complete(name, loaded):
    data = loaded(name)
    parts = (data.train, data.validation, data.test)
    indices = [set(part.index) for part in parts]
    assert sum(map(len, indices)) == len(set.union(*indices)) == ROWS[name]
    share = COUNTS[name][1] / ROWS[name]
    for part, size in zip(parts, (0.8, 0.1, 0.1), strict=True):
        assert abs(len(part) - size * ROWS[name]) <= 3
        assert abs(part[data.label].sum() - share * size * ROWS[name]) <= 2


@every_dataset
def test_scikit_learn_encodes_the_categories_as_they_come(name, loaded):
    data = loaded(name)
    columns = list(data.schema.categories)
    encoder = OneHotEncoder(handle_unknown="error").fit(data.train[columns].head(500))
    assert encoder.transform(data.train[columns].head(500)).shape[0] == 500


@every_dataset
def test_immutables_and_rules_are_declared(name, loaded):
    data = loaded(name)
    immutable = {"census": ("race", "sex"), "law": ("male",)}.get(name, ("race", "gender"))
    assert data.schema.immutable == immutable
    assert set(data.rules) - {"actionable"} == {"unary", "binary"}
    for line in RULES["law" if name == "law" else "adult"]:
        assert line in data.rules["binary"].splitlines()
    assert ("lsat' >= lsat" if name == "law" else "age' >= age") in data.rules["unary"].splitlines()


def test_split_depends_on_the_seed_only():
    first, again, other = (load_dataset("adult", seed=s) for s in (3, 3, 4))
    pd.testing.assert_frame_equal(first.train, again.train)
    pd.testing.assert_frame_equal(first.test, again.test)
    assert set(first.test.index) != set(other.test.index)


def test_index_is_the_row_number_of_the_file():
    table = whole(load_dataset("adult")).sort_index()
    assert table.index.tolist() == list(range(32_561))
    assert table.loc[0, ["age", "workclass", "education", "occupation"]].tolist() == [
        39,
        "Government",
        "Bachelors",
        "White-Collar",
    ]


def test_limited_rows_keep_the_share_of_each_class():
    data = load_dataset("adult", rows=1_000, seed=1)
    assert len(data) == 1_000
    assert whole(data)["income"].sum() == round(1_000 * 7_841 / 32_561)
    assert "1,000 of 32,561 rows" in data.notes[-1]
    assert set(data.train.index) == set(load_dataset("adult", rows=1_000, seed=1).train.index)


def test_loading_leaves_global_random_state_alone():
    random.seed(0)
    torch.manual_seed(0)
    before = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    load_dataset("adult", rows=500)
    assert random.getstate() == before[0]
    assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[2])


def test_authors_rows_are_the_poor_above_35_and_the_rich_below_45():
    data = load_dataset("adult-authors")
    table = whole(data)
    assert table.loc[table["income"] == 0, "age"].min() == 36
    assert table.loc[table["income"] == 1, "age"].max() == 44
    assert "15,691 of 32,561" in data.notes[0]


def test_ranks_follow_the_degrees():
    rank = {n: dict(zip(f.levels, f.ranks, strict=True)) for n in DATASETS for f in DATASETS[n].schema if f.ranks}
    assert rank["adult"]["HS-grad"] < rank["adult"]["Assoc"] == rank["adult"]["Bachelors"]
    assert rank["adult"]["Masters"] == rank["adult"]["Prof-school"] < rank["adult"]["Doctorate"]
    assert rank["census"]["Associates degree-academic program"] == rank["census"]["Bachelors degree(BA AB BS)"]
    assert sorted(rank["census"].values())[-1] == 7
    assert rank["folktables"]["GED"] == rank["folktables"]["Bachelor"] < rank["folktables"]["Master"]
    assert DATASETS["law"].schema["tier"].ranks == (0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize("name", [real("folktables")])
def test_folktables_is_the_national_sample_unless_all_rows_are_asked_for(name, loaded):
    assert "40 %" in loaded(name).notes[0]
    everything = load_dataset(name, sample="all")
    assert len(everything) == 1_338_936
    everything.schema.validate(whole(everything)[everything.features])
    assert "46 states complete" in everything.notes[0]


@pytest.mark.parametrize("name", [real("law")])
def test_law_counts_the_rows_it_drops_and_keeps_whole_numbers(name, loaded):
    data = loaded(name)
    assert data.notes[0].startswith("Dropped 1,895 of 22,407 rows")
    assert (data.train[["tier", "fam_inc", "decile3", "male"]].dtypes == np.int64).all()
    assert data.train.groupby("tier")["lsat"].mean().is_monotonic_increasing


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(DataError, match=r"no data set 'adlut'\. Did you mean 'adult'\?"):
        load_dataset("adlut")
    with pytest.raises(DataError, match=r"no sample of 'adult' called 'national'"):
        load_dataset("adult", sample="national")
    with pytest.raises(DataError, match="rows is 0"):
        load_dataset("adult", rows=0)
    with pytest.raises(DataError, match="too few to split"):
        load_dataset("adult", rows=2)


def test_every_spec_is_complete():
    for name, spec in DATASETS.items():
        assert isinstance(spec, DatasetSpec)
        assert spec.name == name
        assert all((spec.title, spec.citation, spec.licence, spec.file.by_hand, spec.note))
        assert len(spec.file.sha256) == 64
    assert callable(spec.read)
    assert isinstance(DATASETS["adult"].read(raw_bytes(DATASETS["adult"].file), "all"), Cleaned)


def test_adult_travels_with_its_attribution():
    folder = Path(load_dataset.__code__.co_filename).parent
    text = (folder / "ATTRIBUTION.md").read_text(encoding="utf-8")
    assert "CC BY 4.0" in text
    assert hashlib.sha256(gzip.decompress((folder / "adult.data.gz").read_bytes())).hexdigest() in text


# The way to a raw file.

CONTENT = b"age,label\n" + b"".join(b"%d,%d\n" % (i, i % 2) for i in range(2_000))


def raw(*addresses, content=CONTENT):
    return RawFile("people.csv", hashlib.sha256(content).hexdigest(), len(content), "Ask the bureau.", addresses)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FCXPLAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def tmp_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("FCXPLAIN_DATA", raising=False)
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def serve():
    """Serve bodies by path on an ephemeral port; a body cut short is announced at its full length."""
    asked = []
    with contextlib.ExitStack() as stack:

        def start(bodies, cut=0):
            class Handler(http.server.BaseHTTPRequestHandler):
                def do_GET(self):
                    asked.append(self.path)
                    body = bodies.get(self.path)
                    if body is None:
                        self.send_error(404)
                        return
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body[: len(body) - cut])

                def log_message(self, *args):
                    pass

            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
            return f"http://127.0.0.1:{server.server_port}"

        yield start, asked


def zipped(**members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def tarred(**members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


PACKAGES = {
    "plain": CONTENT,
    "gzip": gzip.compress(CONTENT),
    "zip": zipped(readme=b"hello", renamed=CONTENT),
    "tar in gzip in zip": zipped(test=b"x", inner=gzip.compress(tarred(other=b"y" * 99, data=CONTENT))),
    "zip in zip": zipped(inner=zipped(data=CONTENT)),
    "gzip in zip": zipped(inner=gzip.compress(CONTENT)),
}


@pytest.mark.parametrize("end", ["", ".gz"])
def test_file_in_the_given_folder_is_used_plain_or_gzipped(tmp_folder, end, monkeypatch, own_cache):
    content = gzip.compress(CONTENT) if end else CONTENT
    (tmp_folder / f"people.csv{end}").write_bytes(content)
    assert raw_bytes(raw(), tmp_folder) == CONTENT
    monkeypatch.setenv("FCXPLAIN_DATA", str(tmp_folder))
    assert raw_bytes(raw()) == CONTENT
    assert not own_cache.exists()


@pytest.mark.parametrize(
    "content",
    [CONTENT[:-1], CONTENT + b"\n", gzip.compress(CONTENT)[:-20], gzip.compress(CONTENT.replace(b"7", b"8")), b""],
)
def test_altered_file_of_the_user_is_named_and_neither_used_nor_touched(tmp_folder, content, serve):
    start, asked = serve
    path = tmp_folder / "people.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match="expected sha256") as caught:
        raw_bytes(raw(start({"/f": CONTENT}) + "/f"), tmp_folder)
    assert str(path) in str(caught.value)
    assert raw().sha256 in str(caught.value)
    assert path.read_bytes() == content
    assert asked == []


def test_file_that_unpacks_too_far_is_refused_without_unpacking_it(tmp_folder):
    (tmp_folder / "people.csv.gz").write_bytes(gzip.compress(bytes(50_000_000)))
    with pytest.raises(DataError, match="more than"):
        raw_bytes(raw(), tmp_folder)


@pytest.mark.parametrize("kind", PACKAGES)
def test_download_finds_the_file_in_whatever_holds_it(tmp_folder, kind, serve, own_cache):
    start, asked = serve
    wanted = raw(start({"/f": PACKAGES[kind]}) + "/f")
    assert raw_bytes(wanted) == CONTENT
    assert raw_bytes(wanted) == CONTENT
    assert asked == ["/f"]
    assert [p.name for p in own_cache.iterdir()] == ["people.csv"]


@pytest.mark.parametrize("kind", PACKAGES)
def test_truncated_download_is_never_kept(tmp_folder, kind, serve, own_cache):
    start, _ = serve
    with pytest.raises(DataError, match=r"broke off .*10 more expected"):
        raw_bytes(raw(start({"/f": PACKAGES[kind]}, cut=10) + "/f"))
    assert list(own_cache.iterdir()) == []


@pytest.mark.parametrize(
    "body",
    [
        CONTENT.replace(b"17", b"18"),
        zipped(data=CONTENT[:-1] + b"x"),
        PACKAGES["zip"][:-30],
        PACKAGES["gzip"][:-9],
        b"PK and then nothing",
        b"",
        b"<html>please sign in</html>",
    ],
)
def test_altered_download_is_never_kept(tmp_folder, body, serve, own_cache):
    start, _ = serve
    address = start({"/f": body}) + "/f"
    with pytest.raises(DataError, match=r"people\.csv") as caught:
        raw_bytes(raw(address))
    assert address in str(caught.value)
    assert list(own_cache.iterdir()) == []


def test_archive_that_unpacks_too_far_is_refused(tmp_folder, serve, own_cache, monkeypatch):
    monkeypatch.setattr(downloads, "ALLOWANCE", 10**6)
    start, _ = serve
    bomb = zipped(inner=gzip.compress(bytes(20_000_000)), data=CONTENT)
    with pytest.raises(DataError, match="unpacks to more than it should"):
        raw_bytes(raw(start({"/f": bomb}) + "/f"))
    assert list(own_cache.iterdir()) == []


def test_next_address_is_tried_when_one_fails(tmp_folder, serve):
    start, asked = serve
    site = start({"/bad": b"nothing", "/good": PACKAGES["zip"]})
    assert raw_bytes(raw(f"{site}/absent", f"{site}/bad", f"{site}/good")) == CONTENT
    assert asked == ["/absent", "/bad", "/good"]


def test_altered_file_in_the_cache_is_fetched_again(tmp_folder, serve, own_cache):
    start, asked = serve
    own_cache.mkdir()
    (own_cache / "people.csv").write_bytes(CONTENT[:500])
    assert raw_bytes(raw(start({"/f": CONTENT}) + "/f")) == CONTENT
    assert asked == ["/f"]
    assert (own_cache / "people.csv").read_bytes() == CONTENT


def test_altered_file_in_the_cache_is_reported_when_it_cannot_be_fetched(tmp_folder, own_cache):
    own_cache.mkdir()
    path = own_cache / "people.csv.gz"
    path.write_bytes(b"junk")
    with pytest.raises(DataError, match="was altered") as caught:
        raw_bytes(raw())
    assert "Ask the bureau." in str(caught.value)
    assert not path.exists()


def test_without_the_network_the_error_says_what_to_put_where(tmp_folder, own_cache):
    closed = "http://127.0.0.1:9/people.zip"
    with pytest.raises(DataError) as caught:
        raw_bytes(raw(closed))
    text = str(caught.value)
    for part in ("people.csv.gz", str(own_cache), "Ask the bureau.", closed, "FCXPLAIN_DATA", raw().sha256):
        assert part in text


@pytest.mark.parametrize(("name", "hint"), [("law", "kaggle"), ("folktables", "placed by hand")])
def test_files_without_an_address_say_how_to_get_them(tmp_folder, name, hint):
    with pytest.raises(DataError, match=hint) as caught:
        load_dataset(name, folder=tmp_folder)
    assert DATASETS[name].file.name in str(caught.value)
    assert str(tmp_folder) in str(caught.value)


def test_folder_that_is_none_is_named(tmp_folder, monkeypatch):
    with pytest.raises(DataError, match="not a folder"):
        raw_bytes(raw(), tmp_folder / "absent")
    monkeypatch.setenv("FCXPLAIN_DATA", str(tmp_folder / "absent"))
    with pytest.raises(DataError, match="FCXPLAIN_DATA"):
        raw_bytes(raw())


def test_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("FCXPLAIN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "fcxplain"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "fcxplain"


# Loans, and the rules of Adult that a person would sign


def test_loans_are_what_the_seeded_code_makes():
    made = made_loans.made()
    stored = pd.read_csv(io.BytesIO(raw_bytes(loans.LOANS.file)))
    assert made.to_csv(index=False, lineterminator="\n").encode() == raw_bytes(loans.LOANS.file)
    assert stored["employed"].isna().sum() == made_loans.GAPS
    assert stored["application"].is_unique


def test_loans_fit_their_schema_and_keep_their_rules():
    data = load_dataset("loans")
    table = whole(data)
    data.schema.validate(table[data.features])
    assert len(data) == made_loans.ROWS - made_loans.GAPS
    assert data.schema.class_title(data.target) == "approved"
    for rule in parse_rules(data.rules["actionable"], data.schema):
        assert holds(rule, table, table).all()


def test_a_data_set_is_written_as_a_table_of_ones_own(tmp_path):
    written = write_dataset("loans", tmp_path)
    assert [path.name for path in written] == ["loans.csv", "loans.toml", "loans.rules"]
    schema = Schema.from_toml(tmp_path / "loans.toml")
    assert schema == load_dataset("loans").schema
    data = load_table(tmp_path / "loans.csv", label="approved", target="yes", schema=schema, index="application")
    assert len(data) == made_loans.ROWS - made_loans.GAPS
    with pytest.raises(DataError, match="already exists"):
        write_dataset("loans", tmp_path)


def test_actionable_rules_of_adult_have_ranks_that_fit_and_ask_nothing_personal():
    data = load_dataset("adult", rows=500)
    assert data.under("binary").schema == data.schema
    own = data.under("actionable")
    assert own.schema["education"].ranks == tuple(range(8))
    rules = parse_rules(data.rules["actionable"], own.schema)
    fixed = {rule.freezes for rule in rules if rule.freezes} | set(own.schema.immutable)
    assert {"marital_status", "race", "gender"} <= fixed
    now = own.train.iloc[[0]].assign(age=30, education="HS-grad")
    degree = now.assign(education="Bachelors")
    assert not all(holds(rule, now, degree.assign(age=33)).all() for rule in rules)
    assert all(holds(rule, now, degree.assign(age=34)).all() for rule in rules)
