"""The tables of Apple's kernels, and that cutting attention changes nothing but its speed."""

from __future__ import annotations

import mlx.core as mx
import pytest

from mlx_spec import apple


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("applegpu_g13s", (13, False)),
        ("applegpu_g15d", (15, True)),
        ("applegpu_g17p", (17, False)),
        ("sm_90", (0, False)),
    ],
)
def test_generation(name: str, expected: tuple[int, bool]) -> None:
    assert apple.generation(name) == expected


@pytest.mark.parametrize(
    ("heads", "rows"),
    [((32, 8), 8), ((24, 4), 5), ((64, 8), 4), ((16, 16), 8), ((12, 2), 5), ((71, 1), 1)],
)
def test_rows_of_the_fast_path(heads: tuple[int, int], rows: int) -> None:
    assert apple.fast_rows(*heads) == rows


@pytest.mark.parametrize("rows", range(1, 40))
@pytest.mark.parametrize("heads", [(32, 8), (24, 4), (64, 8), (9, 3), (71, 1)])
def test_groups_hold_all_rows_and_fit(rows: int, heads: tuple[int, int]) -> None:
    sizes = apple.groups(rows, *heads)
    assert sum(sizes) == rows
    if len(sizes) > 1:
        assert max(sizes) * heads[0] <= apple.FAST_PRODUCT * heads[1]
        assert max(sizes) - min(sizes) <= 1


def test_trips_of_the_weights() -> None:
    """M1: every row reads them again until the matrix kernel takes over; M3 and later: once for five rows."""
    assert [apple.weight_trips(w, 13, False, 4096) for w in (1, 2, 5, 9, 10, 40)] == [1, 2, 5, 9, 10, 10]
    assert [apple.weight_trips(w, 16, False, 4096) for w in (1, 5, 6, 10, 11, 40)] == [1, 1, 2, 2, 3, 3]
    assert apple.matrix_from(17, False, 2048) == 33
    assert apple.matrix_from(14, True, 8192) == 12


@pytest.mark.parametrize("mask", ["causal", None, "bool", "one row"])
@pytest.mark.parametrize("rows", [2, 5, 7, 16])
def test_cut_attention_is_attention(mask: str | None, rows: int) -> None:
    mx.random.seed(rows)
    q = mx.random.normal((1, 16, rows, 64))
    k, v = mx.random.normal((1, 2, 40, 64)), mx.random.normal((1, 2, 40, 64))
    given: str | mx.array | None = mask
    if mask == "bool":
        given = mx.random.uniform(shape=(rows, 40)) < 0.7
    elif mask == "one row":
        given = mx.random.uniform(shape=(1, 40)) < 0.7
    whole = mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask=given)
    parts = apple.split_attention(mx.fast.scaled_dot_product_attention, q, k, v, scale=0.125, mask=given)
    assert mx.allclose(whole, parts, atol=1e-5)


def test_only_apple_gpus_are_changed() -> None:
    if not mx.metal.is_available():
        assert not apple.install()
