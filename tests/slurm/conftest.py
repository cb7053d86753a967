"""One cluster without a database for the session, one with a database for the tests that need QoS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.slurm.cluster import Cluster, missing


def _started(factory: pytest.TempPathFactory, *, database: bool) -> Iterator[Cluster]:
    if reason := missing(database=database):
        pytest.skip(reason)
    made = Cluster(factory.mktemp("slurm"), database=database)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running cluster without accounting."""
    yield from _started(tmp_path_factory, database=False)


@pytest.fixture(scope="session")
def accounting_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running cluster with slurmdbd: accounting, associations, QoS."""
    yield from _started(tmp_path_factory, database=True)
