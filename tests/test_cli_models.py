"""`fcxplain fit`, `explain`, `evaluate` and `graph`, run as a user would, on a small table of one's own and on Adult."""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from commands import run
from fcxplain import load_table, train_classifier
from fcxplain.causal import CausalGraph
from fcxplain.cli.progress import TrainingProgress
from fcxplain.datasets.source import Source
from fcxplain.errors import DataError, FcxError
from fcxplain.explainer import FCx
from fcxplain.explanation import read_answers
from fcxplain.generator.settings import LossWeights
from fcxplain.generator.training import Callback, Training
from fcxplain.metrics import METRICS
from fcxplain.settings import read_settings
from processes import start, wait

OWN = ("--data", "loans.csv", "--label", "approved", "--target", "yes", "--rules", "my.rules", "--as-published")
QUICK = ("--epochs", "1", "--set", "schedule__steps=5")
TERMS = [name for name, _ in LossWeights()]
# A torch module has gradients of its own, so that nothing has to be imitated.
MODULE = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 1))
with torch.no_grad():
    model[0].weight[:] = torch.tensor([[0.0, 4.0, -4.0, 0.0, 0.0, 0.0]])
    model[0].bias[:] = 0.0
number = 7
"""


def loans(rows: int = 200) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": generator.integers(18, 80, rows),
            "income": generator.integers(10, 90, rows) * 100,
            "amount": generator.integers(1, 99, rows) * 50,
            "job": generator.choice(["cook", "clerk", "smith"], rows),
        }
    )
    return table.assign(approved=np.where(table["income"] > table["amount"], "yes", "no"))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, rules and a model fitted to them."""
    folder = tmp_path_factory.mktemp("shop")
    loans().to_csv(folder / "loans.csv", index=False)
    (folder / "my.rules").write_text("age' >= age\namount' <= 5 * income'\n")
    done = run("fit", *OWN, "--epochs", 2, "--out", "model", folder=folder)
    assert done.code == 0, done.err
    assert "trained on" in done.out
    assert "2 epochs" in done.out
    assert "saved in model" in done.out
    assert "next: fcxplain explain model loans.csv\n" in done.out
    assert re.search(r"training on \d+ refused rows, for at most 2 epochs", done.err)
    assert not any(f" {term} " in done.err for term in TERMS), (
        "where nobody watches, nobody reads the terms of the loss"
    )
    assert not (folder / "model.checkpoint").exists()
    return folder


def test_every_command_teaches_by_example(tmp_path: Path):
    for command in ("fit", "explain", "evaluate", "graph"):
        done = run(command, "--help", folder=tmp_path)
        assert (done.code, f"Example: fcxplain {command}" in done.words) == (0, True)


# fit


def test_fit_tells_its_figures_as_json_and_keeps_where_the_data_came_from(shop: Path, tmp_path: Path):
    done = run("fit", *OWN, "--epochs", 1, "--rows", 120, "--seed", 3, "--out", tmp_path / "m", "--json", folder=shop)
    told = json.loads(done.out)
    assert told["epochs"] == told["best_epoch"] == 1
    assert 0 < told["rows"] < 120
    assert told["model"] == str(tmp_path / "m")
    kept = FCx.load(tmp_path / "m")
    assert kept.source_ == {
        "data": str(shop / "loans.csv"),
        "label": "approved",
        "rows": 120,
        "seed": 3,
        "classifier": "paper",
        "schema": None,
        "sha256": sha256(shop / "loans.csv"),
        "index": None,
    }
    assert len(Source(**kept.source_).load()) == 120


def test_without_a_generator_a_model_is_fitted_explained_and_verified(shop: Path, tmp_path: Path):
    folder, answers = tmp_path / "quick", tmp_path / "answers.parquet"
    done = run("fit", *OWN[:-1], "--no-generator", "--out", folder, folder=shop)
    assert (done.code, "ready to search, without a generator" in done.out) == (0, True)
    told = json.loads(
        run("fit", *OWN[:-1], "--no-generator", "--out", folder, "--overwrite", "--json", folder=shop).out
    )
    assert told["generator"] is False
    done = run("explain", folder, "loans.csv", "--out", answers, "--all-verified", folder=shop)
    assert done.code == 0, done.err
    assert run("verify", folder, "loans.csv", answers, folder=shop).code == 0
    assert "success" in run("evaluate", folder, "--limit", 5, "--metrics", "success", folder=shop).out
    assert "needs the generator" in run("explain", folder, "loans.csv", "--draws", 1, folder=shop).err
    assert "needs the generator" in run("explain", folder, "loans.csv", "--quick", folder=shop).err


