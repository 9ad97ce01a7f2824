"""One case a line kind and variant: the body in text, and the C++ it becomes."""

import textwrap

from attrs import frozen

HEADER = """\
wrapperir 1

kernel_definition @fill cpp(p: write f32*, n: i64) {
  entry = kernel
  source {
    | #include <cstdint>
    | extern "C" void kernel(float* p, int64_t n) {
    |   for (int64_t i = 0; i < n; ++i) p[i] = i + 1;
    | }
  }
}

kernel_definition @add_one cpp(p: read_write f32*, n: i64) {
  entry = kernel
  source {
    | #include <cstdint>
    | extern "C" void kernel(float* p, int64_t n) {
    |   for (int64_t i = 0; i < n; ++i) p[i] += 1;
    | }
  }
}

kernel_definition @copy cpp(a: read f32*, b: write f32*, n: i64) {
  entry = kernel
  source {
    | #include <cstdint>
    | extern "C" void kernel(const float* a, float* b, int64_t n) {
    |   for (int64_t i = 0; i < n; ++i) b[i] = a[i] + 1;
    | }
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

kernel_definition @copy_none cpp(p: read_write f32*, n: i64) {
  entry = kernel
  source {
    | this is never called, so it is never compiled
  }
}

multi_kernel @either(n: i64, p: read_write f32*) {
  choice @copy_none(1, 0)
  choice @add_one(1, 0)
  select forced(1)
}

kernel_definition @add_one_back cpp(p: read_write f32*, n: i64) {
  entry = kernel
  source {
    | #include <cstdint>
    | extern "C" void kernel(float* p, int64_t n) {
    |   while (n-- > 0) p[n] += 1;
    | }
  }
}

multi_kernel @nearest(p: read_write f32*, n: i64) {
  size rows = size(p, 0)
  size columns = size(p, 1)
  choice @add_one(0, 1)
  choice @add_one_back(0, 1)
  select nearest_shape(0: (64, 8), 1: (4, 8), 0: (0, 16))
}

multi_kernel @computed(p: read_write f32*, n: i64) {
  size rows = size(p, 0)
  choice @add_one(0, 1)
  choice @add_one_back(0, 1)
  select computed(where(rows < 4, 1, 0)) on "a CPU"
}

multi_kernel @timed(p: read_write f32*, n: i64) {
  choice @add_one(0, 1)
  choice @add_one_back(0, 1)
  select benchmark
}

program @main(%x: mutated f32[s0, 8], %m: f32[8, 8], %n: i64, %flag: bool[]) {
  symbol s0: int 2..100 = size(%x, 0)
  constant %w: f32[8, 8] = "fc.weight"
"""


@frozen
class Case:
    """Lines of a program, its outputs, and the lines of C++ that they become."""

    lines: str
    cpp: str
    outputs: str = ""

    @property
    def text(self) -> str:
        """The whole program: ``%x`` is s0×8, ``%m`` 8×8, ``%n`` and ``%flag`` numbers."""
        lines = textwrap.indent(textwrap.dedent(self.lines).strip("\n"), "  ")
        return f"{HEADER}{lines}\n  return {self.outputs}".rstrip() + "\n}\n"

    @property
    def expected(self) -> str:
        """The C++, at the left margin."""
        return textwrap.dedent(self.cpp).strip("\n")


