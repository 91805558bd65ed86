"""The deployment suite (`support.deployed.scenarios`), a file for each target."""

import pytest

# before it is imported: its assertions show values, as those of tests do
pytest.register_assert_rewrite("support.deployed.scenarios")