def test_a_built_in_data_set_gets_the_papers_settings(tmp_path: Path):
    small = ("--rows", "600", "--epochs", "1", "--set", "schedule__batch=256")
    done = run("fit", "--data", "adult", "--rules", "binary", "--as-published", *small, "--out", "m", folder=tmp_path)
    assert done.code == 0, done.err
    kept = FCx.load(tmp_path / "m")
    expected = FCx.as_published("binary", "adult")
    assert (kept.architecture, kept.terms, kept.hard) == (expected.architecture, expected.terms, "hinge")
    assert (kept.schedule.epochs, kept.schedule.batch) == (1, 256)
    assert len(kept.task_.rules) == 3
    explained = run("explain", "m", "adult", "--json", folder=tmp_path)
    source = Source(**kept.source_)
    assert [r["row"] for r in json.loads(explained.out)["rows"]] == source.load().test.index.tolist()


def test_by_default_only_verified_answers_are_handed_out(shop: Path, tmp_path: Path):
    own = [word for word in OWN if word != "--as-published"]
    assert run("fit", *own, *QUICK, "--out", tmp_path / "m", folder=shop).code == 0
    assert FCx.load(tmp_path / "m").search
    done = run("explain", tmp_path / "m", "loans.csv", "--prefer", "sparse", "--json", folder=shop)
    found = json.loads(done.out)
    assert {a["status"] for a in found["answers"]} == {"verified"}
    assert all(a["passed"] for a in found["answers"])
    quick = json.loads(run("explain", tmp_path / "m", "loans.csv", "--quick", "--json", folder=shop).out)
    assert {a["status"] for a in quick["answers"]} == {"verified"}
    wrong = run("explain", tmp_path / "m", "loans.csv", "--prefer", "spares", folder=shop)
    assert wrong.code == 2
    assert "Did you mean 'sparse'" in wrong.err


def test_settings_and_a_graph_reach_the_explainer(shop: Path, tmp_path: Path):
    graph = CausalGraph(("age", "income", "amount", "job"), (("age", "income"),))
    graph.to_dot(tmp_path / "graph.dot")
    chosen = ("--set", "architecture__hidden=[8, 6]", "--set", "loss_weights__density=0", "--learning-rate", "0.05")
    more = ("--epochs", "1", "--graph", tmp_path / "graph.dot", "--out", tmp_path / "m")
    assert run("fit", *OWN, *chosen, *more, folder=shop).code == 0
    kept = FCx.load(tmp_path / "m")
    assert (kept.architecture.hidden, kept.loss_weights.density, kept.schedule.learning_rate) == ((8, 6), 0.0, 0.05)
    assert kept.graph_ == graph
    assert run("graph", tmp_path / "m", "--bootstrap", 2, folder=shop).code == 2


def test_settings_are_read_by_their_types_and_every_mistake_is_told():
    fcx = FCx()
    read = read_settings(
        ["significance=1", "n_effective=none", "schedule__patience=3", "terms__sparsity=threshold"], fcx
    )
    assert read == {"significance": 1.0, "n_effective": None, "schedule__patience": 3, "terms__sparsity": "threshold"}
    assert type(read["significance"]) is float
    wrong = ["latent=5", "schedule__epochs=none", "terms__sparsity=l2", "schedule__epoch=1", "seed", "architecture=1"]
    with pytest.raises(DataError) as error:
        read_settings(wrong, fcx)
    told = [str(fault) for fault in error.value.faults]
    assert len(told) == len(wrong)
    assert "There is architecture__latent." in told[0]
    assert "'none' is not a whole number" in told[1]
    assert "one of l1, threshold" in told[2]
    assert "Did you mean 'schedule__epochs'?" in told[3]


