"""Pictures: what is drawn, that nothing overlaps, and that the same picture is the same file."""

from __future__ import annotations

import itertools
import os
import tempfile
import warnings
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.text import Text

from effort import examples
from fcxplain import plots
from fcxplain.causal import CausalGraph
from fcxplain.errors import DataError, FcxError
from fcxplain.plots.graph import curve
from fcxplain.plots.layout import NodeBox, chained, heights, orderings, place
from fcxplain.plots.style import LONGEST_LINE, name_lines, plain, text_width
from fcxplain.training_loop import Epoch, History
from made_answers import made

HOSTILE = (
    "$\\foo",
    "<script>alert(1)</script>",
    "$a_b$",
    "&amp; \"quoted' ]]>",
    "_under",
    "年齢",
    "\x00\x1b[31m",
    "a\nb",
    " ",
    "é" * 200,
    "\ud800",
)
TERMS = ("proximity", "validity", "kl", "hard", "soft", "sparsity", "density")


def history(epochs, without=()):
    made = History()
    for number in range(1, epochs + 1):
        train = {term: 1.0 / number + i for i, term in enumerate(TERMS) if term not in without}
        validation = {term: value + 0.1 * abs(number - 3) for term, value in train.items()}
        both = (values | {"total": sum(values.values())} for values in (train, validation))
        made.epochs.append(Epoch(number, *both))
    return made


def random_graph(seed, nodes, edges, supported=True):
    rng = np.random.default_rng(seed)
    names = [f"{'a_rather_long_name_of_a_feature' if i % 3 else 'x'}_{i}" for i in range(nodes)]
    pairs = list(itertools.combinations(names, 2))
    chosen = [pairs[i] for i in rng.permutation(len(pairs))[:edges]]
    cut = len(chosen) // 5
    support = {edge: float(rng.random()) for edge in chosen} if supported else {}
    return CausalGraph(tuple(names), tuple(chosen[cut:]), tuple(chosen[:cut]), support)


def texts(figure):
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


def svg(figure, tmp_path, name="picture.svg"):
    plots.save(figure, tmp_path / name)
    return (tmp_path / name).read_bytes()


TITLE = "$\\frac & <b>"


def every_picture():
    points = pd.DataFrame({"setting": [1, 2], "measure": "m", "series": "s", "mean": [1.0, 2.0], "deviation": 0.1})
    table = pd.DataFrame(
        {"item": ["a", "a"], "series": ["paper", "ours"], "mean": [1.0, 2.0], "deviation": [0.1, None]}
    )
    return {
        "curves": lambda: plots.loss_curves(history(4), title=TITLE),
        "graph": lambda: plots.causal_graph(random_graph(0, 8, 10), title=TITLE),
        "study": lambda: plots.study(points, x=TITLE, title=TITLE),
        "bars": lambda: plots.bars(table, x=TITLE, title=TITLE),
        "frequencies": lambda: plots.change_frequencies(made(4, 9), title=TITLE),
        "shift": lambda: plots.distribution_shift(made(3, 9), title=TITLE),
        "path": lambda: plots.path(made(4, 9), title=TITLE),
        "success": lambda: plots.success_by_changes(made(4, 9), title=TITLE),
    }


@cache
def first_drawing(name, kind="svg"):
    """The file of a picture that was drawn and saved once, for all tests that hold others against it."""
    with tempfile.TemporaryDirectory() as folder:
        plots.save(every_picture()[name](), Path(folder) / f"a.{kind}")
        return (Path(folder) / f"a.{kind}").read_bytes()


# Every picture


def test_the_same_picture_is_the_same_file_in_every_format(tmp_path):
    """What may differ in a format, such as a date, does so whatever is drawn; each picture is drawn twice below."""
    other = every_picture()["bars"]()
    for kind in ("svg", "png", "pdf", "svg"):
        assert svg(other, tmp_path, f"b.{kind}") == first_drawing("bars", kind), kind


