"""One case a line kind and variant: the body in text, and the Python it becomes."""

import textwrap

from attrs import frozen

HEADER = """\
wrapperir 1

kernel_definition @add_one cpp(p: read_write f32*, n: i64) {
  entry = kernel
  source {
    | #include <cstdint>
    | extern "C" void kernel(float* p, int64_t n) {
    |   for (int64_t i = 0; i < n; ++i) p[i] += 1;
    | }
  }
}

kernel_definition @add_two cpp(p: read_write f32*, n: i64) {
  entry = kernel
  source {
    | this is never called, so it is never compiled
  }
}

kernel_definition @scale cpp(p: read_write f32*, n: i32, by: f64, negate: bool) {
  entry = scale_by
  source {
    | #include <cstdint>
    | extern "C" void scale_by(float* p, int32_t n, double by, bool negate) {
    |   for (int32_t i = 0; i < n; ++i) p[i] = float(negate ? -p[i] * by : p[i] * by);
    | }
  }
}

kernel_definition @double triton(p: read_write f32*, n: i32, XBLOCK: constexpr) {
  grid = (ceildiv(n, XBLOCK), 1, 1)
  config XBLOCK = 16, num_warps = 4
  entry = triton_
  source {
    | @triton.jit
    | def triton_(p, n, XBLOCK: tl.constexpr):
    |     i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    |     tl.store(p + i, tl.load(p + i, mask=i < n) * 2, mask=i < n)
  }
}

kernel_definition @add_back cpp(n: i64, p: read_write f32*) {
  entry = kernel
  source {
    | #include <cstdint>
    | extern "C" void kernel(int64_t n, float* p) {
    |   while (n--) p[n] += 1;
    | }
  }
}

multi_kernel @either(n: i64, p: read_write f32*) {
  choice @add_two(1, 0)
  choice @add_one(1, 0)
  select forced(1)
}

multi_kernel @near(n: i64, p: read_write f32*) {
  size M = size(p, 0)
  size N = size(p, 1)
  choice @add_one(1, 0)
  choice @add_back(0, 1)
  select nearest_shape(0: (2, 8), 1: (64, 64))
}

multi_kernel @computed(n: i64, p: read_write f32*) {
  size M = size(p, 0)
  choice @add_one(1, 0)
  choice @add_back(0, 1)
  select computed(where(M * 2 == n, 0, 1))
}

multi_kernel @timed(n: i64, p: read_write f32*) {
  choice @add_one(1, 0)
  choice @add_back(0, 1)
  select benchmark
}

program @main(%x: mutated f32[s0, 8], %m: f32[8, 8], %n: i64, %flag: bool[]) symbols_here {
"""


@frozen
class Case:
    """Lines of a program, its outputs, and the lines of Python that they become."""

    lines: str
    python: str
    outputs: str = "%r"
    origins: str = ""

    @property
    def text(self) -> str:
        """The whole program: ``%x`` is 4×8, ``%m`` 8×8, ``%n`` 5, ``%flag`` true."""
        head = HEADER.replace(" symbols_here", "")
        lines = textwrap.indent(textwrap.dedent(self.lines).strip("\n"), "  ")
        return (
            f"{head}  symbol s0: int 2..100 = size(%x, 0)\n"
            f'  constant %w: f32[8, 8] = "fc.weight"\n{lines}\n'
            f"  return {self.outputs}\n}}\n{textwrap.dedent(self.origins)}"
        )

    @property
    def expected(self) -> str:
        """The Python, at the left margin."""
        return textwrap.dedent(self.python).strip("\n")


R = "%r = extern_kernel aten.clone.default(%x) : f32[s0, 8]\n"
CLONE = "r = aten_clone_default(x)\n"

