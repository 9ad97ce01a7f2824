from pathlib import Path

import pytest

from bench.memory.check_plan import check_plan
from bench.memory.instances import parse_instance, read_instance
from wrapperir.planning import Buffer, plan_greedily

PUBLIC = Path(__file__).parents[3] / "shared" / "bench"


def test_rows_are_buffers() -> None:
    text = "id,lower,upper,size\n0,3,9,4\n\nb,9,9,12\n"
    assert parse_instance(text) == (Buffer(4, 3, 9), Buffer(12, 9, 9))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected the columns id,lower,upper,size"),
        ("id,lower,upper\n", "line 1: expected the columns id,lower,upper,size"),
        ("id,lower,upper,size\n0,1,2\n", "line 2: expected 4 values, found 3"),
        (
            "id,lower,upper,size\n0,1,2,x\n",
            "line 2: size is to be a whole number, found 'x'",
        ),
        ("id,lower,upper,size\n0,1,2,-3\n", "line 2: size is to be a whole number"),
        ("id,lower,upper,size\n0,1,2,٣\n", "line 2: size is to be a whole number"),
        (
            "id,lower,upper,size\n0,1,2," + "9" * 5000,
            "line 2: size is to be a whole number",
        ),
        ("id,lower,upper,size\n0,1,2,3\n0,1,2,3\n", "line 3: buffer 0 is there twice"),
        ("id,lower,upper,size\n0,5,2,3\n", "line 2: upper 2 is before lower 5"),
        ("id,lower,upper,size\n" + "x" * 200_000, "line 2: field larger than field limit"),
    ],
)
def test_what_is_no_such_csv_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_instance(text)


def test_an_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(b"id,lower,upper,size\n\xff")
    with pytest.raises(ValueError, match=r"bad\.csv: .*utf-8"):
        read_instance(path)


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public instances are not there")
def test_public_instances_are_placed_soundly() -> None:
    paths = sorted(PUBLIC.glob("*/*.csv"))
    assert paths
    for path in paths:
        buffers = read_instance(path)
        plan = plan_greedily(buffers)
        assert check_plan(buffers, plan) == ()
        # ordering by size alone stays 1.30 to 1.36 above it on MiniMalloc's
        limit = 0.004 if path.parent.name == "idealloc" else 0.31
        assert plan.gap <= limit, path.name