@pytest.mark.parametrize("name", every_picture())
def test_the_same_picture_is_the_same_file_and_settings_of_the_user_neither_matter_nor_change(name, tmp_path):
    draw, expected = every_picture()[name], first_drawing(name)
    with matplotlib.rc_context({"font.size": 30, "text.usetex": True, "svg.fonttype": "path", "axes.grid": False}):
        before = dict(matplotlib.rcParams)
        found = svg(draw(), tmp_path)
        assert dict(matplotlib.rcParams) == before
    assert found == expected


@pytest.mark.parametrize("name", every_picture())
def test_titles_are_text_and_not_formulas(name):
    found = [element.text for element in ElementTree.fromstring(first_drawing(name)).iter() if element.text]
    assert found.count(TITLE) == (2 if name in ("study", "bars") else 1)


# Files


def test_an_unknown_ending_is_refused_with_those_that_are_known(tmp_path):
    for name in ("picture.gif", "picture", "picture.svgz"):
        with pytest.raises(FcxError, match=r"\.svg, \.png, \.pdf"):
            plots.save(Figure(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    path = tmp_path / "nowhere" / "picture.svg"
    with pytest.raises(FcxError, match="nowhere"):
        plots.save(Figure(), path)


def test_a_save_that_fails_leaves_what_was_there(tmp_path):
    (tmp_path / "picture.svg").mkdir()
    with pytest.raises(FcxError):
        plots.save(Figure(), tmp_path / "picture.svg")
    assert [p.name for p in tmp_path.iterdir()] == ["picture.svg"]


def test_endings_may_be_upper_case_and_permissions_stay(tmp_path):
    path = tmp_path / "picture.PNG"
    path.write_bytes(b"old")
    path.chmod(0o640)
    plots.save(Figure(), path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_usual_permissions(tmp_path):
    mask = os.umask(0o022)
    os.umask(mask)
    plots.save(Figure(), tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").stat().st_mode & 0o777 == 0o666 & ~mask


# Losses


def test_losses_stand_in_the_papers_panels_and_order():
    figure = plots.loss_curves(history(5))
    assert [ax.get_ylabel() for ax in figure.axes] == [
        "total",
        "hard",
        "kl",
        "proximity",
        "density",
        "soft",
        "sparsity",
        "validity",
    ]
    assert figure.axes[0].get_title() == "(a) Training and validation loss"
    assert figure.axes[7].get_title() == "(h) Validity loss"


def test_both_curves_are_drawn_and_differ_without_colour():
    made = history(5)
    for ax in plots.loss_curves(made).axes:
        train, validation = (line for line in ax.lines if len(line.get_xdata()) == 5)
        term = ax.get_ylabel()
        assert list(train.get_ydata()) == made.curve(term, "train")
        assert list(validation.get_ydata()) == made.curve(term, "validation")
        assert list(train.get_xdata()) == [1, 2, 3, 4, 5]
        assert train.get_linestyle() != validation.get_linestyle()
        assert train.get_marker() != validation.get_marker()


def test_the_best_epoch_is_marked_in_every_panel():
    made = history(6)
    assert made.best.number == 3
    figure = plots.loss_curves(made)
    for ax in figure.axes:
        ring = ax.lines[-1]
        assert list(ring.get_xdata()) == [3]
        assert list(ring.get_ydata()) == [made.best.validation[ax.get_ylabel()]]
    assert "best epoch (3)" in texts(figure)


def test_a_term_that_was_not_used_has_an_empty_panel():
    panels = {ax.get_ylabel(): ax for ax in plots.loss_curves(history(3, without=("soft", "density"))).axes}
    for term, ax in panels.items():
        unused = term in ("soft", "density")
        assert ("not used" in [t.get_text() for t in ax.texts]) == unused
        assert bool(ax.lines) != unused


def test_a_single_epoch_stands_in_the_middle_with_a_whole_number_below():
    figure = plots.loss_curves(history(1))
    figure.draw_without_rendering()
    for ax in figure.axes:
        low, high = ax.get_xlim()
        assert low < 1 < high
        assert [t for t in ax.get_xticks() if low <= t <= high] == [1]
        assert ax.lines[1].get_marker() not in ("", "None")


def test_a_history_without_epochs_is_refused():
    with pytest.raises(DataError, match="no epochs"):
        plots.loss_curves(History())


def test_one_term_can_be_drawn_alone_and_into_axes():
    made_history = history(5)
    (panel,) = plots.loss_curves(made_history, "kl").axes
    assert panel.get_ylabel() == "kl"
    ax = Figure().subplots()
    assert plots.loss_curves(made_history, ax=ax, title="here") is ax.figure
    assert (ax.get_ylabel(), ax.get_title(), ax.get_xlabel()) == ("total", "here", "epoch")
    assert list(ax.lines[1].get_ydata()) == made_history.curve("total", "train")
    with pytest.raises(DataError, match="Did you mean 'density'"):
        plots.loss_curves(made_history, "densty")


# Graphs


def boxes_of(figure):
    return [patch for patch in figure.findobj(FancyBboxPatch) if patch.get_boxstyle().__class__.__name__ == "Round"]


def test_directed_edges_are_arrows_and_undirected_ones_plain_lines():
    graph = CausalGraph(("a", "b", "c", "d"), (("a", "b"), ("b", "c")), (("c", "d"),))
    figure = plots.causal_graph(graph)
    styles = [type(patch.get_arrowstyle()).__name__ for patch in figure.findobj(FancyArrowPatch)]
    # One plain line is the edge, the other explains it.
    assert sorted(styles) == ["Curve", "Curve", "CurveFilledB", "CurveFilledB"]
    assert {"a", "b", "c", "d", "connected, direction unknown"} <= set(texts(figure))


def test_support_is_written_on_the_edge_and_shown_by_width_and_darkness():
    edges = (("a", "b"), ("a", "c"))
    figure = plots.causal_graph(CausalGraph(("a", "b", "c"), edges, (), dict(zip(edges, (0.92, 0.1), strict=True))))
    assert {"92 %", "10 %"} <= set(texts(figure))
    sure, unsure = figure.findobj(FancyArrowPatch)
    assert sure.get_linewidth() > unsure.get_linewidth()
    assert sum(sure.get_edgecolor()[:3]) < sum(unsure.get_edgecolor()[:3])


def test_without_support_nothing_is_written_on_edges():
    figure = plots.causal_graph(CausalGraph(("a", "b"), (("a", "b"),)))
    assert sorted(texts(figure)) == ["a", "b"]


def test_features_that_stand_alone_are_grey_and_at_the_bottom():
    figure = plots.causal_graph(CausalGraph(("lonely", "a", "b", "single"), (("a", "b"),)))
    heights = {text.get_text(): text.get_position()[1] for text in figure.axes[0].texts}
    assert max(heights["lonely"], heights["single"]) < min(heights["a"], heights["b"])
    colours = {to_hex(box.get_edgecolor()) for box in boxes_of(figure)}
    assert len(colours) == 2
    shades = [box.get_edgecolor()[:3] for box in boxes_of(figure)]
    assert sum(max(shade) == min(shade) for shade in shades) == 2


@pytest.mark.parametrize("nodes", [0, 1, 45])
def test_graphs_without_edges_can_be_drawn(nodes):
    figure = plots.causal_graph(CausalGraph(tuple(f"x{i}" for i in range(nodes))))
    assert len(boxes_of(figure)) == nodes


def test_larger_graphs_have_larger_figures():
    small, large = (plots.causal_graph(random_graph(1, n, 2 * n)).get_size_inches() for n in (6, 20))
    assert (large > small).all()


@pytest.mark.parametrize(("nodes", "edges", "supported"), [(2, 1, True), (12, 30, False), (45, 60, True)])
def test_boxes_hold_their_names_and_do_not_overlap_on_the_page(nodes, edges, supported):
    figure = plots.causal_graph(random_graph(nodes, nodes, edges, supported))
    figure.draw_without_rendering()
    boxes = [box.get_window_extent() for box in boxes_of(figure)]
    page = figure.bbox
    assert len(boxes) == nodes
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    for box in boxes:
        assert page.x0 <= box.x0
        assert box.x1 <= page.x1
        assert page.y0 <= box.y0
        assert box.y1 <= page.y1
    words = [text.get_window_extent() for text in figure.axes[0].texts]
    shares = [text.get_window_extent() for text in figure.axes[0].texts if text.get_text().endswith(" %")]
    assert not any(share.overlaps(box) for share in shares for box in boxes)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(shares, 2))
    within = [word for word in words if any(word.overlaps(box) for box in boxes)]
    assert all(any(b.x0 < w.x0 and w.x1 < b.x1 and b.y0 < w.y0 and w.y1 < b.y1 for b in boxes) for w in within)


@st.composite
def drawings(draw, most=45):
    """Sizes of nodes, edges that go from lower to higher numbers, and a label's size or none."""
    n = draw(st.integers(2, most))
    sizes = [(draw(st.sampled_from([30.0, 60.0, 130.0])), draw(st.sampled_from([18.0, 40.0]))) for _ in range(n)]
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] < e[1])
    edges = draw(st.lists(ends, max_size=min(n * (n - 1) // 2, most), unique=True))
    return sizes, edges, draw(st.sampled_from([None, (26.0, 9.0)]))


def overlap(a, b, room=0.0):
    apart = (abs(a.x - b.x) - (a.width + b.width) / 2, abs(a.y - b.y) - (a.height + b.height) / 2)
    return max(apart) < room - 0.02


def check_boxes(placement, sizes, label):
    """All boxes are there, on the page and apart; so are the labels."""
    boxes = [placement.boxes[i] for i in range(len(sizes))]
    assert len(placement.boxes) == len(sizes)
    assert not any(overlap(a, b, 10) for a, b in itertools.combinations(boxes, 2))
    for box, (width, height) in zip(boxes, sizes, strict=True):
        assert (box.width >= width, box.height) == (True, height)
        assert box.width / 2 - 0.02 < box.x < placement.width - box.width / 2 + 0.02
        assert box.height / 2 - 0.02 < box.y < placement.height - box.height / 2 + 0.02
    labels = [NodeBox(*route.label, *label) for route in placement.routes.values() if label]
    assert not any(overlap(a, b) for a, b in itertools.combinations(labels, 2))
    assert not any(overlap(a, b) for a in labels for b in boxes)


def check_route(placement, edge):
    """An edge goes down from border to border, and through no box."""
    upper, lower = (placement.boxes[node] for node in edge)
    points = np.concatenate(curve(placement.routes[edge]).to_polygons(closed_only=False))
    assert (np.diff(points[:, 1]) <= 1e-6).all()
    np.testing.assert_allclose(points[[0, -1], 1], [upper.y - upper.height / 2, lower.y + lower.height / 2])
    assert abs(points[0, 0] - upper.x) < upper.width / 2
    assert abs(points[-1, 0] - lower.x) < lower.width / 2
    for box in placement.boxes.values():
        beside = abs(points - (box.x, box.y)) >= (box.width / 2 - 0.1, box.height / 2 - 0.1)
        assert beside.any(axis=1).all()


@examples(15)
@given(drawings())
def test_nothing_overlaps_in_any_drawing(drawing):
    sizes, edges, label = drawing
    placement = place(sizes, edges, label)
    check_boxes(placement, sizes, label)
    assert sorted(placement.routes) == sorted(edges)
    for edge in edges:
        check_route(placement, edge)
    for node in range(len(sizes)):
        tips = sorted(route.pieces[-1][1][0] for (_, b), route in placement.routes.items() if b == node)
        assert all(b - a >= 7.9 for a, b in itertools.pairwise(tips))


def brute_height(n, edges):
    """The least sum of heights over all ways to put few nodes in rows."""
    ways = itertools.product(range(n), repeat=n)
    return min(sum(w[b] - w[a] for a, b in edges) for w in ways if all(w[b] > w[a] for a, b in edges))


@examples(30)
@given(
    st.integers(2, 5).flatmap(
        lambda n: st.lists(st.sampled_from(list(itertools.combinations(range(n), 2))), unique=True, min_size=1)
    )
)
def test_rows_keep_edges_as_short_as_brute_force_does(edges):
    n = 1 + max(b for _, b in edges)
    rows = heights(n, edges)
    assert all(rows[b] > rows[a] for a, b in edges)
    assert sum(rows[b] - rows[a] for a, b in edges) == brute_height(n, edges)


@examples(10)
@given(drawings(most=10))
def test_crossings_are_counted_as_they_are_seen(drawing):
    sizes, edges, label = drawing
    if not edges:
        return
    chains = chained(len(sizes), edges, label is not None)
    for rows, crossings in orderings(chains)[:2]:
        place_of = {vertex: i for row in rows for i, vertex in enumerate(row)}
        seen = sum(
            chains.row_of[a] == chains.row_of[c] and (place_of[a] - place_of[c]) * (place_of[b] - place_of[d]) < 0
            for (a, b), (c, d) in itertools.combinations(chains.segments, 2)
        )
        assert crossings == seen


def test_a_tree_is_drawn_without_crossings():
    edges = [((i - 1) // 2, i) for i in range(1, 31)]
    chains = chained(31, edges, False)
    assert min(crossings for _, crossings in orderings(chains)) == 0


def test_a_long_edge_runs_straight_where_it_can():
    route = place([(30.0, 18.0)] * 4, [(0, 1), (1, 2), (2, 3), (0, 3)]).routes[0, 3]
    assert len({round(x, 1) for piece in route.pieces[1:-1] for x, _ in piece}) == 1


def test_graphs_that_no_one_could_read_are_refused_with_a_remedy():
    names = tuple(f"x{i}" for i in range(60))
    with pytest.raises(DataError, match="too many to draw"):
        plots.causal_graph(CausalGraph(names, tuple(itertools.combinations(names, 2))))


def test_a_graph_fits_into_axes_of_the_user():
    figure = Figure(figsize=(6, 3))
    left, right = figure.subplots(1, 2)
    assert plots.causal_graph(random_graph(5, 10, 15), ax=left, title="left") is figure
    assert not right.patches
    figure.draw_without_rendering()
    frame = left.get_window_extent()
    boxes = [box.get_window_extent() for box in boxes_of(left)]
    assert all(frame.x0 <= b.x0 and b.x1 <= frame.x1 and frame.y0 <= b.y0 and b.y1 <= frame.y1 for b in boxes)
    words = [text for text in left.texts if text.get_text().startswith("x_")]
    assert all(any(text.get_window_extent().x1 <= b.x1 for b in boxes) for text in words)
    assert words[0].get_fontsize() < 9


def test_names_are_text_whatever_they_hold(tmp_path):
    graph = CausalGraph(HOSTILE, tuple(itertools.pairwise(HOSTILE)), (), {HOSTILE[:2]: 0.5})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        content = svg(plots.causal_graph(graph), tmp_path)
    root = ElementTree.fromstring(content)
    assert not [e for e in root.iter() if e.tag.endswith("script")]
    found = [e.text for e in root.iter() if e.tag.endswith("text")]
    assert {"$\\foo", "$a_b$", "_under", "年齢", "a b", "' '"} <= set(found)
    assert "<script>alert(1)</script>" in "".join(found)


@given(st.text(max_size=120))
def test_long_names_break_into_few_lines_that_hold_all_but_the_middle(name):
    lines = name_lines(name)
    assert len(lines) <= 4
    assert all(len(line) <= LONGEST_LINE + 1 and line.isprintable() for line in lines)
    if len(name) <= LONGEST_LINE and name.strip():
        assert lines == [plain(name)]
    elif name.strip() and "\N{HORIZONTAL ELLIPSIS}" not in "".join(lines):
        assert "".join(lines) == plain(name)


def test_letters_that_our_font_lacks_count_as_wide():
    assert text_width("年齢", 9) == text_width("WW", 9) > text_width("ll", 9)


# Studies


def numbers(measures=("feasibility", "lof"), series=("$first", "_second")):
    rows = [
        {"setting": k, "measure": m, "series": one, "mean": k * (i + 1.0), "deviation": 0.5}
        for k in (1, 10, 100)
        for i, m in enumerate(measures)
        for one in series
    ]
    return pd.DataFrame(rows)


def lines_of(ax):
    return [container.lines[0] for container in ax.containers]


def test_a_study_has_a_panel_per_measure_and_a_line_per_series():
    figure = plots.study(numbers(), x="k of LOF")
    assert [ax.get_ylabel() for ax in figure.axes] == ["feasibility", "lof"]
    for ax in figure.axes:
        first, second = lines_of(ax)
        assert first.get_linestyle() != second.get_linestyle()
        assert first.get_marker() != second.get_marker()
        assert ax.get_xlabel() == "k of LOF"
    assert {"$first", "_second"} <= set(texts(figure))


def test_means_are_drawn_in_order_with_their_deviations():
    points = numbers(["lof"], ["one"]).iloc[::-1].assign(deviation=[0.5, 0.25, 1.0])
    (container,) = plots.study(points, x="k").axes[0].containers
    assert list(container.lines[0].get_xdata()) == [1, 10, 100]
    assert list(container.lines[0].get_ydata()) == [1, 10, 100]
    bars = np.array(container.lines[2][0].get_segments())
    np.testing.assert_allclose(bars[:, 1, 1] - bars[:, 0, 1], [2.0, 0.5, 1.0])


def test_a_figure_of_the_paper_holds_for_all_settings():
    paper = pd.DataFrame({"measure": ["lof"], "series": "_second", "mean": [79.97], "deviation": [2.71]})
    figure = plots.study(numbers(), x="alpha", paper=paper)
    other, ax = figure.axes
    assert list(ax.lines[-1].get_ydata()) == [79.97, 79.97]
    assert ax.patches[0].get_y() == pytest.approx(79.97 - 2.71)
    assert ax.patches[0].get_height() == pytest.approx(2 * 2.71)
    assert "paper, all settings" in texts(figure)
    assert not other.patches


def test_the_papers_choice_is_marked():
    figure = plots.study(numbers(["lof"]), x="k", chosen=50)
    assert list(figure.axes[0].lines[-1].get_xdata()) == [50, 50]
    assert "the paper's choice" in texts(figure)


def test_settings_are_written_below_a_logarithmic_axis():
    figure = plots.study(numbers(["lof"]), x="k", log_x=True)
    ax = figure.axes[0]
    assert ax.get_xscale() == "log"
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "10", "100"]


def test_settings_that_would_touch_are_not_all_written():
    points = numbers(["m"], ["one"]).assign(setting=[1000.0, 1001.0, 2000.0])
    labels = [label.get_text() for label in plots.study(points, x="k").axes[0].get_xticklabels()]
    assert labels == ["1000", "2000"]


def test_a_study_can_be_drawn_into_axes():
    ax = Figure().subplots()
    assert plots.study(numbers(["lof"]), x="k", ax=ax, title="here") is ax.figure
    assert ax.get_title() == "here"
    assert len(ax.containers) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"points": numbers().rename(columns={"setting": "settings"}).drop(columns="measure")},
            "(?s)Did you mean 'settings'.*'measure'.*The table needs",
        ),
        ({"points": numbers().assign(mean=float("nan"))}, "has no values"),
        ({"ax": Figure().subplots()}, "one axis for 2 measures"),
        ({"points": numbers().assign(setting=0), "log_x": True}, "setting: is 0"),
    ],
)
def test_a_study_that_cannot_be_drawn_says_why(change, message):
    with pytest.raises(DataError, match=message):
        plots.study(**({"points": numbers(), "x": "k"} | change))


# Bars


def comparison():
    rows = [
        {"group": group, "item": item, "series": series, "mean": mean, "deviation": 1.0 if series == "ours" else None}
        for group, item, series, mean in (
            ("first", "base", "paper", 70.0),
            ("first", "base", "ours", 61.0),
            ("first", "all", "ours", 81.0),
            ("second", "base", "paper", 75.0),
            ("second", "base", "ours", 51.0),
        )
    ]
    return pd.DataFrame(rows)


def bars_of(ax):
    return [container.patches for container in ax.containers if hasattr(container, "patches")]


def test_bars_have_the_means_as_widths_and_differ_without_colour():
    ax = plots.bars(comparison(), x="feasibility (%)").axes[0]
    paper, ours = bars_of(ax)
    assert [bar.get_width() for bar in paper] == [70, 75]
    assert [bar.get_width() for bar in ours] == [61, 81, 51]
    assert paper[0].get_hatch() != ours[0].get_hatch()
    assert ax.get_xlabel() == "feasibility (%)"


def test_items_stand_under_their_headings_from_the_top_down():
    ax = plots.bars(comparison(), x="percent").axes[0]
    labels = sorted(ax.get_yticklabels(), key=lambda label: -label.get_position()[1])
    assert [label.get_text() for label in labels] == ["first", "base", "all", "second", "base"]
    assert [label.get_fontweight() == "bold" for label in labels] == [True, False, False, True, False]


def test_bars_do_not_overlap():
    ax = plots.bars(comparison(), x="percent").axes[0]
    spans = sorted((bar.get_y(), bar.get_y() + bar.get_height()) for bars in bars_of(ax) for bar in bars)
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(spans))