CASES = {
    "allocate": Case(
        "%r = allocate f32[4, 8]\nextern_kernel aten.fill_.Scalar(%r, 1.5) writes(%r)",
        """
        r = empty_strided_cpu((4, 8), (8, 1), float32)
        aten_fill__Scalar(r, 1.5)
        """,
    ),
    "allocate symbolic": Case(
        "%r = allocate i64[s0 * 2, 3; stride 1, s0 * 2]\n"
        "extern_kernel aten.fill_.Scalar(%r, 2) writes(%r)",
        """
        r = empty_strided_cpu((s0 * 2, 3), (1, s0 * 2), int64)
        aten_fill__Scalar(r, 2)
        """,
    ),
    "allocate with an offset": Case(
        "%r = allocate f32[4; offset 4]\nextern_kernel aten.fill_.Scalar(%r, 2) writes(%r)",
        """
        r = reinterpret_tensor(empty_strided_cpu((8,), (1,), float32), (4,), (1,), 4)
        aten_fill__Scalar(r, 2)
        """,
    ),
    "allocate aligned": Case(
        "%a = allocate f32[4, 4; stride 8, 1] {align = 4096}\n"
        "assert_alignment %a 4096\n"
        "%r = extern_kernel aten.zeros_like.default(%a) : f32[4, 4]\n"
        "%v = reinterpret %a as f32[4]\n"
        "free %a\n"
        "extern_kernel aten.fill_.Scalar(%v, 2) writes(%v)\n"
        "free %v",
        """
        a = empty_aligned((4, 4), (8, 1), float32, 28, device, 4096)
        if a.data_ptr() % 4096: raise AssertionError('%a is not aligned to 4096 bytes')
        r = aten_zeros_like_default(a)
        v = reinterpret_tensor(a, (4,), (1,), 0)
        del a
        aten_fill__Scalar(v, 2)
        del v
        """,
    ),
    "workspace, zero on call": Case(
        "%r = allocate u8[4096] workspace(zero_on_call)",
        "r = empty_strided_cpu((4096,), (1,), uint8)\nr.zero_()",
    ),
    "workspace, uninitialized": Case(
        "%ws = allocate u8[64] workspace(uninitialized)\n" + R + "free %ws",
        "ws = empty_strided_cpu((64,), (1,), uint8)\n" + CLONE + "del ws",
    ),
    "workspace, zero per program": Case(
        "%ws = allocate i32[16] workspace(zero_per_program)\n" + R,
        CLONE,
    ),
    "workspace, zero per program, symbolic": Case(
        "%ws = allocate i32[s0] workspace(zero_per_program)\n"
        "%r = extern_kernel aten.clone.default(%ws) : i32[s0]",
        """
        ws = kept_workspaces.get((s0, 1, 0))
        if ws is None:
            ws = kept_workspaces[(s0, 1, 0)] = empty_strided_cpu((s0,), (1,), int32).zero_()
        r = aten_clone_default(ws)
        """,
    ),
    "free": Case(R + "free %x", CLONE + "del x"),
    "pool, one tensor for a place and type": Case(
        """
        %p = allocate_pool pool[512]
        %a = place f32[8, 8] in %p at 0
        extern_kernel aten.mm.out(%m, %m, out = %a) writes(%a)
        %b = place f32[8, 8] in %p at 256
        extern_kernel aten.mm.out(%a, %m, out = %b) writes(%b)
        free %a
        %c = place f32[8, 8] in %p at 0
        extern_kernel aten.mm.out(%b, %m, out = %c) writes(%c)
        %r = reuse %b as f32[8, 8]
        extern_kernel aten.mm.out(%c, %m, out = %r) writes(%r)
        free %c
        free %p
        """,
        """
        p = empty_strided_cpu((128,), (1,), float32)
        p_at_0_f32 = reinterpret_tensor(p, (8, 8), (8, 1), 0)
        # a is p_at_0_f32: f32[8, 8]
        mm_out(m, m, p_at_0_f32)
        p_at_256_f32 = reinterpret_tensor(p, (8, 8), (8, 1), 64)
        # b is p_at_256_f32: f32[8, 8]
        mm_out(p_at_0_f32, m, p_at_256_f32)
        # c is p_at_0_f32: f32[8, 8]
        mm_out(p_at_256_f32, m, p_at_0_f32)
        # r is p_at_256_f32: f32[8, 8]
        mm_out(p_at_0_f32, m, p_at_256_f32)
        """,
    ),
    "pool, of one layout": Case(
        """
        %p = allocate_pool pool[256]
        %a = place f32[8, 8] in %p at 0
        extern_kernel aten.mm.out(%m, %m, out = %a) writes(%a)
        %q = extern_kernel aten.clone.default(%a) : f32[8, 8]
        free %a
        %b = place f32[8, 8] in %p at 0
        free %p
        extern_kernel aten.mm.out(%q, %m, out = %b) writes(%b)
        %r = extern_kernel aten.clone.default(%b) : f32[8, 8]
        free %b
        """,
        """
        p = empty_strided_cpu((8, 8), (8, 1), float32)
        # a is p: f32[8, 8]
        mm_out(m, m, p)
        q = aten_clone_default(p)
        # b is p: f32[8, 8]
        mm_out(q, m, p)
        r = aten_clone_default(p)
        del p
        """,
        outputs="%r, %q",
        origins="""
        origins {
          place 0: "model.py" 7
          place 1: "model.py" 8
          place 2: "model.py" 9
          mm: at 0
          neg: at 1
          view: at 2
        }
        """,
    ),
    "pool, of dtypes and views": Case(
        """
        %p = allocate_pool pool[1024] {align = 128}
        %a = place f32[8, 2; offset 8] in %p at 0
        %b = place i32[3] in %p at 128
        %c = place i64[3] in %p at 192
        %d = place f64[] in %p at 256 workspace(zero_on_call)
        %e = place f32[2, 8] in %p at 512 workspace(zero_on_call)
        extern_kernel aten.fill_.Scalar(%a, 1.5) writes(%a)
        extern_kernel aten.fill_.Scalar(%b, 2) writes(%b)
        extern_kernel aten.fill_.Scalar(%c, 3) writes(%c)
        %v = reinterpret %a as f32[2; stride 2; offset 9]
        %w2 = reinterpret %a as f32[2; stride 2; offset 9]
        free %a
        %r = extern_kernel aten.clone.default(%v) : f32[2]
        free %v
        %q = extern_kernel aten.clone.default(%w2) : f32[2]
        free %w2
        free %p
        """,
        """
        p = empty_aligned((256,), (1,), float32, 256, device, 128)
        p_at_32_f32 = reinterpret_tensor(p, (8, 2), (2, 1), 8)
        # a is p_at_32_f32: f32[8, 2; offset 8]
        p_i32 = p.view(int32)
        p_at_128_i32 = reinterpret_tensor(p_i32, (3,), (1,), 32)
        # b is p_at_128_i32: i32[3]
        p_i64 = view_bytes(p, (128,), (1,), int64, 0)
        p_at_192_i64 = reinterpret_tensor(p_i64, (3,), (1,), 24)
        # c is p_at_192_i64: i64[3]
        p_f64 = view_bytes(p, (128,), (1,), float64, 0)
        p_at_256_f64 = reinterpret_tensor(p_f64, (), (), 32)
        # d is p_at_256_f64: f64[]
        p_at_256_f64.zero_()
        p_at_512_f32 = reinterpret_tensor(p, (2, 8), (8, 1), 128)
        # e is p_at_512_f32: f32[2, 8]
        p_at_512_f32.zero_()
        aten_fill__Scalar(p_at_32_f32, 1.5)
        aten_fill__Scalar(p_at_128_i32, 2)
        aten_fill__Scalar(p_at_192_i64, 3)
        p_at_36_f32 = reinterpret_tensor(p, (2,), (2,), 9)
        # v is p_at_36_f32: f32[2; stride 2; offset 9]
        # w2 is p_at_36_f32: f32[2; stride 2; offset 9]
        r = aten_clone_default(p_at_36_f32)
        q = aten_clone_default(p_at_36_f32)
        """,
        outputs="%r, %q, %b, %c, %d, %e",
    ),
    "pool, of a symbolic size": Case(
        """
        %p = allocate_pool pool[s0 * 64 + 64]
        %a = place f32[s0, 8] in %p at 0
        %b = place f32[s0, 8] in %p at s0 * 32
        extern_kernel aten.mm.out(%x, %w, out = %a) writes(%a)
        extern_kernel aten.mm.out(%a, %w, out = %b) writes(%b)
        free %a
        %c = place f32[2] in %p at max(s0 * 64, 128)
        free %p
        extern_kernel aten.fill_.Scalar(%c, 3) writes(%c)
        """,
        """
        p = empty_strided_cpu((s0 * 16 + 16,), (1,), float32)
        p_at_0_f32 = reinterpret_tensor(p, (s0, 8), (8, 1), 0)
        # a is p_at_0_f32: f32[s0, 8]
        p_view_f32 = reinterpret_tensor(p, (s0, 8), (8, 1), s0 * 8)
        # b is p_view_f32: f32[s0, 8]
        mm_out(x, w, p_at_0_f32)
        mm_out(p_at_0_f32, w, p_view_f32)
        p_view_f32_2 = reinterpret_tensor(p, (2,), (1,), max(s0 * 64, 128) // 4)
        # c is p_view_f32_2: f32[2]
        aten_fill__Scalar(p_view_f32_2, 3)
        """,
        outputs="%b, %c",
    ),
    "pool, in a pool and for blocks": Case(
        """
        %p = allocate_pool pool[1024]
        %a = place f32[8, 8] in %p at 0
        extern_kernel aten.mm.out(%m, %m, out = %a) writes(%a)
        %i = place pool[512] in %p at 512
        %r = conditional %flag (%i, %a) : f32[8, 8] {
          true (%j: pool[512], %b: f32[8, 8]) {
            %c = place f32[8, 8] in %j at 256
            extern_kernel aten.mm.out(%b, %w, out = %c) writes(%c)
            %d = extern_kernel aten.neg.default(%c) : f32[8, 8]
            free %c
            return %d
          }
          false (%k: pool[512], %e: f32[8, 8]) {
            %own = allocate_pool pool[512]
            %f = place f32[8, 8] in %own at 256
            free %own
            extern_kernel aten.mm.out(%e, %w, out = %f) writes(%f)
            return %f
          }
        }
        free %a
        %g = place f32[4] in %i at 0
        extern_kernel aten.fill_.Scalar(%g, 3) writes(%g)
        free %i
        free %p
        """,
        """
        p = empty_strided_cpu((256,), (1,), float32)
        p_at_0_f32 = reinterpret_tensor(p, (8, 8), (8, 1), 0)
        # a is p_at_0_f32: f32[8, 8]
        mm_out(m, m, p_at_0_f32)
        if flag:
            p_at_768_f32 = reinterpret_tensor(p, (8, 8), (8, 1), 192)
            # c is p_at_768_f32: f32[8, 8]
            mm_out(p_at_0_f32, w, p_at_768_f32)
            d = aten_neg_default(p_at_768_f32)
            r = d
            del d
            del p_at_768_f32
        else:
            own = empty_strided_cpu((128,), (1,), float32)
            own_at_256_f32 = reinterpret_tensor(own, (8, 8), (8, 1), 64)
            # f is own_at_256_f32: f32[8, 8]
            mm_out(p_at_0_f32, w, own_at_256_f32)
            r = own_at_256_f32
            del own, own_at_256_f32
        p_at_512_f32 = reinterpret_tensor(p, (4,), (1,), 128)
        # g is p_at_512_f32: f32[4]
        aten_fill__Scalar(p_at_512_f32, 3)
        """,
        outputs="%r, %g",
    ),
    "pool, in a loop": Case(
        """
        %p = allocate_pool pool[4096]
        %a = place i64[] in %p at 0
        extern_kernel aten.fill_.Scalar(%a, 0) writes(%a)
        %r = while_loop (%a) (%p) : i64[] {
          condition (%c: i64[], %cp: pool[4096]) {
            %o = allocate_pool pool[64]
            %t = place bool[] in %o at 0
            free %o
            extern_kernel aten.lt.Scalar_out(%c, 3, out = %t) writes(%t)
            return %t
          }
          body (%b: i64[], %bp: pool[4096]) {
            %q = place i64[] in %bp at 64
            extern_kernel aten.fill_.Scalar(%q, 1) writes(%q)
            %z = extern_kernel aten.add.Tensor(%b, %q) : i64[]
            free %q
            return %z
          }
        }
        free %a
        free %p
        """,
        """
        p = empty_strided_cpu((512,), (1,), int64)
        p_at_0_i64 = reinterpret_tensor(p, (), (), 0)
        # a is p_at_0_i64: i64[]
        aten_fill__Scalar(p_at_0_i64, 0)
        r = p_at_0_i64
        first = True
        while True:
            o = empty_strided_cpu((64,), (1,), bool_)
            o_at_0_bool = reinterpret_tensor(o, (), (), 0)
            # t is o_at_0_bool: bool[]
            aten_lt_Scalar_out(r, 3, out=o_at_0_bool)
            go_on = bool(o_at_0_bool)
            del o, o_at_0_bool
            if not go_on: break
            p_at_64_i64 = reinterpret_tensor(p, (), (), 8)
            # q is p_at_64_i64: i64[]
            aten_fill__Scalar(p_at_64_i64, 1)
            z = aten_add_Tensor(r, p_at_64_i64)
            r = z
            del z
            del p_at_64_i64
            first = False
        if first:
            r = empty_strided_cpu((), (), int64).copy_(r)
        del p, p_at_0_i64
        """,
    ),
    "events that are freed": Case(
        R
        + """
%e = record_event @cpu stream(1)
wait_event %e @cpu stream(2)
free %e
free %n
free %r""",
        CLONE + "del n\ndel r",
        outputs="",
    ),
    "events on the CPU": Case(
        R
        + """\
%e = record_event @cpu stream(1)
wait_event %e @cpu stream(2)
""",
        CLONE,
    ),
    "reuse, same layout": Case(
        "%a = extern_kernel aten.clone.default(%m) : f32[8, 8]\n%r = reuse %a as f32[8, 8]",
        "a = aten_clone_default(m)\n# r is a",
    ),
    "reuse, other layout": Case(
        "%a = extern_kernel aten.clone.default(%m) : f32[8, 8]\n%r = reuse %a as f32[9]",
        "a = aten_clone_default(m)\n"
        "r = reinterpret_tensor(a, (9,), (1,), 0); del a  # reuse",
    ),
    "reuse, other dtype": Case(
        "%a = extern_kernel aten.clone.default(%m) : f32[8, 8]\n%r = reuse %a as f64[4, 8]",
        "a = aten_clone_default(m)\n"
        "r = view_bytes(a, (4, 8), (8, 1), float64, 0); del a  # reuse",
    ),
    "reinterpret": Case(
        "%v = reinterpret %m as f32[4, 2; stride 2, 1; offset 8]\n"
        "%w2 = reinterpret %v as f32[2; offset 4]\n"
        "%r = extern_kernel aten.add.Tensor(%v, %w2) : f32[4, 2]\n"
        "free %v\nfree %w2",
        """
        v = reinterpret_tensor(m, (4, 2), (2, 1), 8)
        w2 = reinterpret_tensor(v, (2,), (1,), -4)
        r = aten_add_Tensor(v, w2)
        del v
        del w2
        """,
    ),
    "reinterpret, other dtype": Case(
        "%v = reinterpret %m as i32[8, 8]\n"
        "%u = reinterpret %v as u8[8; offset 12]\n"
        "%r = extern_kernel aten.clone.default(%u) : u8[8]\nfree %v\nfree %u",
        """
        v = m.view(int32)
        u = view_bytes(v, (8,), (1,), uint8, 12)
        r = aten_clone_default(u)
        del v
        del u
        """,
    ),
    "kernel_call, C++": Case(
        R + "kernel_call @add_one(%r, s0 * 8)\nkernel_call @scale(%r, 16, 2, 1)",
        CLONE + "add_one(r, s0 * 8)\nscale(r, 16, 2.0, bool(1))",
    ),
    "kernel_call, Triton": Case(
        R + "kernel_call @double(%r, s0 * 8)", CLONE + "double(r, s0 * 8)"
    ),
    "kernel_call of a multi_kernel": Case(
        R + "kernel_call @either(s0, %r)", CLONE + "add_one(r, s0)"
    ),
    "kernel_call of a multi_kernel that goes by sizes": Case(
        """
        %r = extern_kernel aten.clone.default(%x) : f32[s0, 8]
        %k = extern_kernel aten.clone.default(%m) : f32[8, 8]
        kernel_call @near(s0 * 8, %r)
        kernel_call @near(4, %r)
        kernel_call @near(64, %k)
        kernel_call @computed(s0 + 3, %r)
        kernel_call @computed(16, %k)
        kernel_call @computed(17, %k)
        free %k
        """,
        """
        r = aten_clone_default(x)
        k = aten_clone_default(m)
        near_by_shape[s0, 8](s0 * 8, r)
        near_by_shape[s0, 8](4, r)
        add_one(k, 64)
        computed_by_shape[s0,](s0 + 3, r)
        add_one(k, 16)
        add_back(17, k)
        del k
        """,
    ),
    "kernel_call of a multi_kernel that is timed": Case(
        R + "kernel_call @timed(s0, %r)\nkernel_call @timed(3, %r)",
        CLONE + "timed(s0, r)\ntimed(3, r)",
    ),
    "extern_kernel, out": Case(
        "%r = allocate f32[s0, 8]\nextern_kernel aten.mm.out(%x, %w, out = %r) writes(%r)",
        "r = empty_strided_cpu((s0, 8), (8, 1), float32)\nmm_out(x, w, r)",
    ),
    "extern_kernel, out of one's own or not": Case(
        """
        %r = allocate f32[s0, 8]
        extern_kernel aten.addmm.out(%x, %x, %w, beta = 0.5, out = %r) writes(%r)
        extern_kernel aten.mm.out(%r, %m, out = %x) writes(%x)
        %v = reinterpret %r as f32[1, 8]
        extern_kernel aten.mm.out(%v, %w, out = %v) writes(%v)
        free %v
        """,
        """
        r = empty_strided_cpu((s0, 8), (8, 1), float32)
        addmm_out(x, x, w, 0.5, 1, r)
        aten_mm_out(r, m, out=x)
        v = reinterpret_tensor(r, (1, 8), (8, 1), 0)
        mm_out(v, w, v)
        del v
        """,
    ),
    "extern_kernel, out of batches": Case(
        """
        %b = reinterpret %m as f32[2, 4, 4; stride 16, 4, 1]
        %r = allocate f32[2, 4, 4]
        %q = allocate f32[2, 4, 4]
        extern_kernel aten.bmm.out(%b, %b, out = %r) writes(%r)
        extern_kernel aten.baddbmm.out(%r, %b, %r, alpha = 3, beta = 2, out = %q) writes(%q)
        free %b
        """,
        """
        b = reinterpret_tensor(m, (2, 4, 4), (16, 4, 1), 0)
        r = empty_strided_cpu((2, 4, 4), (16, 4, 1), float32)
        q = empty_strided_cpu((2, 4, 4), (16, 4, 1), float32)
        bmm_out(b, b, r)
        baddbmm_out(r, b, r, 2, 3, q)
        del b
        """,
        outputs="%r, %q",
        origins="""
        origins {
          place 0: "model.py" 7
          place 1: "model.py" 8
          place 2: "model.py" 9
          mm: at 0
          neg: at 1
          view: at 2
        }
        """,
    ),
    "extern_kernel, arguments": Case(
        """
        %r = extern_kernel aten.addmm.default(%m, %m, %w, beta = 2, alpha = 0.5) : f32[8, 8]
        %c = extern_kernel aten.cat.default([%x, %m], 0) : f32[s0 + 8, 8]
        %e = extern_kernel aten.full.default([s0, 2], 1.0, dtype = dtype(f64), \
device = device(cpu), pin_memory = false) : f64[s0, 2]
        %d = extern_kernel aten.div.Tensor_mode(%m, %w, rounding_mode = "floor") : f32[8, 8]
        %f = extern_kernel aten.clone.default(%m, memory_format = \
memory_format(contiguous_format)) : f32[8, 8]
        %g = extern_kernel aten.add.Scalar(%m, complex(1.0, -inf)) : c64[8, 8]
        %h = extern_kernel aten.t.default(%m) aliases(%m) : f32[8, 8; stride 1, 8]
        """,
        """
        r = aten_addmm_default(m, m, w, beta=2, alpha=0.5)
        c = aten_cat_default([x, m], 0)
        e = aten_full_default([s0, 2], 1.0, dtype=float64, device=device, pin_memory=False)
        d = aten_div_Tensor_mode(m, w, rounding_mode='floor')
        f = aten_clone_default(m, memory_format=contiguous_format)
        g = aten_add_Scalar(m, complex(1.0, float("-inf")))
        h = aten_t_default(m)
        """,
        outputs="%r, %c, %e, %d, %f, %g, %h",
    ),
    "extern_kernel, a reserved word": Case(
        R + "extern_kernel aten.random_.from(%r, 3, 4) writes(%r)",
        CLONE + "aten_random__from(r, 3, 4)",
    ),
    "multi_output": Case(
        "%t = extern_kernel aten.split.Tensor(%m, 4) aliases(%m) : "
        "(f32[4, 8], f32[4, 8; offset 32])\n"
        "%h = multi_output %t[1] : f32[4, 8; offset 32]\n"
        "free %t\n"
        "%r = extern_kernel aten.clone.default(%h) : f32[4, 8]\n"
        "%v = reinterpret %h as f32[8; offset 56]\nfree %h\n"
        "%r2 = extern_kernel aten.clone.default(%v) : f32[8]\nfree %v",
        """
        t = aten_split_Tensor(m, 4)
        h = t[1]
        del t
        r = aten_clone_default(h)
        v = reinterpret_tensor(h, (8,), (1,), 24)
        del h
        r2 = aten_clone_default(v)
        del v
        """,
        outputs="%r, %r2",
    ),
    "symbol_definition, layout": Case(
        R
        + """\
symbol_definition a: int = stride(%r, 0)
symbol_definition b: int 0.. = offset(%r)
symbol_definition c: float = size(%r, 1)
""",
        CLONE
        + """\
a = r.stride(0)
b = 0
if not (b >= 0): raise RuntimeError(f"Expected b >= 0 but received {b}")
c = float(r.size(1))
""",
        outputs="%r, a, b, c",
    ),
    "symbol_definition, values": Case(
        """
        %i = extern_kernel aten.sum.dim_IntList(%flag, []) : i64[]
        %f = extern_kernel aten.mean.default(%m) : f32[]
        symbol_definition a: int 0..5 = value(%n)
        symbol_definition b: int = item(%i)
        symbol_definition c: int = item(%flag)
        symbol_definition d: float = item(%f)
        symbol_definition e: bool = item(%flag)
        symbol_definition g: int = item(%f)
        symbol_definition h: int ..100 = ceildiv(a, 2) * min(s0, b + 1, 3)
        symbol_definition i: float = h / 2
        symbol_definition j: int = 2 * (h / 2)
        symbol_definition k: bool = a > 3
        free %i
        free %f
        """,
        """
        i = aten_sum_dim_IntList(flag, ())
        f = aten_mean_default(m)
        a = n
        if not (a >= 0 and a <= 5): raise RuntimeError(f"Expected a >= 0 and a <= 5 but received {a}")
        b = i.item()
        c = int(flag.item())
        d = f.item()
        e = flag.item()
        g = whole(f.item())
        h = ceildiv(a, 2) * min(s0, b + 1, 3)
        if not (h <= 100): raise RuntimeError(f"Expected h <= 100 but received {h}")
        i_ = float(h / 2)
        j = whole(2 * (h / 2))
        k = a > 3
        del i
        del f
        """,  # noqa: E501
        outputs="a, b, c, d, e, g, h, i, j, k",
    ),
    "assert_size_stride": Case(
        R + 'assert_size_stride %r (s0, 8) (8, 1) "it\'s a\\n\\"clone\\""',
        CLONE + "assert_layout(r, (s0, 8), (8, 1), 'it\\'s a\\n\"clone\": %r')",
    ),
    "assert_alignment": Case(
        R + 'assert_alignment %r 16 "clone"',
        CLONE + "if r.data_ptr() % 16: "
        "raise AssertionError('clone: %r is not aligned to 16 bytes')",
    ),
    "assert_scalar": Case(
        R + 'assert_scalar s0 >= 2 and s0 < 200 "s0 is a size"',
        CLONE + "if not (s0 >= 2 and s0 < 200): raise RuntimeError('s0 is a size')",
    ),
    "assert_not_nan": Case(
        R + "assert_not_nan %r",
        CLONE + "if not torch.isfinite(r).all(): "
        "raise AssertionError('%r holds NaN or infinity')",
    ),
    "comment": Case(R + 'comment "a\\nremark */"', CLONE + "# a\\nremark * /"),
    "provenance": Case(
        """
        %a = extern_kernel aten.relu.default(%m) : f32[8, 8] from(relu, add)
        %r = extern_kernel aten.neg.default(%a) : f32[8, 8] from(relu, add) by(some_pass)
        free %a by(insert_frees)
        comment "x" from(view)
        comment "y" from(fused 0)
        """,
        """
        # relu, add; aten.relu.default; model.py:12
        a = aten_relu_default(m)
        r = aten_neg_default(a)
        del a
        # view; a\\nb.py:3
        # x
        # a, b, c, d, e, f, g, view and 2 more; aten.relu.default; a\\nb.py:3
        # y
        """,
        origins="""
        origins {
          place 0: "main.py" 3
          place 1: "model.py" 12 "forward" from 0
          place 2: "a\\nb.py" 3
          fused 0: a, b, c, d, e, f, g, view, add, relu
          view: at 2
          a:
          b:
          c:
          d:
          e:
          f:
          g:
          add: in "layers.0"
          relu: aten.relu.default at 1
        }
        """,
    ),
    "provenance of memory": Case(
        """
        %a = allocate f32[8, 8] from(mm) by(plan)
        %v = reinterpret %m as f32[8, 8; stride 1, 8] from(mm)
        extern_kernel aten.mm.out(%m, %v, out = %a) writes(%a) from(mm)
        free %v from(neg)
        %r = extern_kernel aten.neg.default(%a) : f32[8, 8] from(neg)
        free %a
        %q = reinterpret %r as f32[64] from(view)
        """,
        """
        a = empty_strided_cpu((8, 8), (8, 1), float32)
        v = reinterpret_tensor(m, (8, 8), (1, 8), 0)
        # mm; model.py:7
        mm_out(m, v, a)
        del v
        # neg; model.py:8
        r = aten_neg_default(a)
        del a
        # view; model.py:9
        q = reinterpret_tensor(r, (64,), (1,), 0)
        """,
        outputs="%r, %q",
        origins="""
        origins {
          place 0: "model.py" 7
          place 1: "model.py" 8
          place 2: "model.py" 9
          mm: at 0
          neg: at 1
          view: at 2
        }
        """,
    ),
    "pool, of several types at one place": Case(
        """
        %p = allocate_pool pool[256]
        %a = place f32[8, 8] in %p at 0
        extern_kernel aten.fill_.Scalar(%a, 1) writes(%a)
        free %a
        %b = place f32[64] in %p at 0
        extern_kernel aten.fill_.Scalar(%b, 2) writes(%b)
        free %b
        %c = place i32[64] in %p at 0
        extern_kernel aten.fill_.Scalar(%c, 3) writes(%c)
        free %c
        %d = place f32[16] in %p at 0
        free %p
        extern_kernel aten.fill_.Scalar(%d, 4) writes(%d)
        """,
        """
        p = empty_strided_cpu((64,), (1,), float32)
        p_at_0_f32 = reinterpret_tensor(p, (8, 8), (8, 1), 0)
        # a is p_at_0_f32: f32[8, 8]
        aten_fill__Scalar(p_at_0_f32, 1)
        # b is p: f32[64]
        aten_fill__Scalar(p, 2)
        p_i32 = p.view(int32)
        # c is p_i32: i32[64]
        aten_fill__Scalar(p_i32, 3)
        p_at_0_f32_2 = reinterpret_tensor(p, (16,), (1,), 0)
        # d is p_at_0_f32_2: f32[16]
        aten_fill__Scalar(p_at_0_f32_2, 4)
        """,
        outputs="%d",
    ),
    "conditional": Case(
        """
        %r, %q = conditional %flag (%m, %x) : f32[8, 8], f32[8, 8] {
          true (%p: f32[8, 8], %y: f32[s0, 8]) {
            %a = extern_kernel aten.neg.default(%p) : f32[8, 8]
            %b = extern_kernel aten.add.Tensor(%p, %w) : f32[8, 8]
            return %a, %b
          }
          false (%p2: f32[8, 8], %y2: f32[s0, 8]) {
            %c = extern_kernel aten.relu.default(%p2) : f32[8, 8]
            %d = extern_kernel aten.mul.Scalar(%p2, s0) : f32[8, 8]
            return %d, %c
          }
        }
        """,
        """
        if flag:
            a = aten_neg_default(m)
            b = aten_add_Tensor(m, w)
            r, q = a, b
            del a, b
        else:
            c = aten_relu_default(m)
            d = aten_mul_Scalar(m, s0)
            r, q = d, c
            del d, c
        """,
        outputs="%r, %q",
        origins="""
        origins {
          place 0: "model.py" 7
          place 1: "model.py" 8
          place 2: "model.py" 9
          mm: at 0
          neg: at 1
          view: at 2
        }
        """,
    ),
    "conditional on a condition, for effect": Case(
        """
        conditional s0 > 3 (%x) {
          true (%p: f32[s0, 8]) {
            extern_kernel aten.neg_.default(%p) writes(%p)
            return
          }
          false (%p2: f32[s0, 8]) {
            return
          }
        }
        """,
        """
        if s0 > 3:
            aten_neg__default(x)
            pass
        else:
            pass
        """,
        outputs="none",
    ),
    "while_loop": Case(
        """
        %i = extern_kernel aten.full.default([], 0) : i64[]
        %j, %r = while_loop (%i, %x) (%m) : i64[], f32[s0, 8] {
          condition (%p: i64[], %q: f32[s0, 8], %v: f32[8, 8]) {
            %c = extern_kernel aten.lt.Scalar(%p, 3) : bool[]
            return %c
          }
          body (%p1: i64[], %q1: f32[s0, 8], %v1: f32[8, 8]) {
            %n1 = extern_kernel aten.add.Scalar(%p1, 1) : i64[]
            %n2 = extern_kernel aten.mm.default(%q1, %v1) : f32[s0, 8]
            return %n1, %n2
          }
        }
        free %i
        """,
        """
        i = aten_full_default((), 0)
        j = i
        r = x
        first = True
        while True:
            c = aten_lt_Scalar(j, 3)
            go_on = bool(c)
            del c
            if not go_on: break
            n1 = aten_add_Scalar(j, 1)
            n2 = aten_mm_default(r, m)
            j, r = n1, n2
            del n1, n2
            first = False
        if first:
            j = empty_strided_cpu((), (), int64).copy_(j)
            r = empty_strided_cpu((s0, 8), (8, 1), float32).copy_(r)
        del i
        """,
        outputs="%j, %r",
    ),
    "while_loop on a condition": Case(
        """
        %r = while_loop (%m) () : f32[8, 8] {
          condition (%p: f32[8, 8]) {
            return s0 > 50
          }
          body (%q: f32[8, 8]) {
            %a = extern_kernel aten.neg.default(%q) : f32[8, 8]
            return %a
          }
        }
        """,
        """
        r = m
        first = True
        while True:
            if not (s0 > 50): break
            a = aten_neg_default(r)
            r = a
            del a
            first = False
        if first:
            r = empty_strided_cpu((8, 8), (8, 1), float32).copy_(r)
        """,
    ),
    "while_loop, stacked": Case(
        """
        %i = extern_kernel aten.full.default([], 0) : i64[]
        %j, %r, %js, %rs = while_loop stacked (%i, %m) () : \
i64[], f32[8, 8], i64[u0], f32[u0, 8, 8] {
          condition (%p: i64[], %v: f32[8, 8]) {
            %c = extern_kernel aten.lt.Scalar(%p, 3) : bool[]
            return %c
          }
          body (%p1: i64[], %v1: f32[8, 8]) {
            %n1 = extern_kernel aten.add.Scalar(%p1, 1) : i64[]
            %n2 = extern_kernel aten.neg.default(%v1) : f32[8, 8]
            return %n1, %n2
          }
        }
        symbol_definition u0: int 1.. = size(%js, 0)
        free %i
        """,
        """
        i = aten_full_default((), 0)
        j = i
        r = m
        js_values = []
        rs_values = []
        first = True
        while True:
            c = aten_lt_Scalar(j, 3)
            go_on = bool(c)
            del c
            if not go_on: break
            n1 = aten_add_Scalar(j, 1)
            n2 = aten_neg_default(r)
            j, r = n1, n2
            del n1, n2
            js_values.append(j)
            rs_values.append(r)
            first = False
        if first:
            j = empty_strided_cpu((), (), int64).copy_(j)
            r = empty_strided_cpu((8, 8), (8, 1), float32).copy_(r)
        js = torch.stack(js_values or [j]).contiguous(); del js_values
        rs = torch.stack(rs_values or [r]).contiguous(); del rs_values
        u0 = js.size(0)
        if not (u0 >= 1): raise RuntimeError(f"Expected u0 >= 1 but received {u0}")
        del i
        """,
        outputs="%j, %r, %js, %rs, u0",
    ),
    "subgraph_call": Case(
        """
        %r = subgraph_call @block (%m) : f32[8, 8] {
          body (%p: f32[8, 8]) {
            %a = extern_kernel aten.neg.default(%p) : f32[8, 8]
            return %a
          }
        }
        """,
        """
        # subgraph block
        a = aten_neg_default(m)
        r = a
        del a
        """,
    ),
    "graph_region": Case(
        """
        %r = graph_region @region (%m) : f32[8, 8] {
          body (%p: f32[8, 8]) {
            %a = extern_kernel aten.neg.default(%p) : f32[8, 8]
            return %a
          }
        }
        """,
        """
        # graph region region is not recorded: cpu has no graphs
        a = aten_neg_default(m)
        r = a
        del a
        """,
    ),
}
