import pytest

from tests.models.table import small


@pytest.fixture(autouse=True)
def _quick():
    """Every fit and draw of these tests is small."""
    with small.quick():
        yield
