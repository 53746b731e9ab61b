"""The seven terms (model.losses) and LOF (model.lof), by hand-worked examples, other libraries and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import LocalOutlierFactor
from torch.autograd import gradcheck
from torch.distributions import MultivariateNormal, kl_divergence

from effort import examples
from fcxplain.generator import losses
from fcxplain.generator.losses import chunk_for, lof, lof_in_chunks


def points(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.randn((n, d), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def by_scikit_learn(z: torch.Tensor, k: int) -> np.ndarray:
    # A tree takes differences; for few points scikit-learn would else take products, which lose digits far from 0.
    return -LocalOutlierFactor(n_neighbors=k, algorithm="kd_tree").fit(z.numpy()).negative_outlier_factor_


@examples(30)
@given(st.integers(3, 120), st.integers(1, 8), st.integers(1, 30), st.integers(0, 1000))
def test_lof_matches_scikit_learn(n, d, k, seed):
    z = points(n, d, seed)
    k = min(k, n - 1)
    np.testing.assert_allclose(lof(z, k).numpy(), by_scikit_learn(z, k), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:Duplicate values:UserWarning")
@pytest.mark.parametrize("copies", [2, 3, 30])
def test_lof_matches_scikit_learn_with_duplicates(copies):
    z = torch.cat([points(40, 3), points(5, 3, seed=1).repeat(copies, 1)])
    ours, theirs = lof(z, 10).numpy(), by_scikit_learn(z, 10)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:Duplicate values:UserWarning")
@examples(60)
@given(
    st.integers(1, 15),
    st.lists(st.integers(1, 20), min_size=4, max_size=12),
    st.sampled_from([1e-6, 1.0, 1e6]),
    st.sampled_from([0.0, 3.0, 1e5]),
    st.sampled_from([1.0, 1e4, 1e8]),
    st.integers(0, 1000),
)
def test_lof_matches_scikit_learn_for_any_copies_scale_place_and_outlier(k, copies, scale, place, outlier, seed):
    z = points(len(copies), 3, seed).repeat_interleave(torch.tensor(copies), dim=0)
    z = torch.cat([z, points(k, 3, seed + 1), outlier * points(1, 3, seed + 2)]) * scale + place * scale
    np.testing.assert_allclose(lof(z, k).numpy(), by_scikit_learn(z, k), rtol=1e-6)


@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-7])
def test_single_precision_finds_the_same_neighbours(spread):
    """Also where all but one point crowd together, so that products of single precision could not tell them apart."""
    z = torch.cat([spread * points(300, 10), points(1, 10, seed=1)]).float()
    ours, theirs = lof(z, 20).numpy(), by_scikit_learn(z.double(), 20)
    np.testing.assert_allclose(ours[:-1], theirs[:-1], rtol=1e-4)
    # From afar the whole crowd is one point in single precision, whose nearest side nobody can tell.
    np.testing.assert_allclose(ours[-1], theirs[-1], rtol=1e-4 if spread == 1 else 1e-2)


def by_autograd(z: torch.Tensor, k: int) -> torch.Tensor:
    """LOF step by step from its definition, the gradient left to torch."""
    apart = torch.cdist(z, z, compute_mode="donot_use_mm_for_euclid_dist")
    near = (apart + torch.diag(torch.full((len(z),), torch.inf))).topk(k, largest=False)
    distance = apart.gather(1, near.indices)
    reach = torch.maximum(distance, distance[:, -1][near.indices])
    density = 1 / (reach.mean(dim=1) + 1e-10)
    return density[near.indices].mean(dim=1) / density


@pytest.mark.parametrize(("copies", "spread"), [(1, 1.0), (1, 1e-5), (3, 1.0)])
@pytest.mark.parametrize(("dtype", "precision"), [(torch.float64, 1e-6), (torch.float32, 2e-3)])
def test_the_gradient_of_lof_is_the_one_that_torch_finds(copies, spread, dtype, precision):
    """Which copy of a point is a neighbour is anybody's choice, so that copies are moved together."""
    once = torch.cat([spread * points(60, 4), points(20, 4, seed=1)]).to(dtype).requires_grad_()
    weights = points(len(once), 1, seed=2).flatten().to(dtype).repeat(copies)
    ours, theirs = (
        torch.autograd.grad((score(once.repeat(copies, 1), 7) * weights).sum(), once)[0] for score in (lof, by_autograd)
    )
    assert (ours - theirs).norm() < precision * theirs.norm()


