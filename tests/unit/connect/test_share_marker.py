from __future__ import annotations

import pytest

from headrace.connect.publisher import Share
from headrace.connect.share_marker import ShareMarker
from headrace.core.errors import ExternalError


@pytest.mark.parametrize(
    ("marker", "published"),
    [
        (ShareMarker(3, 4, 10), 4),
        (ShareMarker(3, 10, 10), 10),
        (ShareMarker(2, 4, 99), 0),
        (ShareMarker(4, 0, 99), 10),
    ],
)
def test_what_is_published_of_a_share(marker: ShareMarker, published: int) -> None:
    assert marker.published(Share(3, 10)) == published


@pytest.mark.parametrize("marker", [ShareMarker(3, 4, 11), ShareMarker(3, 11, 10)])
def test_another_share_is_refused(marker: ShareMarker) -> None:
    with pytest.raises(ExternalError, match="of epoch 3 are published, but now that share has 10 rows"):
        marker.published(Share(3, 10))
