"""Settings for all tests: Hypothesis has no deadline, because machines are shared and time proves nothing."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "moldau", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], print_blob=True
)
settings.load_profile("moldau")