def test_an_outlier_scores_far_above_one_and_the_crowd_about_one():
    scores = lof(torch.cat([points(100, 2), torch.tensor([[30.0, 30.0]], dtype=torch.float64)]), 20)
    assert scores[-1] > 5
    assert scores[:-1].median() == pytest.approx(1, abs=0.1)


def test_the_gradient_of_lof_is_right():
    assert gradcheck(lambda z: lof(z, 4), points(12, 3).requires_grad_())
    assert gradcheck(lambda z: lof(z.reshape(3, 8, 3), 2), points(24, 3).requires_grad_())


def test_points_that_are_no_numbers_score_no_number():
    z = torch.full((300, 2), torch.nan)
    assert lof(z, 5).isnan().all()
    assert lof(z.double(), 5).isnan().all()


def test_copies_of_one_point_have_finite_gradients():
    z = torch.cat([points(4, 2).repeat(6, 1), points(6, 2, seed=1)]).requires_grad_()
    lof(z, 5).mean().backward()
    assert z.grad.isfinite().all()


def test_too_many_neighbours_are_capped_and_logged(caplog):
    with caplog.at_level("INFO", "fcxplain"):
        found = lof(points(5, 2), 20)
    assert "4 neighbours are used, not 20" in caplog.text
    np.testing.assert_allclose(found.numpy(), by_scikit_learn(points(5, 2), 4), rtol=1e-6)
    assert lof(points(1, 2), 20).tolist() == [1.0]
    assert lof(points(0, 2), 20).tolist() == []


def test_chunks_are_scored_apart():
    z = points(70, 3)
    expected = torch.cat([lof(z[:35], 5), lof(z[35:], 5)])
    assert torch.equal(lof_in_chunks(z, 5, chunk=32), expected)
    assert torch.equal(lof_in_chunks(z, 5, chunk=100), lof(z, 5))
    assert losses.density(z, 5, chunk=32) == expected.mean()


def test_chunks_are_256_rows_or_four_times_the_neighbours():
    assert [chunk_for(k) for k in (1, 20, 64, 70)] == [256, 256, 256, 280]
    z = points(600, 3)
    assert torch.equal(lof_in_chunks(z, 70), torch.cat([lof(z[:300], 70), lof(z[300:], 70)]))


def test_proximity_is_the_mean_distance():
    x, x_cf = torch.tensor([[0.0, 0.0], [1.0, 1.0]]), torch.tensor([[0.5, -0.5], [1.0, 3.0]])
    assert losses.proximity(x, x_cf).item() == pytest.approx((1.0 + 2.0) / 2)
    assert losses.proximity(x, x_cf, norm=2).item() == pytest.approx((0.5 + 4.0) / 2)


def test_validity_is_zero_once_the_target_leads_by_the_margin():
    logits = torch.tensor([[-20.0, 20.0], [20.0, -20.0], [0.0, 0.0]])
    target = torch.tensor([1, 1, 1])
    each = [losses.validity(logits[i : i + 1], target[i : i + 1], 0.5).item() for i in range(3)]
    assert each == pytest.approx([0.0, 1.5, 0.5])
    assert losses.validity(logits, target, 0.5).item() == pytest.approx(sum(each) / 3)


def test_validity_compares_with_the_best_of_several_other_classes():
    logits = torch.tensor([[0.0, 20.0, -20.0]])
    assert losses.validity(logits, torch.tensor([0]), 0.1).item() == pytest.approx(0.1 + 0.5)


def test_kl_matches_torch_distributions():
    mean, variance = points(6, 3), points(6, 3, seed=1).exp()
    expected = kl_divergence(
        MultivariateNormal(mean, variance.diag_embed()),
        MultivariateNormal(torch.zeros(3).double(), torch.eye(3).double()),
    ).mean()
    assert losses.kl(mean, variance).item() == pytest.approx(expected.item())
    assert losses.kl(torch.zeros(2, 3), torch.ones(2, 3)).item() == 0


