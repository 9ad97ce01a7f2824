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
MACROS = frozenset({"NULL", "INT64_MIN", "INT64_MAX", "linux", "unix", "assert", "errno"})
"""What headers or compilers define."""
LIBRARY = frozenset({"main", "abort", "exit", "malloc", "free", "memcpy", "memset", "std"})
OWN = frozenset(
    {"c", "f", "p", "wrapperir", "num", "op", "Call", "run", "at", "check", "fail"}
)
"""What emitted programs call their own."""
CUDA = frozenset(
    {
        *("CudaCall", "CudaEnd", "CudaPlan", "Grid", "OnStream", "TritonKernel"),
        *("bfloat16_bits", "context", "describe", "half_bits", "launch", "narrow", "on"),
    }
)
"""What those on CUDA devices call theirs."""

RESERVED = KEYWORDS | MACROS | LIBRARY | OWN | CUDA
