"""What every test may ask for."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, the loop that the product runs on."""
    return "asyncio"
