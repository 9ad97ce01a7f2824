"""Pages are opened as those of reports are."""

from tests.report.conftest import browser, opener

__all__ = ["browser", "opener"]
