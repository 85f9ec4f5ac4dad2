"""Small dense algebra is fastest on one thread; the limit has to be set before numpy loads."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest

pytest.register_assert_rewrite("support")
