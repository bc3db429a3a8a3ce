"""The homes and agents of the integration tests."""

from tests.integration.conftest import home, join, program, quick, raw

__all__ = ["home", "join", "program", "quick", "raw"]
