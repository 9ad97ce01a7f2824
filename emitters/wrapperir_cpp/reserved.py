"""Names that a program's own may not have in C++."""

KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t
    char16_t char32_t class compl concept const consteval constexpr constinit const_cast
    continue co_await co_return co_yield decltype default delete do double dynamic_cast
    else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
    public register reinterpret_cast requires return short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try
    typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
    xor_eq
    """.split()  # noqa: SIM905
)
MACROS = frozenset({"linux", "unix", "assert", "errno", "strdupa", "strndupa"})
"""What headers or compilers define; others are all capitals or begin with ``_``."""
LIBRARY = frozenset({"main", "abort", "exit", "malloc", "free", "memcpy", "memset", "std"})
OWN = frozenset(
    """
    c f p t wrapperir num op Call run at check fail
    arena constant_data constants devices fixed inputs outputs
    """.split()  # noqa: SIM905
)
"""What emitted programs call their own, members of a call among them."""
RUNTIME = frozenset(
    """
    AOTITorchError AtenGeneratorHandle AtenTensorHandle ConstantFact Context DType
    Description Device Failure FixedTensor InputFact Ints LineFact Owner Tensor TensorFact
    ZeroedRange any_number call owned assert_alignment assert_finite assert_size_stride
    check_empty_outside check_inside check_layout check_offset check_one check_range
    data_of empty empty_aligned empty_pinned room_of
    fail_in_torch item_bool item_of
    new_handle offset_of out_of_range output sgemm_ dgemm_ size_of small_float stride_of
    take torch_device torch_dtype view view_as view_memory
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t
    Constant Fixed Slot constants_ fixed_ inputs_ lines_ timed_ zeroed_
    Argument Fastest Hint Launch Use as_launch choice choice_is_open choice_is_timed
    choice_of given nearest nearest_of recent run_choice spanned_bytes time_choices
    """.split()  # noqa: SIM905
)
"""What the runtime's headers, and the files that include them, declare."""
DEVICES = frozenset({"DeviceCall", "DeviceEnd", "DevicePlan", "OnStream", "context", "on"})
"""What those with streams declare."""

RESERVED = KEYWORDS | MACROS | LIBRARY | OWN | RUNTIME | DEVICES
