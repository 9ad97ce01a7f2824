"""What sources in C++ and in Python share: signs, and parts that are written by need."""

import re
from collections.abc import Mapping

from wrapperir.ir import ExprOp

SIGNS: Mapping[ExprOp, str] = {
    ExprOp.ADD: "+",
    ExprOp.SUB: "-",
    ExprOp.MUL: "*",
    ExprOp.EQ: "==",
    ExprOp.NE: "!=",
    ExprOp.LT: "<",
    ExprOp.LE: "<=",
    ExprOp.GT: ">",
    ExprOp.GE: ">=",
    ExprOp.SHL: "<<",
    ExprOp.SHR: ">>",
    ExprOp.BITAND: "&",
    ExprOp.BITOR: "|",
    ExprOp.BITXOR: "^",
}
"""The signs that operators of indices have in C++ and in Python."""

_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


def needed_parts(text: str, parts: Mapping[str, str]) -> list[str]:
    """Return the parts that a text names, and those that they name, in their order.

    ``parts`` are texts by the name that a text uses each by.
    """
    needed: set[str] = set()
    texts = [text]
    while texts:
        for name in _NAME.findall(texts.pop()):
            if name in parts and name not in needed:
                needed.add(name)
                texts.append(parts[name])
    return [part.strip("\n") for name, part in parts.items() if name in needed]
