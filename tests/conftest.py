"""Settings for all tests: Hypothesis has no deadline, because machines are shared and time proves nothing."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "moldau", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], print_blob=True
)
settings.load_profile("moldau")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="Write down what scenes lead to now, and compare nothing.")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether scenes are written anew."""
    return bool(request.config.getoption("--rewrite"))
