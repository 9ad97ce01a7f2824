"""Explanations say what kernels touch, and who chose to reuse memory."""

import json

from tests.report.test_copies import FUSED_COPY
from tests.report.test_explanation import explained
from tests.report.test_memory_changes import REUSING
from wrapperir.report import format_explanation, format_explanation_json


def test_a_list_of_kernels_says_what_they_touch_or_that_values_are_whole() -> None:
    text = FUSED_COPY.replace(
        "  entry = fused\n",
        """  entry = fused
  metadata "touched.reads" = "x 64, w 72"
  metadata "touched.writes" = "y 64, v 72, c 64"
""",
    )
    shown = format_explanation(explained(None, text))
    assert "      reads 544 bytes, writes 800 bytes\n" in shown
    assert "      reads 544 bytes, writes 32 bytes, of whole values\n" in shown
    kernel, call = json.loads(format_explanation_json(explained(None, text)))["lines"]
    assert (kernel["read_bytes"], kernel["touched"], call["touched"]) == (544, True, False)
    whole = format_explanation(explained("@fused", FUSED_COPY))
    assert "writes 1.03 KiB, of whole values" in whole


def test_a_reuse_that_no_pass_made_says_that_the_frontend_chose_it() -> None:
    shown = format_explanation(explained("%b", REUSING))
    assert shown.count("      reuse chosen by the frontend, not by a pass\n") == 1
    assert "      by reuse_buffers\n" in shown
