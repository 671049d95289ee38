"""Intervals and tests by other routes: scipy, closed forms, brute force, and simulation of what they promise."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from dyknow import statistics
from dyknow.statistics import bootstrap, clopper_pearson, holm, mcnemar, paired_bootstrap, resamples


def _binary(hits: int, n: int) -> np.ndarray:
    return np.repeat([1.0, 0.0], [hits, n - hits])[:, None]


def _ones(n: int, columns: int = 1) -> np.ndarray:
    return np.ones((n, columns))


# Bootstrap


@pytest.mark.parametrize(("hits", "n"), [(6, 12), (20, 28), (81, 130), (5, 130), (400, 1000)])
def test_the_percentile_interval_is_the_binomials(hits: int, n: int) -> None:
    # A resample of n facts, h of them hits, has Binomial(n, h / n) hits: the exact quantiles are known.
    lower, upper = bootstrap(_binary(hits, n), _ones(n), draws=20_000)[:, 0]
    exact = stats.binom(n, hits / n).ppf([0.025, 0.975]) / n
    assert [lower, upper] == pytest.approx(exact, abs=1.01 / n)


def test_the_percentile_interval_agrees_with_scipys() -> None:
    generator = np.random.default_rng(3)
    means = generator.integers(0, 4, 60) / 3
    ours = bootstrap(means[:, None], _ones(60), draws=9999)[:, 0]
    theirs = stats.bootstrap((means,), np.mean, method="percentile", rng=generator).confidence_interval
    assert ours == pytest.approx(np.array(theirs), abs=0.01)


def test_a_ratio_agrees_with_scipys() -> None:
    generator = np.random.default_rng(4)
    counted = generator.integers(0, 4, 80).astype(float)
    hits = generator.binomial(counted.astype(int), 0.6).astype(float)

    def ratio(h: np.ndarray, c: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray(h.sum(axis=axis) / c.sum(axis=axis))

    theirs = stats.bootstrap((hits, counted), ratio, paired=True, method="percentile", rng=generator)
    ours = bootstrap(hits[:, None], counted[:, None], draws=9999)[:, 0]
    assert ours == pytest.approx(np.array(theirs.confidence_interval), abs=0.01)


def test_phrasings_of_a_fact_are_one_cluster() -> None:
    # Thrice the same answer to each of 40 facts is no more evidence than once.
    hits = _binary(24, 40)
    assert (bootstrap(3 * hits, 3 * _ones(40)) == bootstrap(hits, _ones(40))).all()
    apart = bootstrap(_binary(72, 120), _ones(120))[:, 0]
    together = bootstrap(3 * hits, 3 * _ones(40))[:, 0]
    assert np.diff(together) > 1.5 * np.diff(apart)


def test_every_order_of_few_facts_by_brute_force() -> None:
    hits, counted = np.array([2.0, 1.0, 0.0, 3.0]), np.array([2.0, 3.0, 1.0, 3.0])
    ratios = Counter(
        round(float(hits[list(drawn)].sum() / counted[list(drawn)].sum()), 9)
        for drawn in itertools.product(range(4), repeat=4)
    )
    expected = np.quantile(list(ratios.elements()), [0.1, 0.9])
    found = statistics._quantiles(statistics._shares(hits[:, None], counted[:, None], 50_000, 0), 0.8)
    assert found[:, 0] == pytest.approx(expected, abs=0.01)


def test_resamples_are_shared_and_repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(5)
    counted = (generator.random((50, 30)) < 0.8).astype(float)
    hits = counted * (generator.random((50, 30)) < 0.5)
    whole = bootstrap(hits, counted)
    assert (whole == bootstrap(hits, counted)).all()
    assert not np.array_equal(whole, bootstrap(hits, counted, seed=1))
    for column in (0, 17, 29):
        alone = slice(column, column + 1)
        assert (bootstrap(hits[:, alone], counted[:, alone]) == whole[:, alone]).all()
    monkeypatch.setattr(statistics, "_CELLS", 7000)  # bounded memory: in pieces, with the same result
    assert (bootstrap(hits, counted) == whole).all()
    drawn = np.concatenate(list(resamples(50, 2000)))
    assert drawn.shape == (2000, 50)
    assert (drawn.sum(axis=1) == 50).all()


@pytest.mark.parametrize("n", [1, 4, 28, 130])
def test_a_share_that_no_resample_varies_has_the_exact_interval(n: int) -> None:
    bound = 0.025 ** (1 / n)  # all n are hits with this probability, if the share is the bound
    assert bootstrap(_binary(n, n), _ones(n))[:, 0] == pytest.approx([bound, 1])
    assert bootstrap(_binary(0, n), _ones(n))[:, 0] == pytest.approx([0, 1 - bound])


def test_degenerate_shares() -> None:
    assert np.isnan(bootstrap(np.zeros((0, 2)), np.zeros((0, 2)))).all()
    assert bootstrap(np.zeros((3, 0)), np.zeros((3, 0))).shape == (2, 0)
    assert np.isnan(bootstrap(np.zeros((3, 1)), np.zeros((3, 1)))).all()
    third = np.full((30, 1), 1 / 3)
    assert bootstrap(third, _ones(30))[:, 0] == pytest.approx([1 / 3, 1 / 3])  # 10 facts' worth; all alike
    assert bootstrap(np.array([[1.0], [0.0], [0.0]]), np.array([[1.0], [0.0], [0.0]]))[:, 0] == pytest.approx(
        [0.025, 1]
    )


@pytest.mark.parametrize("n", [1, 7, 28, 130, 3000])
def test_exact_bounds_agree_with_scipys(n: int) -> None:
    for hits in {0, 1, n // 3, n // 2, n - 1, n}:
        theirs = stats.binomtest(hits, n).proportion_ci(0.95, "exact")
        assert clopper_pearson(hits, n) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert clopper_pearson(1.5, 7) == (clopper_pearson(1, 7).lower, clopper_pearson(2, 7).upper)
    assert clopper_pearson(3 * (2 / 3), 7) == clopper_pearson(2, 7)


# Pairs


def test_a_difference_is_the_differences_mean() -> None:
    generator = np.random.default_rng(6)
    first, second = (generator.random((90, 1)) < share for share in (0.5, 0.65))
    [found] = paired_bootstrap(first.astype(float), second.astype(float), _ones(90), draws=9999)
    gain = second.astype(float)[:, 0] - first[:, 0]
    theirs = stats.bootstrap((gain,), np.mean, method="percentile", rng=generator).confidence_interval
    assert found is not None
    assert found.value == pytest.approx(gain.mean())
    assert (found.lower, found.upper) == pytest.approx(tuple(theirs), abs=0.02)
    assert (found.p < 0.05) == (found.lower > 0 or found.upper < 0)


def test_two_that_never_differ() -> None:
    same = _binary(20, 30)
    [found] = paired_bootstrap(same, same, _ones(30))
    assert found is not None
    room = 1 - 0.025 ** (1 / 30)
    assert found == pytest.approx((0, -room, room, 1))
    assert paired_bootstrap(same, same, np.zeros((30, 1))) == [None]
    assert paired_bootstrap(np.zeros((0, 1)), np.zeros((0, 1)), np.zeros((0, 1))) == [None]


def test_turned_round_a_difference_is_its_negative() -> None:
    first, second = _binary(20, 40), np.roll(_binary(26, 40), 7, axis=0)
    [one], [other] = (paired_bootstrap(a, b, _ones(40)) for a, b in ((first, second), (second, first)))
    assert one is not None
    assert other == pytest.approx((-one.value, -one.upper, -one.lower, one.p))


@pytest.mark.parametrize(("b", "c"), [(0, 0), (0, 1), (5, 0), (3, 11), (10, 10), (40, 70), (900, 1000)])
def test_mcnemar_is_the_binomial_test(b: int, c: int) -> None:
    theirs = stats.binomtest(b, b + c).pvalue if b + c else 1.0
    assert mcnemar(b, c) == pytest.approx(theirs, rel=1e-9)
    assert mcnemar(b, c) == mcnemar(c, b)


def test_mcnemar_by_counting_all_outcomes() -> None:
    b, c = 2, 7
    uneven = sum(abs(2 * sum(coins) - 9) >= abs(b - c) for coins in itertools.product((0, 1), repeat=9))
    assert mcnemar(b, c) == uneven / 2**9


def test_holm_is_the_closed_test_of_bonferroni() -> None:
    # Holm rejects a hypothesis where Bonferroni rejects every set of hypotheses that holds it.
    for p in ([0.01, 0.04, 0.03], [0.2, 0.001, 0.9, 0.02], [0.5], [0.04, 0.04], [0.0, 1.0, 0.3]):
        closed = [
            max(
                min(1.0, len(group) * min(p[i] for i in group))
                for size in range(1, len(p) + 1)
                for group in itertools.combinations(range(len(p)), size)
                if index in group
            )
            for index in range(len(p))
        ]
        assert holm(p) == pytest.approx(closed)
    assert holm([]) == []


@pytest.mark.slow
@pytest.mark.parametrize(("n", "share"), [(23, 0.3), (28, 0.05), (47, 0.5), (47, 0.98), (130, 0.1), (130, 0.8)])
def test_intervals_hold_the_truth(n: int, share: float) -> None:
    generator = np.random.default_rng(n)
    # Facts of one kind have a share of their own: three phrasings of a fact go together.
    own = generator.beta(4 * share, 4 * (1 - share), (n, 2000))
    hits = generator.binomial(3, own).astype(float)
    lower, upper = bootstrap(hits, np.full_like(hits, 3.0))
    assert 0.93 < np.mean((lower <= share) & (share <= upper)) <= 1
    binary = (generator.random((n, 2000)) < share).astype(float)
    lower, upper = bootstrap(binary, np.ones_like(binary))
    assert 0.93 < np.mean((lower <= share) & (share <= upper)) <= 1
    assert math.isfinite(float(upper.max()))


def test_readers_slips_have_as_many_trials_as_answers() -> None:
    counted = np.full((130, 1), 30.0)
    hits = counted.copy()
    hits[:3] -= 1  # three slips in 3,900 answers
    alike = bootstrap(hits, counted)
    apart = bootstrap(hits, counted, alike=False)
    exact = stats.binomtest(3897, 3900).proportion_ci(0.95, "exact")
    assert apart[0, 0] <= exact.low + 1e-9 and exact.high - 1e-9 <= apart[1, 0] <= 1
    assert alike[0, 0] < 0.98
    assert apart[0, 0] > 0.997
