"""Accesses of points to the elements of a buffer: no point may use what another writes."""

import torch
from attrs import define, field

from wrapperir.diagnostics import Code, FaultError

_NONE, _SEVERAL = -1, -2


@define
class PointAccesses:
    """The points that have read and written each element of a buffer.

    ``count`` is the number of elements.  Elements and points are given as tensors of equal
    length, one entry for each access.
    """

    name: str
    count: int
    _readers: torch.Tensor = field(init=False)
    _writers: torch.Tensor = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Begin without accesses."""
        self._readers = torch.full((self.count,), _NONE)
        self._writers = torch.full((self.count,), _NONE)

    def read(self, elements: torch.Tensor, points: torch.Tensor) -> None:
        """Note reads.

        Raises:
            FaultError: WIR843, another point has written an element.
        """
        self._check(self._writers, elements, points, "reads")
        _note(self._readers, elements, points)

    def write(self, elements: torch.Tensor, points: torch.Tensor) -> None:
        """Note writes of which no two may be of one element.

        Raises:
            FaultError: WIR843, another point has read or written an element, or does.
        """
        self._check(self._readers, elements, points, "writes")
        self._check(self._writers, elements, points, "writes")
        times = torch.bincount(elements, minlength=1)
        if bool((times > 1).any()):
            raise self._fault("writes", int(times.argmax()))
        _note(self._writers, elements, points)

    def combine(self, elements: torch.Tensor, points: torch.Tensor) -> None:
        """Note writes of which several may be of one element.

        Raises:
            FaultError: WIR843, another point has read an element.
        """
        self._check(self._readers, elements, points, "writes")
        _note(self._writers, elements, points)

    def _check(
        self, before: torch.Tensor, elements: torch.Tensor, points: torch.Tensor, verb: str
    ) -> None:
        earlier = before[elements]
        wrong = (earlier != _NONE) & (earlier != points)
        if bool(wrong.any()):
            raise self._fault(verb, int(elements[wrong][0]))

    def _fault(self, verb: str, element: int) -> FaultError:
        return FaultError(
            Code.RUN_POINT_RACE,
            f"a point {verb} element {element} of {self.name}, which another uses too",
            hint="points of a nest may run in any order and at once",
        )


def _note(known: torch.Tensor, elements: torch.Tensor, points: torch.Tensor) -> None:
    """Set the point of each element; ``_SEVERAL`` where there are several."""
    least = torch.full_like(known, torch.iinfo(known.dtype).max)
    least.scatter_reduce_(0, elements, points, "amin")
    most = torch.full_like(known, _NONE).scatter_reduce_(0, elements, points, "amax")
    one = (least == most) & ((known == _NONE) | (known == most))
    known[:] = torch.where(most == _NONE, known, torch.where(one, most, _SEVERAL))
