"""Quotients of many values by one: its reciprocal is computed once.

A division that rounds as eager's takes about ten instructions and a branch.  Where the
divisor is the same for a row, its reciprocal is known, and a quotient is a product that
two fused multiply-adds correct (Markstein, "Computation of elementary functions on the IBM
RISC System/6000 processor", 1990).  A divisor beyond 2**100, or below 2**-100, is scaled
along with the dividends, so that its reciprocal has all bits.

The quotient is that of a division, bit for bit, unless it or the dividend is below 2**-100:
then it is at most 2 units in the last place from it.
"""

from attrs import evolve

from wrapperir.ir import DType
from wrapperir.lowering.triton.writer import BlockValue, Writer


def has_shared_divisor(dividend: BlockValue, divisor: BlockValue) -> bool:
    """Say whether several points of a tile have different dividends and one divisor."""
    return dividend.dtype is DType.F32 and divisor.dims < dividend.dims


def shared_quotient(
    writer: Writer, dividend: BlockValue, divisor: BlockValue
) -> BlockValue:
    """Return the text of a quotient; what depends on the divisor alone is written once."""

    def once(text: str, wanted: str) -> str:
        return writer.define(evolve(divisor, text=text), wanted).text

    scale = once(f"divisor_scale({divisor.text})", "scale")
    scaled = once(f"{divisor.text} * {scale}", "divisor")
    inverse = once(f"tl.div_rn(1.0, {scaled})", "inverse")
    level = max(dividend.level, divisor.level)
    text = f"quotient_by({dividend.text}, {scale}, {scaled}, {inverse})"
    return evolve(dividend, text=text, level=level)
