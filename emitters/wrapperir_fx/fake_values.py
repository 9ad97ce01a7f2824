"""Fake values of a program: PyTorch's fake tensors and symbolic numbers.

A fake tensor has the size, strides, offset, element type and device of a type, and no
memory.  All fake tensors of a program belong to one fake mode, which tracers can use.

Fake tensors are made without the dispatcher, which takes many times as long: a tensor on
the *meta* device is wrapped as ``FakeTensor`` does it, and the other attributes are copied
from a fake tensor that PyTorch made for that device.
"""

from typing import Any

import torch
from attrs import frozen
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from wrapperir import ir as wir
from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.torch_dtypes import torch_device, torch_dtype
from wrapperir_fx.symbolic_arithmetic import SymbolicNumber
from wrapperir_fx.symbolic_numbers import SymbolicNumbers

_META = torch.device("meta")
_WithoutModes = torch._C._DisableTorchDispatch  # whoever compiles may be under a mode
_RESIZE_STORAGE = torch.ops.inductor.resize_storage_bytes_.default


@frozen
class _DeviceLook:
    """A device, and the attributes of all fake tensors on it."""

    device: torch.device
    state: dict[str, object]


@frozen
class _Look:
    """The layout of a tensor type; ``meta`` is such a tensor on the *meta* device."""

    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any
    meta: torch.Tensor
    device: _DeviceLook


def _present(place: torch.device) -> torch.device:
    """Return an existing GPU in place of a missing one: PyTorch allocates on it."""
    count = torch.cuda.device_count() if place.type == "cuda" else 0
    return torch.device("cuda", 0) if 0 < count <= (place.index or 0) else place


class FakeValues(SymbolicNumbers):
    """Makes the fake tensors and numbers of one program."""

    def __init__(self, facts: ProgramFacts) -> None:
        """Prepare a fake mode for one program."""
        super().__init__(facts)
        self.mode = FakeTensorMode(shape_env=self.shape_env, allow_non_fake_inputs=True)
        self._looks: dict[wir.ValueType, _Look] = {}
        self._devices: dict[wir.Device, _DeviceLook] = {}
        # The meta tensor of each fake tensor, which is kept so that its id stays unique.
        self._metas: dict[int, tuple[FakeTensor, torch.Tensor]] = {}

    def of(self, type: wir.ValueType, name: str = "") -> object:
        """Return a fake value of a type, another tensor at each call.

        A number with a ``name`` is always the same, and also the value of the symbols
        that are read from it.  Values that are not tensors, pools, numbers or tuples are
        ``None``.
        """
        look = self._looks.get(type)
        if look is not None:
            with _WithoutModes():
                # A lazy clone has its own storage, and is quicker than other copies.
                return self._wrapped(torch._lazy_clone(look.meta), look.device)
        match type:
            case wir.TensorType():
                self._look(type)
                return self.of(type, name)
            case wir.PoolType():
                return self.of(wir.pool_bytes(type))
            case wir.TupleType():
                return tuple(self.of(element) for element in type.elements)
            case wir.ScalarType():
                return self.scalar(name, type.dtype)
            case wir.OpaqueType() | wir.EventType():
                return None

    def view(
        self,
        source: object,
        type: wir.TensorType | wir.PoolType,
        offset: SymbolicNumber | None = None,
    ) -> object:
        """Return a fake view of ``source``, whose storage it shares.

        ``offset`` counts elements of the view from the start of the storage; by default
        it is the offset of the type.
        """
        if isinstance(type, wir.PoolType):
            type = wir.pool_bytes(type)
        fake, meta = self._metas.get(id(source), (None, None))
        if meta is None or fake is not source:
            return self.of(type)
        look = self._looks.get(type) or self._look(type)
        begin: Any = look.offset if offset is None else offset
        dtype = look.meta.dtype
        with _WithoutModes():
            if meta.dtype is not dtype:
                meta = torch.as_strided(meta, (0,), (1,), 0).view(dtype)
            meta = torch.as_strided(meta, look.size, look.stride, begin)
            return self._wrapped(meta, look.device)

    def _look(self, type: wir.TensorType) -> _Look:
        size: tuple[Any, ...] = tuple([self.number(entry) for entry in type.size])
        stride: tuple[Any, ...] = tuple([self.number(entry) for entry in type.stride])
        offset: Any = self.number(type.offset)
        extent = wir.add(type.offset, wir.storage_extent(type))
        bytes = self.number(wir.mul(extent, type.dtype.itemsize))
        dtype = torch_dtype(type.dtype)
        with _WithoutModes():
            meta = torch.empty(0, dtype=dtype, device=_META)
            # Not empty_strided, which decides that symbolic sizes are not zero.
            _RESIZE_STORAGE(meta, bytes)
            meta = torch.as_strided(meta, size, stride, offset)
        device = self._devices.get(type.device) or self._device(type.device)
        look = self._looks[type] = _Look(size, stride, offset, meta, device)
        return look

    def _device(self, device: wir.Device) -> _DeviceLook:
        """Return the attributes of fake tensors on a device, as PyTorch makes them."""
        try:
            place = torch_device(device)
        except ValueError:  # no graph runs there, but it can be built, printed and read
            place = _META
        with _WithoutModes():
            meta = torch.empty(0, device=_META)
            made = FakeTensor(self.mode, meta, _present(place))
        state: dict[str, object] = dict(vars(made))
        if _present(place) is place:
            place = made.fake_device
        else:
            state.update({key: place for key in state if state[key] == made.fake_device})
        look = self._devices[device] = _DeviceLook(place, state)
        return look

    def _wrapped(self, meta: torch.Tensor, device: _DeviceLook) -> FakeTensor:
        place = device.device
        fake = torch.Tensor._make_subclass(
            FakeTensor, meta, False, dispatch_device=True, device_for_backend_keys=place
        )
        torch._C._set_throw_on_mutable_data_ptr(fake)
        vars(fake).update(device.state)
        self._metas[id(fake)] = fake, meta
        return fake