def test_a_killed_fit_goes_on_and_ends_with_the_same_weights(shop: Path, tmp_path: Path):
    settings = (*OWN, "--epochs", "15")
    process = start("fit", *settings, "--out", tmp_path / "killed", folder=shop, said=tmp_path / "said.txt")
    checkpoint = tmp_path / "killed.checkpoint" / "manifest.json"
    wait(process, checkpoint.exists)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    again = run("fit", *settings, "--out", tmp_path / "killed", folder=shop)
    assert again.code == 0, again.err
    assert re.search(r"^resuming after epoch \d+$", again.err, re.MULTILINE)
    assert run("fit", *settings, "--out", tmp_path / "whole", folder=shop).code == 0
    weights = [sha256(tmp_path / name / "weights.safetensors") for name in ("killed", "whole")]
    assert weights[0] == weights[1]
    assert not checkpoint.parent.exists()


def test_a_checkpoint_of_another_fit_is_refused_and_one_that_was_asked_for_stays(shop: Path, tmp_path: Path):
    place = ("--checkpoint", tmp_path / "state", "--epochs", 1)
    assert run("fit", *OWN, *place, "--out", tmp_path / "a", folder=shop).code == 0
    assert (tmp_path / "state" / "manifest.json").exists()
    done = run("fit", *OWN, *place, "--seed", 1, "--out", tmp_path / "b", folder=shop)
    assert (done.code, "belongs to another fit" in done.words) == (2, True)


