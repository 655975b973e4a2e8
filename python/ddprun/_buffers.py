"""Where the elements of a Python object lie: its address, count and type, for
NumPy arrays, torch tensors, everything with the buffer protocol, and DLPack. It
copies nothing and imports neither NumPy nor torch."""
import ctypes
import struct
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

# enum ddp_type of ddp.h, whose values never change, and the bytes of an element
F32, F64, I32, I64, F16, BF16, I8, U8 = range(8)
SIZES = (4, 8, 4, 8, 2, 2, 1, 1)

# dtypes by name, as NumPy, ml_dtypes and torch have them
_names: Dict[str, int] = {
    "float32": F32, "float64": F64, "int32": I32, "int64": I64,
    "float16": F16, "bfloat16": BF16, "int8": I8, "uint8": U8,
    "bool": U8,
}
# The buffer protocol's formats, of this machine's C types.
_formats: Dict[str, int] = {
    "f": F32, "d": F64, "e": F16, "b": I8, "B": U8, "c": U8, "?": U8,
    **{c: I32 if struct.calcsize(c) == 4 else I64 for c in "ilqn"},
}
# DLPack's codes: (code, bits)
_dlpack: Dict[Tuple[int, int], int] = {
    (2, 32): F32, (2, 64): F64, (0, 32): I32, (0, 64): I64, (2, 16): F16,
    (4, 16): BF16, (0, 8): I8, (1, 8): U8, (6, 8): U8,
}


class Buffer(NamedTuple):
    """A number of elements of a type at address, which live as long as owner."""

    address: int
    elements: int
    type: int
    owner: object

    @property
    def size(self) -> int:
        """In bytes."""
        return self.elements * SIZES[self.type]


def _refuse(obj: object, why: str) -> TypeError:
    return TypeError(f"a {type(obj).__name__} cannot be used as a buffer: {why}")


def _named(obj: object, name: str) -> int:
    try:
        return _names[name]
    except KeyError:
        raise _refuse(obj, f"libddp has no type {name}; it has "
                      + ", ".join(sorted(_names))) from None


def _from_torch(obj: Any, writes: bool) -> Buffer:
    if obj.device.type != "cpu":
        raise _refuse(obj, f"it is on {obj.device}, and only host memory can "
                      "be used here")
    if obj.layout.__repr__() != "torch.strided":
        raise _refuse(obj, f"its layout is {obj.layout}")
    if not obj.is_contiguous():
        raise _refuse(obj, "it is not contiguous; call .contiguous()")
    kind = _named(obj, str(obj.dtype).replace("torch.", ""))
    return Buffer(obj.data_ptr(), obj.numel(), kind, obj)


def _from_numpy(obj: Any, writes: bool) -> Buffer:
    if not obj.flags.c_contiguous:
        raise _refuse(obj, "it is not contiguous; use "
                      "numpy.ascontiguousarray")
    if writes and not obj.flags.writeable:
        raise _refuse(obj, "it is read-only")
    if not obj.dtype.isnative:
        raise _refuse(obj, "its bytes are not in this machine's order")
    return Buffer(obj.ctypes.data, obj.size, _named(obj, obj.dtype.name), obj)


class _PyBuffer(ctypes.Structure):
    """Py_buffer of CPython's stable ABI"""

    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [
    ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]
_release_buffer.restype = None


def _from_view(obj: object, writes: bool) -> Buffer:
    view = memoryview(obj)  # type: ignore[arg-type]
    if not view.c_contiguous:
        raise _refuse(obj, "it is not contiguous")
    if writes and view.readonly:
        raise _refuse(obj, "it is read-only")
    form = view.format
    if form[:1] in "@=" and len(form) > 1:
        form = form[1:]
    if form not in _formats:
        raise _refuse(obj, f"libddp has no type for the format '{form}'")
    # The view keeps the memory where it is: a bytearray cannot be resized.
    raw = _PyBuffer()
    _get_buffer(view, ctypes.byref(raw), 0)
    address = raw.buf or 0
    _release_buffer(ctypes.byref(raw))
    return Buffer(address, view.nbytes // view.itemsize, _formats[form], view)


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h"""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned of dlpack.h"""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    ]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_pointer.restype = ctypes.c_void_p
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_is_valid.restype = ctypes.c_int


def _contiguous(t: _Tensor) -> bool:
    want = 1
    for i in reversed(range(t.ndim)):
        if t.strides and t.shape[i] > 1 and t.strides[i] != want:
            return False
        want *= t.shape[i]
    return True


def _from_dlpack(obj: Any, writes: bool) -> Buffer:
    device = int(obj.__dlpack_device__()[0])
    if device not in (1, 3):  # kDLCPU, kDLCUDAHost
        raise _refuse(obj, f"it is on DLPack's device {device}, and only host "
                      "memory can be used here")
    try:
        capsule = obj.__dlpack__(max_version=(1, 0))
    except TypeError:
        capsule = obj.__dlpack__()
    # Not renamed, the capsule frees the tensor when it is collected.
    if _is_valid(capsule, b"dltensor_versioned"):
        at = _pointer(capsule, b"dltensor_versioned")
        whole = _Versioned.from_address(at or 0)
        t = whole.tensor
        if writes and whole.flags & 1:
            raise _refuse(obj, "it is read-only")
    else:
        t = _Tensor.from_address(_pointer(capsule, b"dltensor") or 0)
    if not _contiguous(t):
        raise _refuse(obj, "it is not contiguous")
    kind = _dlpack.get((t.code, t.bits))
    if kind is None or t.lanes != 1:
        raise _refuse(obj, f"libddp has no type for DLPack's ({t.code}, "
                      f"{t.bits}, {t.lanes})")
    count = 1
    for i in range(t.ndim):
        count *= t.shape[i]
    return Buffer((t.data or 0) + t.byte_offset, count, kind, (obj, capsule))


def _reader(obj: Any) -> Callable[[Any, bool], Buffer]:
    kind = type(obj)
    if hasattr(obj, "data_ptr") and hasattr(obj, "is_contiguous"):
        return _from_torch
    if hasattr(kind, "__array_interface__"):
        return _from_numpy
    try:
        memoryview(obj)
        return _from_view
    except TypeError:
        pass
    if hasattr(obj, "__dlpack__"):
        return _from_dlpack
    raise _refuse(obj, "it has neither the buffer protocol nor DLPack")


def buffer(obj: object, writes: bool = False) -> Buffer:
    """The Buffer of obj. TypeError, which says why: it has none, lies elsewhere
    than in host memory, is not contiguous or of a type that libddp lacks; or it
    is to be written and is read-only."""
    return _reader(obj)(obj, writes)


def optional(obj: Optional[object], writes: bool = False) -> Optional[Buffer]:
    """As buffer; None for None."""
    return None if obj is None else buffer(obj, writes)