CASES = {
    "allocate, in the arena": Case(
        """
        %a = allocate f32[4, 8]
        kernel_call @fill(%a, 32)
        free %a
        """,
        """
        // a is at byte 0 of the arena: f32[4, 8]
        cpp_fill(c.arena, 32);
        """,
    ),
    "allocate, an output": Case(
        """
        %r = allocate f32[4, 8]
        kernel_call @fill(%r, 32)
        """,
        """
        empty(c.t[r], DType::f32, ints_4_8, ints_8_1, 0);
        c.p[r] = data_of(c.t[r].get(), 1);
        cpp_fill(c.p[r], 32);
        c.outputs[0] = output(c.t[r].release());
        """,
        "%r",
    ),
    "allocate, symbolic": Case(
        """
        %a = allocate i64[s0 * 2, 3; stride 1, s0 * 2]
        free %a
        """,
        """
        empty(c.t[a], DType::i64, {num::mul(c.s0, 2), 3}, {1, num::mul(c.s0, 2)}, 0);
        c.t[a].reset();
        """,
    ),
    "allocate, with an offset": Case(
        """
        %r = allocate f32[4; offset 4]
        kernel_call @fill(%r, 4)
        """,
        """
        empty(c.t[r], DType::u8, ints_32, ints_1, 0);
        c.p[r] = data_of(c.t[r].get(), 1);
        cpp_fill(c.p[r] + 16, 4);
        view_as(c.t[r_view], c.t[r].get(), 16, DType::f32, ints_4, ints_1, -1);
        c.outputs[0] = output(c.t[r_view].release());
        """,
        "%r",
    ),
    "allocate, aligned in the arena": Case(
        """
        %a = allocate f32[8] {align = 256}
        kernel_call @fill(%a, 8)
        free %a
        """,
        """
        // a is at byte 0 of the arena: f32[8] {align = 256}
        cpp_fill(c.arena, 8);
        """,
    ),
    "allocate, aligned": Case(
        """
        %r = allocate f32[s0] {align = 256}
        kernel_call @fill(%r, s0)
        """,
        """
        empty_aligned(c.t[r], num::greatest(num::mul(num::add(1, num::sub(c.s0, 1)), 4), \
int64_t(0)), 256, 0);
        c.p[r] = data_of(c.t[r].get(), 1);
        cpp_fill(c.p[r], c.s0);
        view_as(c.t[r_view], c.t[r].get(), 0, DType::f32, {c.s0}, ints_1, -1);
        c.outputs[0] = output(c.t[r_view].release());
        """,
        "%r",
    ),
    "allocate, pinned": Case(
        """
        %a = allocate f32[8] {pinned}
        free %a
        """,
        """
        empty_pinned(c.t[a], DType::f32, ints_8, ints_1, 0);
        c.t[a].reset();
        """,
    ),
    "workspace, zero on call": Case(
        """
        %a = allocate f32[8] workspace(zero_on_call)
        kernel_call @add_one(%a, 8)
        free %a
        %r = allocate f32[s0] workspace(zero_on_call)
        """,
        """
        // a is at byte 0 of the arena: f32[8]
        memset(c.arena, 0, 32);
        cpp_add_one(c.arena, 8);
        empty(c.t[r], DType::f32, {c.s0}, ints_1, 3);
        check(aoti_torch_zero_(c.t[r].get()), 3);
        c.outputs[0] = output(c.t[r].release());
        """,
        "%r",
    ),
    "workspace, uninitialized": Case(
        """
        %a = allocate u8[64] workspace(uninitialized)
        free %a
        """,
        """
        // a is at byte 0 of the arena: u8[64]
        """,
    ),
    "workspace, zero per program": Case(
        """
        %a = allocate f32[8] workspace(zero_per_program)
        %b = allocate f32[s0] workspace(zero_per_program)
        kernel_call @copy(%a, %b, 2)
        kernel_call @scale(%b, 2, 0, 0)
        """,
        """
        // a is at byte 0 of the arena: f32[8]
        empty(c.t[b], DType::f32, {c.s0}, ints_1, 1);
        check(aoti_torch_zero_(c.t[b].get()), 1);
        c.p[b] = data_of(c.t[b].get(), 2);
        cpp_copy(c.arena, c.p[b], 2);
        cpp_scale(c.p[b], 2, 0x0.0p+0, false);
        """,
    ),
    "free, of an input": Case(
        """
        kernel_call @add_one(%x, 8)
        free %x
        free %n
        """,
        """
        c.p[x] = data_of(c.t[x].get(), 0);
        cpp_add_one(c.p[x], 8);
        c.t[x].reset();
        """,
    ),
    "free, of the last name": Case(
        """
        %a = allocate f32[s0]
        %v = reinterpret %a as f32[1; offset 1]
        free %a
        kernel_call @fill(%v, 1)
        free %v
        """,
        """
        empty(c.t[a], DType::f32, {c.s0}, ints_1, 0);
        check_inside(4, 8, num::mul(c.s0, 4), ints_1, 1);
        // v views a: f32[1; offset 1]
        c.p[a] = data_of(c.t[a].get(), 3);
        cpp_fill(c.p[a] + 4, 1);
        c.t[a].reset();
        """,
    ),
    "pool, in the arena": Case(
        """
        %p = allocate_pool pool[512]
        %a = place f32[8, 8] in %p at 256
        free %p
        kernel_call @fill(%a, 64)
        free %a
        """,
        """
        // p is at byte 0 of the arena: pool[512]
        // a lies in p: f32[8, 8]
        cpp_fill(c.arena + 256, 64);
        """,
    ),
    "pool, of a symbolic size": Case(
        """
        %p = allocate_pool pool[s0 * 64 + 64]
        %a = place f32[s0, 8] in %p at s0 * 32
        kernel_call @fill(%a, s0)
        %q = place pool[64] in %p at s0 * 64
        %r = place f32[2] in %q at 8 workspace(zero_on_call)
        free %q
        free %a
        free %p
        """,
        """
        empty(c.t[p_], DType::u8, {num::greatest(num::add(num::mul(c.s0, 64), 64), \
int64_t(0))}, ints_1, 0);
        check_inside(num::mul(c.s0, 32), num::add(num::mul(c.s0, 32), \
num::mul(num::mul(c.s0, 8), 4)), num::add(num::mul(c.s0, 64), 64), {c.s0, 8}, 1);
        // a lies in p: f32[s0, 8]
        c.p[p_] = data_of(c.t[p_].get(), 2);
        cpp_fill(c.p[p_] + num::mul(c.s0, 32), c.s0);
        check_inside(num::mul(c.s0, 64), num::add(num::mul(c.s0, 64), 64), \
num::add(num::mul(c.s0, 64), 64), nullptr, 3);
        // q lies in p: pool[64]
        // r lies in q: f32[2]
        memset(c.p[p_] + num::add(num::mul(c.s0, 64), 8), 0, 8);
        view_as(c.t[r], c.t[p_].get(), num::add(num::mul(c.s0, 64), 8), DType::f32, \
ints_2, ints_1, -1);
        c.outputs[0] = output(c.t[r].release());
        """,
        "%r",
    ),
    "reuse": Case(
        """
        %a = allocate f32[8, 8]
        kernel_call @fill(%a, 64)
        %b = reuse %a as f32[4, 8]
        kernel_call @add_one(%b, 32)
        free %b
        %c = allocate f32[s0]
        kernel_call @fill(%c, s0)
        %r = reuse %c as f32[s0 - 1]
        """,
        """
        // a is at byte 0 of the arena: f32[8, 8]
        cpp_fill(c.arena, 64);
        // b takes a: f32[4, 8]
        cpp_add_one(c.arena, 32);
        empty(c.t[c_], DType::f32, {c.s0}, ints_1, 5);
        c.p[c_] = data_of(c.t[c_].get(), 6);
        cpp_fill(c.p[c_], c.s0);
        check_inside(0, num::mul(num::sub(c.s0, 1), 4), num::mul(c.s0, 4), \
{num::sub(c.s0, 1)}, 7);
        // r takes c: f32[s0 - 1]
        view(c.t[r], c.t[c_].get(), 0, {num::sub(c.s0, 1)}, ints_1, -1);
        c.outputs[0] = output(c.t[r].release());
        """,
        "%r",
    ),
    "reinterpret": Case(
        """
        %v = reinterpret %x as f32[4, 2; stride 2, 1; offset 8]
        %u = reinterpret %v as u8[8; offset 4]
        kernel_call @add_one(%v, 2)
        free %v
        """,
        """
        check_inside(32, 64, num::mul(num::mul(c.s0, 8), 4), ints_4_2, 0);
        // v views x: f32[4, 2; offset 8]
        check_inside(4, 12, num::mul(num::mul(c.s0, 8), 4), ints_8, 1);
        // u views v: u8[8; offset 4]
        c.p[x] = data_of(c.t[x].get(), 2);
        cpp_add_one(c.p[x] + 32, 2);
        view_as(c.t[u], c.t[x].get(), 4, DType::u8, ints_8, ints_1, -1);
        c.outputs[0] = output(c.t[u].release());
        """,
        "%u",
    ),
    "reinterpret, of a constant": Case(
        """
        %v = reinterpret %w as f32[8, 8; stride 1, 8]
        %r = extern_kernel aten.sin.default(%v) : f32[8, 8; stride 1, 8]
        free %v
        """,
        """
        // v views w: f32[8, 8; stride 1, 8]
        op::call(op::Operator{"aten::sin", ""}, {op::tensor(c.fixed[v])}, \
{op::result(c.t[r])}, 1);
        c.outputs[0] = output(c.t[r].release());
        """,
        "%r",
    ),
    "kernel_call": Case(
        """
        kernel_call @scale(%x, s0 * 8, 2, 1)
        """,
        """
        c.p[x] = data_of(c.t[x].get(), 0);
        cpp_scale(c.p[x], num::mul(c.s0, 8), 0x1.0000000000000p+1, true);
        """,
    ),
    "kernel_call of a multi_kernel": Case(
        """
        kernel_call @either(s0, %x)
        """,
        """
        c.p[x] = data_of(c.t[x].get(), 0);
        cpp_add_one(c.p[x], c.s0);
        """,
    ),
    "kernel_call of multi_kernels that choose": Case(
        """
        kernel_call @nearest(%x, s0)
        kernel_call @computed(%x, s0)
        kernel_call @timed(%x, s0)
        %a = allocate f32[2, 8] workspace(zero_on_call)
        kernel_call @nearest(%a, 16)
        kernel_call @computed(%a, 16)
        kernel_call @timed(%a, 16)
        free %a
        """,
        """
        c.p[x] = data_of(c.t[x].get(), 0);
        switch (nearest(hints_nearest, {c.s0, 8}, c.recent + 0)) {
          case 0: cpp_add_one(c.p[x], c.s0); break;
          default: cpp_add_one_back(c.p[x], c.s0);  // 1
        }
        switch (choose_computed(c)) {
          case 0: cpp_add_one(c.p[x], c.s0); break;
          default: cpp_add_one_back(c.p[x], c.s0);  // 1
        }
        switch (choice_of(fastest_timed, time_timed, c)) {
          case 0: cpp_add_one(c.p[x], c.s0); break;
          default: cpp_add_one_back(c.p[x], c.s0);  // 1
        }
        // a is at byte 0 of the arena: f32[2, 8]
        memset(c.arena, 0, 64);
        cpp_add_one_back(c.arena, 16);
        cpp_add_one_back(c.arena, 16);
        switch (choice_of(fastest_timed_, time_timed_, c)) {
          case 0: cpp_add_one(c.arena, 16); break;
          default: cpp_add_one_back(c.arena, 16);  // 1
        }
        """,
    ),
    "extern_kernel": Case(
        """
        %a = extern_kernel aten.sin.default(%m) : f32[8, 8]
        free %a
        """,
        """
        op::call(op::Operator{"aten::sin", ""}, {op::tensor(c.t[m].get())}, \
{op::result(c.t[a])}, 0);
        c.t[a].reset();
        """,
    ),
    "multi_output": Case(
        """
        %t = extern_kernel aten.aminmax.default(%m) : (f32[], f32[])
        %r = multi_output %t[1] : f32[]
        free %t
        """,
        """
        op::call(op::Operator{"aten::aminmax", ""}, {op::tensor(c.t[m].get()), \
op::maybe(op::none()), op::boolean(false)}, {op::result(c.t[t_0]), \
op::result(c.t[t_1])}, 0);
        // r is t[1]
        c.t[t_0].reset();
        c.outputs[0] = output(c.t[t_1].release());
        """,
        "%r",
    ),
    "events on the CPU": Case(
        """
        %e = record_event @cpu stream(1)
        wait_event %e @cpu stream(2)
        free %e
        """,
        "",
    ),
    "symbol_definition": Case(
        """
        symbol_definition a: int 0..5 = value(%n)
        symbol_definition b: float = a / 2
        symbol_definition c: bool = item(%flag)
        """,
        """
        c.a = c.n;
        num::check_range(c.a, 0, 5, "a >= 0 and a <= 5", 0);
        c.b = num::truediv(c.a, 2);
        c.p[flag] = data_of(c.t[flag].get(), 2);
        c.c_ = *at<bool>(c.p[flag]);
        c.outputs[0] = output(int64_t(c.a));
        c.outputs[1] = output(c.b);
        c.outputs[2] = output(c.c_);
        """,
        "a, b, c",
    ),
    "outputs, numbers": Case(
        "",
        """
        c.outputs[0] = output(int64_t(5));
        c.outputs[1] = output(true);
        c.outputs[2] = output(0x1.8000000000000p+0);
        c.outputs[3] = output(nullptr);
        c.outputs[4] = output(c.n);
        c.outputs[5] = output(int64_t(num::mul(c.s0, 2)));
        c.outputs[6] = output(((c.s0 > 3) ? num::of_int(1) : \
num::of_float(0x1.0000000000000p-1)));
        """,
        "5, true, 1.5, none, %n, s0 * 2, where(s0 > 3, 1, 0.5)",
    ),
    "outputs, twice": Case(
        """
        %r = allocate f32[4]
        kernel_call @fill(%r, 4)
        %v = reinterpret %r as f32[2; offset 2]
        """,
        """
        empty(c.t[r], DType::f32, ints_4, ints_1, 0);
        c.p[r] = data_of(c.t[r].get(), 1);
        cpp_fill(c.p[r], 4);
        // v views r: f32[2; offset 2]
        view(c.t[v], c.t[r].get(), 2, ints_2, ints_1, -1);
        c.outputs[0] = output(new_handle(c.t[r].get(), -1));
        c.outputs[1] = output(c.t[v].release());
        c.outputs[2] = output(c.t[r].release());
        c.outputs[3] = output(c.t[x].release());
        c.outputs[4] = output(new_handle(c.constants[w], -1));
        """,
        "%r, %v, %r, %x, %w",
    ),
    "assert_size_stride": Case(
        """
        %a = extern_kernel aten.sin.default(%m) : f32[8, 8]
        assert_size_stride %a (8, 8) (8, 1) "layout"
        assert_size_stride %x (s0, 8) (8, 1) "known"
        free %a
        """,
        """
        op::call(op::Operator{"aten::sin", ""}, {op::tensor(c.t[m].get())}, \
{op::result(c.t[a])}, 0);
        num::assert_size_stride(c.t[a].get(), ints_8_8, ints_8_1, "layout: %a", 1);
        c.t[a].reset();
        """,
    ),
    "assert_alignment": Case(
        """
        assert_alignment %x 4
        %a = allocate f32[8]
        assert_alignment %a 64
        free %a
        """,
        """
        c.p[x] = data_of(c.t[x].get(), 0);
        num::assert_alignment(c.p[x], 4, "%x is not aligned to 4 bytes", 0);
        // a is at byte 0 of the arena: f32[8]
        """,
    ),
    "assert_scalar": Case(
        """
        assert_scalar s0 < 50 "small"
        """,
        """
        if (!(c.s0 < 50)) fail(0, "%s", "small");
        """,
    ),
    "assert_not_nan": Case(
        """
        assert_not_nan %x
        """,
        """
        c.p[x] = data_of(c.t[x].get(), 0);
        num::assert_finite(c.p[x], DType::f32, {c.s0, 8}, ints_8_1, "%x holds NaN or \
infinity", 0);
        """,
    ),
    "conditional, on a tensor": Case(
        """
        %r = conditional %flag (%x, s0) : f32[4] {
          true (%y: f32[s0, 8], %i: i64) {
            %a = allocate f32[4]
            kernel_call @fill(%a, 4)
            return %a
          }
          false (%z: f32[s0, 8], %j: i64) {
            %b = allocate f32[8]
            symbol_definition k: int = value(%j)
            kernel_call @fill(%b, k)
            %v = reuse %b as f32[4]
            return %v
          }
        }
        """,
        """
        c.p[flag] = data_of(c.t[flag].get(), 0);
        if (*at<bool>(c.p[flag])) {
          c.i = c.s0;
          empty(c.t[a], DType::f32, ints_4, ints_1, 0);
          c.p[a] = data_of(c.t[a].get(), 0);
          cpp_fill(c.p[a], 4);
          c.t[r].reset(c.t[a].release());
        } else {
          c.j = c.s0;
          empty(c.t[b], DType::f32, ints_8, ints_1, 0);
          c.k = c.j;
          c.p[b] = data_of(c.t[b].get(), 0);
          cpp_fill(c.p[b], c.k);
          // v takes b: f32[4]
          view(c.t[v], c.t[b].get(), 0, ints_4, ints_1, 0);
          c.t[r].reset(c.t[v].release());
          c.t[b].reset();
        }
        c.outputs[0] = output(c.t[r].release());
        """,
        "%r",
    ),
    "conditional, on a condition": Case(
        """
        %k = conditional s0 > 3 () : i64 {
          true () {
            return 1
          }
          false () {
            return s0
          }
        }
        """,
        """
        if (c.s0 > 3) {
          c.k = 1;
        } else {
          c.k = c.s0;
        }
        c.outputs[0] = output(c.k);
        """,
        "%k",
    ),
    "while_loop": Case(
        """
        %r, %i = while_loop (%x, 0) (%n) : f32[s0, 8], i64 {
          condition (%a: f32[s0, 8], %ca: i64, %cn: i64) {
            symbol_definition ci: int = value(%ca)
            symbol_definition most: int = value(%cn)
            return ci < most
          }
          body (%b: f32[s0, 8], %ba: i64, %bn: i64) {
            symbol_definition bi: int = value(%ba)
            %c = allocate f32[s0, 8]
            kernel_call @copy(%b, %c, s0 * 8)
            return %c, bi + 1
          }
        }
        """,
        """
        c.t[r].reset(new_handle(c.t[x].get(), 0));
        c.i = 0;
        bool first = true;
        while (true) {
          c.ci = c.i;
          c.most = c.n;
          if (!(c.ci < c.most)) break;
          c.bi = c.i;
          empty(c.t[c_], DType::f32, {c.s0, 8}, ints_8_1, 0);
          c.p[r] = data_of(c.t[r].get(), 0);
          c.p[c_] = data_of(c.t[c_].get(), 0);
          cpp_copy(c.p[r], c.p[c_], num::mul(c.s0, 8));
          c.t[r].reset(c.t[c_].release());
          c.i = num::add(c.bi, 1);
          first = false;
        }
        if (first) {
          Tensor copy;
          empty(copy, DType::f32, {c.s0, 8}, ints_8_1, 0);
          check(aoti_torch_copy_(copy.get(), c.t[r].get(), 0), 0);
          c.t[r].reset(copy.release());
        }
        c.outputs[0] = output(c.t[r].release());
        c.outputs[1] = output(c.i);
        """,
        "%r, %i",
    ),
    "while_loop, on a tensor": Case(
        """
        %r = while_loop (%flag) () : bool[] {
          condition (%a: bool[]) {
            %go = extern_kernel aten.clone.default(%a) : bool[]
            return %go
          }
          body (%b: bool[]) {
            %c = allocate bool[] workspace(zero_on_call)
            return %c
          }
        }
        """,
        """
        c.t[r].reset(new_handle(c.t[flag].get(), 0));
        bool first = true;
        while (true) {
          op::call(op::Operator{"aten::clone", ""}, {op::tensor(c.t[r].get()), \
op::maybe(op::none())}, {op::result(c.t[go])}, 0);
          c.p[go] = data_of(c.t[go].get(), 0);
          bool go_on = *at<bool>(c.p[go]);
          c.t[go].reset();
          if (!go_on) break;
          empty(c.t[c_], DType::boolean, nullptr, nullptr, 0);
          c.p[c_] = data_of(c.t[c_].get(), 0);
          memset(c.p[c_], 0, 1);
          c.t[r].reset(c.t[c_].release());
          first = false;
        }
        if (first) {
          Tensor copy;
          empty(copy, DType::boolean, nullptr, nullptr, 0);
          check(aoti_torch_copy_(copy.get(), c.t[r].get(), 0), 0);
          c.t[r].reset(copy.release());
        }
        c.outputs[0] = output(c.t[r].release());
        """,
        "%r",
    ),
    "while_loop, stacked": Case(
        """
        %r, %rs = while_loop stacked (%flag) () : bool[], bool[u0] {
          condition (%a: bool[]) {
            %go = extern_kernel aten.clone.default(%a) : bool[]
            return %go
          }
          body (%b: bool[]) {
            %c = allocate bool[] workspace(zero_on_call)
            return %c
          }
        }
        symbol_definition u0: int = size(%rs, 0)
        """,
        """
        c.t[r].reset(new_handle(c.t[flag].get(), 0));
        LoopValues rs_values;
        bool first = true;
        while (true) {
          op::call(op::Operator{"aten::clone", ""}, {op::tensor(c.t[r].get()), \
op::maybe(op::none())}, {op::result(c.t[go])}, 0);
          c.p[go] = data_of(c.t[go].get(), 0);
          bool go_on = *at<bool>(c.p[go]);
          c.t[go].reset();
          if (!go_on) break;
          empty(c.t[c_], DType::boolean, nullptr, nullptr, 0);
          c.p[c_] = data_of(c.t[c_].get(), 0);
          memset(c.p[c_], 0, 1);
          c.t[r].reset(c.t[c_].release());
          rs_values.push(c.t[r].get(), 0);
          first = false;
        }
        if (first) {
          Tensor copy;
          empty(copy, DType::boolean, nullptr, nullptr, 0);
          check(aoti_torch_copy_(copy.get(), c.t[r].get(), 0), 0);
          c.t[r].reset(copy.release());
        }
        rs_values.stack(c.t[rs], c.t[r].get(), DType::boolean, nullptr, 0);
        c.u0 = num::size_of(c.t[rs].get(), 0, 1);
        c.outputs[0] = output(c.t[r].release());
        c.outputs[1] = output(c.t[rs].release());
        """,
        "%r, %rs",
    ),
    "subgraph_call": Case(
        """
        %r = subgraph_call @inner(%x) : f32[4] {
          body (%y: f32[s0, 8]) {
            kernel_call @add_one(%y, 8)
            %a = allocate f32[4] workspace(zero_on_call)
            return %a
          }
        }
        """,
        """
        // subgraph inner
        c.p[x] = data_of(c.t[x].get(), 0);
        cpp_add_one(c.p[x], 8);
        empty(c.t[a], DType::f32, ints_4, ints_1, 0);
        c.p[a] = data_of(c.t[a].get(), 0);
        memset(c.p[a], 0, 16);
        c.t[r].reset(c.t[a].release());
        c.outputs[0] = output(c.t[r].release());
        """,
        "%r",
    ),
    "graph_region": Case(
        """
        %r = graph_region @inner(%x) : f32[4] {
          body (%y: f32[s0, 8]) {
            kernel_call @add_one(%y, 8)
            %a = allocate f32[4] workspace(zero_on_call)
            return %a
          }
        }
        """,
        """
        // graph region inner is not recorded: cpu has no graphs
        c.p[x] = data_of(c.t[x].get(), 0);
        cpp_add_one(c.p[x], 8);
        empty(c.t[a], DType::f32, ints_4, ints_1, 0);
        c.p[a] = data_of(c.t[a].get(), 0);
        memset(c.p[a], 0, 16);
        c.t[r].reset(c.t[a].release());
        c.outputs[0] = output(c.t[r].release());
        """,
        "%r",
    ),
    "comment": Case(
        r"""
        comment "what this is\n*/ for\\"
        """,
        r"""
        // what this is\n* / for\\.
        """,
    ),
}