def test_columns_of_each_category_should_sum_to_one():
    x_cf = torch.tensor([[0.5, 0.2, 0.3, 0.9, 0.4], [0.5, 0.6, 0.0, 0.5, 0.5]])
    # The first category is 0.5 and 0.4 away, the second 0.3 and 0; means over the rows, summed.
    found = losses.sums_to_one(x_cf, ((1, 3), (3, 5)))
    assert float(found) == pytest.approx((0.5 + 0.4) / 2 + (0.3 + 0.0) / 2)
    assert float(losses.sums_to_one(x_cf, ())) == 0.0


def test_the_published_constraints_are_as_printed():
    assert losses.unary_hinge(torch.tensor([3.0, 1.0]), torch.tensor([1.0, 2.0])).mean().item() == 1.0
    change = torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.5])
    assert losses.binary_hinge(*change, alpha=0.25, beta=1.0).mean().item() == pytest.approx((0.75 + 0.25) / 2)
    assert losses.binary_hinge(*change, alpha=0.0, beta=-1.0).mean().item() == pytest.approx((2 + 1 + 1 + 0.5 + 1) / 2)
    assert losses.hard_rules(torch.tensor([0.0, 3.0])).item() == 1.5


def test_covariance_and_correlation_match_numpy():
    values = points(50, 4)
    np.testing.assert_allclose(losses.covariance(values).numpy(), np.cov(values.numpy().T), rtol=1e-10)
    np.testing.assert_allclose(losses.correlation(values).numpy(), np.corrcoef(values.numpy().T), rtol=1e-10)
    still = torch.cat([values, torch.ones(50, 1)], dim=1)
    assert losses.correlation(still)[4].tolist() == [0.0] * 5


def test_soft_causal_asks_joined_pairs_to_covary_and_others_not_to():
    first = points(200, 1)
    values = torch.cat([first, first + 0.1 * points(200, 1, seed=1), points(200, 1, seed=2)], dim=1)
    pair, other = torch.zeros(3, 3, dtype=torch.bool), torch.zeros(3, 3, dtype=torch.bool)
    pair[0, 1], other[0, 2] = True, True
    good = losses.soft_causal(values, pair, other, theta=0.5)
    bad = losses.soft_causal(values, other, pair, theta=0.5)
    assert good < 0.02
    assert bad > 1
    assert losses.soft_causal(-values, pair, other, theta=0.5) == pytest.approx(good)


def test_soft_causal_as_published_is_worked_by_hand():
    values = torch.tensor([[0.0, 0.0, 1.0], [1.0, 2.0, 0.0]])  # covariances: 01 is 1, 02 is -0.5, 12 is -1
    joined, apart = torch.zeros(3, 3, dtype=torch.bool), torch.zeros(3, 3, dtype=torch.bool)
    joined[0, 2], apart[0, 1] = True, True
    result = losses.soft_causal(
        values, joined, apart, theta=0.2, weight_joined=2.0, weight_apart=3.0, standardised=False
    )
    assert result.item() == pytest.approx(3 * 1.0**2 + 2 * (0.2 + 0.5) ** 2)


def test_sparsity_in_its_three_forms():
    x, x_cf = torch.tensor([[0.0, 0.0, 0.0, 0.0]]), torch.tensor([[0.5, 0.0, -0.01, 0.1]])
    assert losses.sparsity_l1(x, x_cf).item() == pytest.approx(0.61 / 4)
    assert losses.sparsity_threshold(x, x_cf, 0.05).item() == 2
    assert losses.open_gates(torch.tensor([[0.5, 1.0], [0.0, 0.5]])).item() == 1.0


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: losses.proximity(x[:, :3], x[:, 3:]),
        lambda x: losses.proximity(x[:, :3], x[:, 3:], norm=2),
        lambda x: losses.validity(x, torch.arange(len(x)) % 3, 0.3),
        lambda x: losses.kl(x[:, :3], x[:, 3:].exp()),
        lambda x: losses.soft_causal(x, torch.eye(6).roll(1, 0).bool(), torch.eye(6).roll(2, 0).bool(), theta=0.3),
        lambda x: losses.density(x, 4, chunk=6),
        lambda x: losses.sparsity_l1(x[:, :3], x[:, 3:]),
    ],
)
def test_gradients_are_right(loss):
    assert gradcheck(loss, points(12, 6).requires_grad_())
