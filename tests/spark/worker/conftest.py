"""What tests of workers share."""

import pytest
from tests.support.innocent import INNOCENT, play
from tests.support.local_runtime import Local
from tests.support.submissions import STREAMS


@pytest.fixture(scope="package")
def expected(tmp_path_factory: pytest.TempPathFactory) -> object:
    """The results of the innocent query where it is alone."""
    local = Local(tmp_path_factory.mktemp("alone"), STREAMS, [INNOCENT], workers=2)
    play(local)
    return local.results("innocent")
