"""Confidence rises with each feature and stays within its bounds."""

from __future__ import annotations

from dataclasses import fields, replace

from hypothesis import given
from hypothesis import strategies as st

from agentloop.compress.confidence import Features, confidence

SHARE = st.floats(0, 1)
FEATURES = st.builds(Features, SHARE, SHARE, SHARE, SHARE)


@given(FEATURES, st.sampled_from([f.name for f in fields(Features)]), SHARE)
def test_confidence_never_falls_when_a_feature_rises(features: Features, name: str, value: float) -> None:
    higher = replace(features, **{name: max(value, getattr(features, name))})
    assert confidence(higher) >= confidence(features)


@given(st.builds(Features, *[st.floats(allow_nan=False, allow_infinity=True)] * 4))
def test_confidence_is_a_probability_of_two_decimals(features: Features) -> None:
    value = confidence(features)
    assert 0.01 <= value <= 0.99
    assert round(value, 2) == value


def test_the_ends_of_the_scale_are_apart() -> None:
    assert confidence(Features(1, 1, 1, 1)) > 0.7
    assert confidence(Features(0.2, 0.1, 0.2, 0.1)) < 0.1