def test_figures_are_written_beside_their_bars():
    figure = plots.bars(comparison(), x="percent")
    assert {"70", "61 ± 1", "81 ± 1", "paper", "ours"} <= set(texts(figure))


def test_figures_of_either_sign_stay_on_the_page():
    table = pd.DataFrame({"item": ["a", "b"], "series": "ours", "mean": [-2.5, 1.0], "deviation": [0.25, 0.1]})
    figure = plots.bars(table, x="proximity")
    figure.draw_without_rendering()
    assert "−2.5 ± 0.25" in texts(figure)
    for text in figure.axes[0].texts:
        assert figure.bbox.x0 <= text.get_window_extent().x0
        assert text.get_window_extent().x1 <= figure.bbox.x1


def test_bars_can_be_drawn_into_axes_and_name_what_is_missing():
    ax = Figure().subplots()
    assert plots.bars(comparison(), x="percent", ax=ax) is ax.figure
    with pytest.raises(DataError, match="'series'"):
        plots.bars(comparison().drop(columns="series"), x="percent")


def test_methods_are_numbered_points_that_do_not_hide_each_other():
    table = pd.DataFrame(
        {"method": ["a", "b", "c"], "success": [100.0, 100.0, 50.0], "changes": [2.0, 2.0, 3.0], "speed": [10, 0, 5e4]}
    )
    figure = plots.trade_off(
        table, y="success", xs={"changes": "changes", "speed": "rows a second"}, logarithmic=("speed",), own=("a",)
    )
    first, second = figure.axes
    assert [note.get_text() for note in first.texts] == ["1", "2", "3"]
    assert [note.xy for note in first.texts[:2]] == [(2.0, 100.0)] * 2, "dots stand where they belong"
    boxes = [Text.get_window_extent(note) for note in first.texts]
    assert not boxes[0].overlaps(boxes[1]), "their numbers stand apart"
    assert [note.get_text() for note in second.texts] == ["1", "3"]
    with pytest.raises(DataError, match="column 'speed': is missing"):
        plots.trade_off(table.drop(columns="speed"), y="success", xs={"speed": "speed"})


def test_a_method_has_the_same_number_in_the_panels_of_every_rule_set():
    table = pd.DataFrame(
        {"method": ["a", "b", "b", "c"], "rules": ["u", "u", "v", "v"], "success": [9.0, 8.0, 7.0, 6.0], "changes": 2.0}
    )
    figure = plots.trade_off(table, y="success", xs={"changes": "changes"}, by="rules")
    assert [[note.get_text() for note in ax.texts] for ax in figure.axes] == [["1", "2"], ["2", "3"]]
    assert [ax.get_ylabel().splitlines()[0] for ax in figure.axes] == ["u", "v"]


def test_methods_as_points_fit_into_axes_for_one_figure():
    table = pd.DataFrame({"method": ["a", "b"], "success": [100.0, 50.0], "changes": [2.0, 3.0], "speed": [1.0, 2.0]})
    ax = Figure().subplots()
    assert plots.trade_off(table, y="success", xs={"changes": "changes"}, ax=ax, title="here") is ax.figure
    assert [note.get_text() for note in ax.texts] == ["1", "2"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["1  a", "2  b"]
    with pytest.raises(DataError, match="one axis for 2 panels"):
        plots.trade_off(table, y="success", xs={"changes": "changes", "speed": "speed"}, ax=ax)
