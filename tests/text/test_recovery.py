"""An error in a line that opens a block hides none of the errors within and after it."""

import pytest

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.text import parse_program

UNKNOWN, UNEXPECTED = Code.UNKNOWN_STATEMENT, Code.UNEXPECTED
MISPLACED, WORD, UNCLOSED = Code.MISPLACED_STATEMENT, Code.UNKNOWN_WORD, Code.UNCLOSED_BLOCK

CASES = {
    "the program's inputs": (
        """\
program @main(%x: f3) {
  symbol s0
  fee %a
  free b
  return }
}
""",
        [(2, WORD), (3, UNEXPECTED), (4, UNKNOWN), (5, UNEXPECTED), (6, UNEXPECTED)],
    ),
    "the program's brace": (
        """\
program @main()
  fee %a
  return
}
""",
        [(2, UNEXPECTED), (3, UNKNOWN)],
    ),
    "an unfinished program": (
        """\
program @main(%x: f3) {
  fee %a
""",
        [(2, WORD), (3, UNKNOWN), (3, UNCLOSED)],
    ),
    "a line with blocks": (
        """\
program @main() {
  %y = conditional %p (%x : f32[4] {
    true (%a: f32[4]) {
      fee %a
      return %a
    }
    false (%a: f3) {
      while_loop (%a () {
        condition () {
          fee
          return 1
        }
        body () {
          return
        }
      }
      return %a
    }
  }
  free b
  return
}
""",
        [
            *((3, UNEXPECTED), (5, UNKNOWN), (8, WORD), (9, UNEXPECTED)),
            *((11, UNKNOWN), (21, UNEXPECTED)),
        ],
    ),
    "a block of another role": (
        """\
program @main() {
  %y = conditional %p (%x) : f32[4] {
    body (%a: f32[4]) {
      return %a
    }
  }
  free b
  return
}
""",
        [(4, UNEXPECTED), (8, UNEXPECTED)],
    ),
    "a line of an unknown kind with a block": (
        """\
program @main() {
  fee {
    grid = 1
  }
  free b
  return
}
""",
        [(3, UNKNOWN), (6, UNEXPECTED)],
    ),
    "a kernel's parameters": (
        """\
kernel_definition @k triton(p: ead f32*) {
  grid = ()
  entry = 3
}
multi_kernel @m(p: ead f32*) {
  choice @k(x)
}
program @main() {
  return
}
""",
        [(2, WORD), (4, UNEXPECTED), (6, WORD), (7, UNEXPECTED)],
    ),
    "braces before remarks": (
        """\
program @main() {
  %y = conditional %p (%x : f32[4] {  # opens
    true (%a: f32[4]) {
      fee %a
      return %a
    }  # closes
    false () {  # "
      return %a
    }
  }
  fee "a # b" {  # opens {
    free b
  } # closes }
  free b  # opens nothing {
  return
}
""",
        [(3, UNEXPECTED), (5, UNKNOWN), (12, UNKNOWN), (15, UNEXPECTED)],
    ),
    "a source without bars": (
        """\
kernel_definition @k cpp() {
  entry = k
  source {
    if (x) {
    } else {
    | }
  } x
}
program @main() {
  return
}
""",
        [(5, UNEXPECTED), (6, UNEXPECTED), (8, UNEXPECTED)],
    ),
    "an unclosed kernel": (
        """\
kernel_definition @k triton() {
  entry = k
  source {
    | x
  }
program @main() {
  fee
  return
}
""",
        [(7, UNCLOSED), (8, UNKNOWN)],
    ),
    "an unclosed source": (
        """\
kernel_definition @k triton() {
  entry = k
  source {
    | x
program @main() {
  fee
  return
}
""",
        [(6, UNCLOSED), (7, UNKNOWN)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_malformed_line_is_reported_and_no_other(name: str) -> None:
    text, expected = CASES[name]
    with pytest.raises(DiagnosticError) as raised:
        parse_program("wrapperir 1\n" + text)
    found = [(d.position.line, d.code) for d in raised.value.diagnostics if d.position]
    assert found == expected


def test_recovery_keeps_the_cap() -> None:
    text = "wrapperir 1\nprogram @main(%x: f3) {\n" + "  fee %a\n" * 1000
    with pytest.raises(DiagnosticError) as raised:
        parse_program(text)
    assert len(raised.value.diagnostics) == 100
