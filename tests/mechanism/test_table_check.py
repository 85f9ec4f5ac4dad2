"""The prior check of tables: a chi-square of the values, right with few reports, hears what Pearson's misses."""

import numpy as np
import pytest
from scipy.special import chdtri

from tacit import Channel, Histogram, Prior, design
from tacit.estimates import check_prior
from tacit.mechanism.protocol import pearson
from tacit.mechanism.table._reading import Information, scores_of_table, statistic_of_table

from support.priors import named_prior


@pytest.fixture(scope="module")
def twenty() -> tuple[Prior, Channel]:
    prior = named_prior("zipf", 20)
    return prior, design(prior, Histogram(), 1).channel


def statistic(channel: Channel, prior: Prior, counts: np.ndarray) -> tuple[float, int]:
    return statistic_of_table(channel.inside_lifts, channel.information, channel.marginal, counts)


def is_heard(channel: Channel, prior: Prior, counts: np.ndarray, found: tuple[float, int]) -> bool:
    scores = scores_of_table(channel.inside_lifts, channel.marginal, counts)
    return check_prior(None, *found, counts.sum(), scores).contradicted


def test_it_is_pearsons_where_reports_are_as_many_as_values() -> None:
    """A report cut into two that say the same makes no difference to it, as it should to no chi-square."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        matrix, p = rng.dirichlet(np.ones(5), size=5), rng.dirichlet(np.full(5, 3.0))
        cut = np.column_stack([matrix[:, :4], matrix[:, 4:] * [0.3, 0.7]])
        lifts, marginal = (cut / (p @ cut)).T, p @ cut
        counts = rng.multinomial(100_000, marginal).astype(float)
        found = statistic_of_table(lifts, Information.of(lifts, marginal), marginal, counts)
        merged = pearson(np.append(counts[:4], counts[4:].sum()), p @ matrix)
        assert found == (pytest.approx(merged[0], rel=1e-6), merged[1])


@pytest.mark.parametrize("n", [300, 20_000])
def test_it_is_a_chi_square_if_the_prior_is_true(twenty: tuple[Prior, Channel], n: int) -> None:
    prior, channel = twenty
    rng, rounds = np.random.default_rng(1), 4_000
    drawn = rng.multinomial(n, channel.marginal, size=rounds).astype(float)
    found = [statistic(channel, prior, counts) for counts in drawn]
    assert {degrees for _, degrees in found} == {19}
    values = np.array([value for value, _ in found])
    assert values.mean() == pytest.approx(19, abs=6 * (38 / rounds) ** 0.5)
    assert np.mean(values > chdtri(19, 0.001)) < 0.004
    assert sum(is_heard(channel, prior, counts, each) for counts, each in zip(drawn, found, strict=True)) < 20


def test_it_hears_one_value_where_pearsons_is_deaf(twenty: tuple[Prior, Channel]) -> None:
    """The wrong answer: a chi-square of all 200 and more reports, of which most say nothing of any prior."""
    prior, channel = twenty
    p, n, rng = prior.probabilities, 20_000, np.random.default_rng(2)
    for x in (0, 5, 15):
        variance = channel.information.quadratic(np.eye(20)[:, [x]])[0] - p[x] ** 2 - p[x] * (1 - p[x])
        truth = p * (1 - p[x] - 7 * (variance / n) ** 0.5) / (1 - p[x])
        truth[x] += 1 - truth.sum()
        drawn = rng.multinomial(n, truth @ channel.matrix, size=40).astype(float)
        heard = [is_heard(channel, prior, counts, statistic(channel, prior, counts)) for counts in drawn]
        alone = [check_prior(None, *pearson(counts, channel.marginal), n).contradicted for counts in drawn]
        assert sum(heard) >= 34
        assert sum(alone) <= 8


def test_a_turned_population_is_heard_in_hundreds_of_reports(twenty: tuple[Prior, Channel]) -> None:
    prior, channel = twenty
    rng = np.random.default_rng(3)
    drawn = rng.multinomial(500, prior.probabilities[::-1] @ channel.matrix, size=40).astype(float)
    assert all(is_heard(channel, prior, counts, statistic(channel, prior, counts)) for counts in drawn)


def test_with_too_few_reports_pearsons_pooled_classes_serve(twenty: tuple[Prior, Channel]) -> None:
    prior, channel = twenty
    few = np.zeros(channel.n_possible_reports)
    few[:10] = 1.0
    assert statistic(channel, prior, few) == pearson(few, channel.marginal) == (0.0, 0)