def test_a_classifier_of_ones_own_is_imported_and_asked_for_by_name(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_scores.py").write_text(MODULE)
    importlib.invalidate_caches()
    for name in ("loans.csv", "my.rules"):
        shutil.copy(shop / name, tmp_path)
    fit = ("fit", *OWN, "--epochs", "1", "--out", "m", "--classifier")
    missing = run(*fit, "my_scors:model", folder=tmp_path)
    assert "No module named 'my_scors'" in missing.words
    assert "Did you mean 'model'?" in run(*fit, "my_scores:modl", folder=tmp_path).words
    assert "is not a classifier" in run(*fit, "my_scores:number", folder=tmp_path).words
    assert run(*fit, "my_scores:model", folder=tmp_path).code == 0
    # A folder does not get to say which code is run.
    unnamed = run("explain", "m", "loans.csv", folder=tmp_path)
    assert (unnamed.code, "Pass it: --classifier my_scores:model." in unnamed.words) == (2, True)
    assert run("graph", "m", folder=tmp_path).code == 0
    named = run("explain", "m", "loans.csv", "--classifier", "my_scores:model", "--json", folder=tmp_path)
    refused = load_table(tmp_path / "loans.csv", label="approved")
    assert len(json.loads(named.out)["rows"]) == len(refused)


def test_a_classifier_that_is_not_saved_is_trained_again_from_the_same_rows(shop: Path, tmp_path: Path):
    fit = ("fit", *OWN[:-1], "--no-generator", "--classifier", "logistic", "--out", tmp_path / "m")
    assert run(*fit, folder=shop).code == 0
    done = run("explain", tmp_path / "m", "loans.csv", "--json", folder=shop)
    assert done.code == 0, done.err
    data = load_table(shop / "loans.csv", label="approved", target="yes")
    expected = train_classifier(data, "logistic").predict(loans())
    already = [r["status"] == "already" for r in json.loads(done.out)["rows"]]
    assert already == (expected == "yes").tolist()


def test_overrides_hold_in_tables_and_in_streams_and_a_small_budget_is_told(shop: Path, tmp_path: Path):
    fit = ("fit", *OWN[:6], "--classifier", "logistic", "--no-generator")
    assert run(*fit, "--set", "oracle=model", "--out", tmp_path / "m", folder=shop).code == 0
    table = loans(30)
    row = int(table.index[table["approved"] == "no"][0])
    table.to_csv(tmp_path / "rows.csv", index=False)
    table.to_parquet(tmp_path / "rows.parquet")
    (tmp_path / "own.csv").write_text(f"row,freeze\n{row},income\n")
    (tmp_path / "wrong.csv").write_text("row,freeze\n999,income\n")
    asked = ("--classifier", "logistic", "--overrides")
    short = run("explain", "m", "rows.csv", *asked, "own.csv", "--calls", 5, folder=tmp_path)
    assert "of the verified answers are the best so far: the budget ended before" in short.words, short.err
    found = json.loads(run("explain", "m", "rows.csv", *asked, "own.csv", "--json", folder=tmp_path).out)
    mine = next(c for c in found["answers"] if c["row"] == row)
    assert "income" not in {change["feature"] for change in mine["changes"]}
    assert "income' == income" in {rule["rule"] for rule in mine["rules"]}
    streams = ("explain", "m", "rows.parquet", "--out", "answers.parquet", *asked)
    assert run(*streams, "own.csv", folder=tmp_path).code == 0
    stored = pd.read_parquet(tmp_path / "answers.parquet").set_index("row")["certificate"]
    assert json.loads(stored.loc[row])["changes"] == mine["changes"]
    wrong = run(*streams, "wrong.csv", folder=tmp_path)
    assert (wrong.code, "row '999': is not one of the rows to explain" in wrong.words) == (2, True)


def test_an_onnx_file_is_taken_if_it_answers_as_the_model_fitted_to(shop: Path, tmp_path: Path):
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    layers = FCx.load(shop / "model").task_.classifier.module
    write_onnx(onnx, layers, tmp_path / "same.onnx")
    done = run("explain", "model", "loans.csv", "--classifier", tmp_path / "same.onnx", "--json", folder=shop)
    assert done.code == 0, done.err
    assert (
        json.loads(done.out)["counts"]
        == json.loads(run("explain", "model", "loans.csv", "--json", folder=shop).out)["counts"]
    )
    write_onnx(onnx, layers, tmp_path / "other.onnx", scale=2.0)
    other = run("explain", "model", "loans.csv", "--classifier", tmp_path / "other.onnx", folder=shop)
    assert (other.code, "differs from the one" in other.words) == (2, True)


def write_onnx(onnx, layers, path: Path, scale: float = 1.0) -> None:
    """A stack of linear layers as an ONNX model with a softmax at its end."""
    nodes, weights, last = [], [], "x"
    for i, layer in enumerate(layers):
        matrix, shift = layer.weight.detach().numpy() * scale, layer.bias.detach().numpy()
        weights += [onnx.numpy_helper.from_array(a, f"{n}{i}") for a, n in ((matrix, "w"), (shift, "b"))]
        nodes.append(onnx.helper.make_node("Gemm", [last, f"w{i}", f"b{i}"], [f"z{i}"], transB=1))
        last = f"z{i}"
    nodes.append(onnx.helper.make_node("Softmax", [last], ["p"]))
    width, classes = layers[0].weight.shape[1], layers[-1].weight.shape[0]
    ends = [
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", w])
        for n, w in (("x", width), ("p", classes))
    ]
    graph = onnx.helper.make_graph(nodes, "linear", ends[:1], ends[1:], weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


def test_the_bar_shows_the_epoch_and_every_term_and_gives_the_cursor_back(shop: Path):
    fcx = FCx.load(shop / "model")
    screen = io.StringIO()

    class Slow(Callback):
        def on_epoch_begin(self, training: Training) -> None:
            # Two epochs may be over before the screen is drawn again.
            time.sleep(0.3)

    with TrainingProgress(Console(file=screen, force_terminal=True, width=200)) as progress:
        fcx.fit(fcx.task_, callbacks=[progress, Slow()])
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert "epoch 2 of 2" in shown
    assert re.search(r"epoch 2 of 2 .*%, 0:0\d left", shown)
    # As published, with weights of ours, it imitates no search and leaves out the authors' sums.
    assert all(f"{term} " in shown for term in TERMS if term not in ("imitation", "sums"))
    assert progress.rows > 0
    assert screen.getvalue().count("\x1b[?25h") == screen.getvalue().count("\x1b[?25l") > 0


def test_the_bar_goes_away_when_the_training_fails(shop: Path):
    fcx = FCx.load(shop / "model").set_params(schedule__learning_rate=1e30)
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True)
    with pytest.raises(FcxError, match="epoch"), TrainingProgress(console) as progress:
        fcx.fit(fcx.task_, callbacks=[progress])
    assert screen.getvalue().count("\x1b[?25h") == screen.getvalue().count("\x1b[?25l") > 0


# explain


def test_explain_shows_what_changes_and_says_how_sure_it_is(shop: Path):
    done = run("explain", "model", "loans.csv", folder=shop)
    assert (done.code, done.err) == (0, ""), "the label beside the features is nobody's mistake"
    assert re.search(r"(age|income|amount|job): \S+ -> \S+", done.out)
    assert "200 rows" in done.out
    assert "already: has the desired outcome as it is" in done.out
    assert "FCx as published: one draw per row, no repair and no search" in done.words


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_answers_are_written_in_every_format(shop: Path, tmp_path: Path, ending: str):
    path = tmp_path / f"answers.{ending}"
    done = run("explain", "model", "loans.csv", "-k", 2, "--out", path, "--json", folder=shop)
    told = json.loads(done.out)
    fcx = FCx.load(shop / "model")
    expected = fcx.explain(loans(), k=2)
    assert told["counts"] == expected.counts
    assert told["answers"] == len(expected.answers) == 2 * int(expected.asked.sum())
    if ending == "parquet":
        pd.testing.assert_frame_equal(read_answers(path, fcx.task_).answers, expected.answers)
    elif ending == "csv":
        assert pd.read_csv(path)["status"].tolist() == expected.frame["status"].tolist()
    else:
        assert json.loads(path.read_text()) == json.loads(expected.to_json())


def test_with_all_verified_a_row_without_a_verified_answer_ends_with_1(shop: Path, tmp_path: Path):
    status = FCx.load(shop / "model").explain(loans()).status
    assert set(status) == {"verified", "best_effort", "already"}
    loans()[(status != "best_effort").to_numpy()].to_csv(tmp_path / "good.csv", index=False)
    assert run("explain", "model", tmp_path / "good.csv", "--all-verified", folder=shop).code == 0
    assert run("explain", "model", "loans.csv", "--all-verified", folder=shop).code == 1
    assert run("explain", "model", "loans.csv", folder=shop).code == 0


def test_codes_in_a_file_are_read_by_the_models_schema(tmp_path: Path):
    table = loans().assign(job=loans()["job"].map({"cook": "1", "clerk": "2", "smith": "x"}))
    table.to_csv(tmp_path / "loans.csv", index=False)
    fit = ("fit", *OWN[:6], "--no-generator", "--out", "m")
    assert run(*fit, folder=tmp_path).code == 0
    # Without the x, a reader of its own would take these for numbers.
    table[table["job"] != "x"].drop(columns="approved").to_csv(tmp_path / "rows.csv", index=False)
    done = run("explain", "m", "rows.csv", folder=tmp_path)
    assert done.code == 0, done.err


BAD_ROWS = {"job": ["cook", "pirate", None, "cook"], "income": [100, 200, 300, 0.5]}


def test_rows_that_do_not_fit_are_unreadable_and_cost_no_other_its_answer(shop: Path, tmp_path: Path):
    loans().head(4).assign(**BAD_ROWS).to_csv(tmp_path / "rows.csv", index=False)
    done = run("explain", "model", tmp_path / "rows.csv", folder=shop)
    assert (done.code, done.err) == (0, "")
    assert "row 1, unreadable: Sequential: reads encoded columns, which have none for 'pirate'" in done.words
    assert "row 2, unreadable: column 'job': is empty" in done.words
    assert "row 3, unreadable: column 'income': is not a whole number: 0.5" in done.words
    assert "3 unreadable: does not fit the schema, or the model fails on it (rows 1, 2, 3)" in done.words
    assert "4 rows, 1 answers" in done.words


def test_with_strict_rows_that_do_not_fit_are_refused_with_every_fault(shop: Path, tmp_path: Path):
    bad = loans().head(4).assign(**BAD_ROWS)
    for rows, places in ((bad, ("job", "income")), (bad.drop(columns="age"), ("age", "job", "income"))):
        rows.to_csv(tmp_path / "rows.csv", index=False)
        done = run("explain", "model", tmp_path / "rows.csv", "--strict", folder=shop)
        assert (done.code, done.out) == (2, "")
        assert all(f"column '{place}'" in done.err for place in places)
        assert f"({len(places)} faults)" in done.err
        assert "Traceback" not in done.err


def test_with_all_verified_a_row_that_the_model_refuses_ends_with_1(shop: Path, tmp_path: Path):
    loans().head(2).assign(job=["cook", "pirate"]).to_csv(tmp_path / "rows.csv", index=False)
    done = run("explain", "model", tmp_path / "rows.csv", "--all-verified", folder=shop)
    assert (done.code, "unreadable" in done.out) == (1, True)


# evaluate


def test_evaluate_measures_the_refused_rows_of_the_test_part(shop: Path):
    found = json.loads(run("evaluate", "model", "--json", folder=shop).out)
    fcx = FCx.load(shop / "model")
    test = load_table(shop / "loans.csv", label="approved").test[list(fcx.task_.schema.names)]
    refused = test[fcx.task_.refused(test)]
    assert found["asked"] == len(refused)
    assert found["values"]["success"] == METRICS["success"](fcx.explain(refused), fcx.task_)
    table = run("evaluate", "model", "--limit", 2, folder=shop)
    assert "2 refused rows" in table.words
    assert all(name in table.out for name in METRICS)
    assert "Absent: no row has two answers." in table.words


def test_evaluate_takes_rows_metrics_and_a_convention(shop: Path):
    chosen = ("--rows", "loans.csv", "--metrics", "validity, success", "--convention", "authors")
    found = json.loads(run("evaluate", "model", *chosen, "--json", folder=shop).out)
    assert list(found["values"]) == ["validity", "success"]
    assert found["convention"] == "authors"
    fcx = FCx.load(shop / "model")
    assert found["asked"] == int(fcx.task_.refused(loans()).sum())


def test_evaluate_says_when_its_data_changed_or_is_gone(shop: Path, tmp_path: Path):
    loans().to_csv(tmp_path / "loans.csv", index=False)
    fit = ("fit", *OWN[:6], "--no-generator", "--out", "m")
    assert run(*fit, folder=tmp_path).code == 0
    loans().iloc[5:].to_csv(tmp_path / "loans.csv", index=False)
    changed = run("evaluate", "m", "--metrics", "success", folder=tmp_path)
    assert (changed.code, "has changed since the model was fitted" in changed.words) == (0, True)
    (tmp_path / "loans.csv").unlink()
    gone = run("evaluate", "m", folder=tmp_path)
    assert (gone.code, "which no longer exists" in gone.words) == (2, True)
    FCx.load(tmp_path / "m").save(tmp_path / "n", source={"notebook": 1})
    silent = run("evaluate", "n", folder=tmp_path)
    assert (silent.code, "does not record its data" in silent.words) == (2, True)


# graph


def test_a_models_graph_is_shown_and_resampled(shop: Path, tmp_path: Path):
    kept = FCx.load(shop / "model").graph_
    assert CausalGraph.from_dict(json.loads(run("graph", "model", "--json", folder=shop).out)) == kept
    assert run("graph", "model", "--bootstrap", 2, "--out", tmp_path / "g.csv", folder=shop).code == 0
    again = CausalGraph.from_csv(tmp_path / "g.csv")
    assert again.edges == kept.edges
    assert all(again.support_of(a, b) in (0.0, 0.5, 1.0) for a, b in again.edges)


@pytest.mark.parametrize("label", [(), ("--label", "approved")])
def test_a_graph_is_discovered_in_a_table_of_ones_own(shop: Path, tmp_path: Path, label: tuple[str, ...]):
    done = run("graph", "--data", "loans.csv", *label, "--bootstrap", 2, "--out", tmp_path / "g.dot", folder=shop)
    assert done.code == 0, done.err
    found = CausalGraph.from_dot(tmp_path / "g.dot")
    assert ("approved" in found.nodes) == (not label)
    shown = run("graph", "--data", "loans.csv", *label, folder=shop)
    assert f"{len(found.nodes)} features, {len(found.edges)} edges" in shown.words


# pictures


def test_graphs_and_losses_are_drawn(shop: Path, tmp_path: Path):
    assert run("graph", "model", "--out", tmp_path / "graph.svg", folder=shop).code == 0
    assert "income" in (tmp_path / "graph.svg").read_text()
    fit = ("fit", *OWN, "--epochs", 2, "--history", tmp_path / "loss.svg", "--out", tmp_path / "m")
    assert run(*fit, folder=shop).code == 0
    assert "<svg" in (tmp_path / "loss.svg").read_text()


# What is wrong is said, with code 2 and without a traceback

WRONG = {
    "a missing file": ("fit --data nowhere.csv --label a --out m", "nowhere.csv"),
    "an unknown data set": ("fit --data adlut --out m", "Did you mean 'adult'?"),
    "no label": ("fit --data loans.csv --out m", "--label NAME, one of 'age', 'income'"),
    "a label that is missing": ("fit --data loans.csv --label aproved --out m", "Did you mean 'approved'?"),
    "a target that is not a class": (
        "fit --data loans.csv --label approved --target si --out m",
        "'si' is not a class",
    ),
    "a rule with errors": ("fit --data loans.csv --label approved --rules bad.rules --out m", "no feature 'incom'"),
    "unknown rules": ("fit --data adult --rules binry --out m", "Did you mean 'binary'?"),
    "a rule file that is missing": ("fit --data loans.csv --label approved --rules no.rules --out m", "no.rules"),
    "a folder that is there": ("fit --data loans.csv --label approved --out model", "--overwrite"),
    "a folder that is not ours": ("fit --data loans.csv --label approved --out others --overwrite", "others"),
    "an unknown classifier": ("fit --data adult --rows 600 --classifier papr --out m", "Did you mean 'paper'?"),
    "a pickled classifier": ("fit --data adult --rows 600 --classifier my.rules --out m", "is not an ONNX file"),
    "an unknown constraint": ("fit --data adult --as-published --constraint ternary --out m", "ternary"),
    "a constraint for nothing": ("fit --data adult --constraint unary --out m", "--as-published"),
    "epochs of nothing": (
        "fit --data adult --no-generator --epochs 3 --out m",
        "--epochs: is for training a generator",
    ),
    "a graph that is missing": ("fit --data loans.csv --label approved --graph no.csv --out m", "no.csv"),
    "a picture without a format": ("fit --data adult --history loss.txt --out m", "Choose .svg, .png or .pdf."),
    "a model that is missing": ("explain nothing loans.csv", "nothing"),
    "a model that is a file": ("explain loans.csv loans.csv", "loans.csv"),
    "rows that are missing": ("explain model nowhere.csv", "nowhere.csv"),
    "answers without a format": ("explain model loans.csv --out answers.xls", "Choose .parquet, .csv or .json."),
    "answers in no folder": ("explain model loans.csv --out nowhere/answers.csv", "there is no folder"),
    "unknown metrics": ("evaluate model --metrics valid,success,foo", "Did you mean 'validity'?"),
    "an unknown convention": ("evaluate model --convention theirs", "'theirs'"),
    "a graph of nothing": ("graph", "--data"),
    "a graph of two things": ("graph model --data loans.csv", "either the folder"),
    "a model's graph at another level": ("graph model --significance 0.5 --label job", "Use it with --data"),
    "a graph at no level": ("graph --data loans.csv --significance 2", "significance: is 2.0"),
    "a number that is none": ("fit --data adult --epochs 0 --out m", "--epochs"),
}


@pytest.mark.parametrize(("command", "told"), WRONG.values(), ids=WRONG)
def test_bad_input_is_named(shop: Path, command: str, told: str):
    (shop / "bad.rules").write_text("age' >= age\nincom' >= income\n")
    (shop / "others").mkdir(exist_ok=True)
    (shop / "others" / "diary.txt").write_text("private")
    done = run(*command.split(), folder=shop)
    assert (done.code, done.out) == (2, "")
    assert told in done.words
    assert "Traceback" not in done.err
    assert not (shop / "m").exists()
    assert (shop / "others" / "diary.txt").read_text() == "private"


@pytest.mark.parametrize("file", ["manifest.json", "weights.safetensors"])
def test_a_damaged_model_is_refused_by_name(shop: Path, tmp_path: Path, file: str):
    shutil.copytree(shop / "model", tmp_path / "model")
    data = bytearray((tmp_path / "model" / file).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "model" / file).write_bytes(data)
    for command in (("explain", "model", shop / "loans.csv"), ("evaluate", "model"), ("graph", "model")):
        done = run(*command, folder=tmp_path)
        assert (done.code, file in done.words) == (2, True)
