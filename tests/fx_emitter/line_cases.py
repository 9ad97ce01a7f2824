"""The nodes that the lines of the Python emitter's cases become, as FX writes them."""

# Each statement of a graph's code is one.
# ruff: noqa: E501

NODES = {
    "allocate": """
r = torch.empty_strided((4, 8), (8, 1), dtype = torch.float32, device = device(type='cpu'))
fill__scalar = torch.ops.aten.fill_.Scalar(r, 1.5)
return (r,)
""",
    "allocate symbolic": """
mul = s0 * 2
r = torch.empty_strided((mul, 3), (1, mul), dtype = torch.int64, device = device(type='cpu'))
fill__scalar = torch.ops.aten.fill_.Scalar(r, 2)
return (r,)
""",
    "allocate with an offset": """
empty_strided = torch.empty_strided((8,), (1,), dtype = torch.float32, device = device(type='cpu'))
r = torch.as_strided(empty_strided, (4,), (1,), 4)
fill__scalar = torch.ops.aten.fill_.Scalar(r, 2)
return (r,)
""",
    "allocate aligned": """
empty_strided = torch.empty_strided((1052,), (1,), dtype = torch.float32, device = device(type='cpu'))
a = wrapperir_fx_functions_aligned(empty_strided, (4, 4), (8, 1), 4096)
assert_alignment_default = torch.ops.wrapperir.assert_alignment.default(a, 4096, '%a is not aligned to 4096 bytes')
r = torch.ops.aten.zeros_like.default(a)
v = torch.as_strided(a, (4,), (1,))
free = wrapperir_fx_functions_free(a)
fill__scalar = torch.ops.aten.fill_.Scalar(v, 2)
free_1 = wrapperir_fx_functions_free(v)
return (r,)
""",
    "workspace, zero on call": """
r = torch.empty_strided((4096,), (1,), dtype = torch.uint8, device = device(type='cpu'))
zero__default = torch.ops.aten.zero_.default(r)
return (r,)
""",
    "workspace, uninitialized": """
ws = torch.empty_strided((64,), (1,), dtype = torch.uint8, device = device(type='cpu'))
r = torch.ops.aten.clone.default(x)
free = wrapperir_fx_functions_free(ws)
return (r,)
""",
    "workspace, zero per program": """
ws = self.ws
r = torch.ops.aten.clone.default(x)
return (r,)
""",
    "workspace, zero per program, symbolic": """
ws = self.ws((s0,), (1,))
r = torch.ops.aten.clone.default(ws)
return (r,)
""",
    "free": """
r = torch.ops.aten.clone.default(x)
free = wrapperir_fx_functions_free(x)
return (r,)
""",
    "pool, one tensor for a place and type": """
p = torch.empty_strided((128,), (1,), dtype = torch.float32, device = device(type='cpu'))
a = torch.as_strided(p, (8, 8), (8, 1), 0)
mm_out = torch.ops.aten.mm.out(m, m, out = a)
b = torch.as_strided(p, (8, 8), (8, 1), 64)
mm_out_1 = torch.ops.aten.mm.out(a, m, out = b)
free = wrapperir_fx_functions_free(a)
c = torch.as_strided(p, (8, 8), (8, 1), 0)
mm_out_2 = torch.ops.aten.mm.out(b, m, out = c)
r = torch.as_strided(p, (8, 8), (8, 1), 64)
mm_out_3 = torch.ops.aten.mm.out(c, m, out = r)
free_1 = wrapperir_fx_functions_free(c)
free_2 = wrapperir_fx_functions_free(p)
return (r,)
""",
    "pool, of one layout": """
p = torch.empty_strided((64,), (1,), dtype = torch.float32, device = device(type='cpu'))
a = torch.as_strided(p, (8, 8), (8, 1), 0)
mm_out = torch.ops.aten.mm.out(m, m, out = a)
q = torch.ops.aten.clone.default(a)
free = wrapperir_fx_functions_free(a)
b = torch.as_strided(p, (8, 8), (8, 1), 0)
free_1 = wrapperir_fx_functions_free(p)
mm_out_1 = torch.ops.aten.mm.out(q, m, out = b)
r = torch.ops.aten.clone.default(b)
free_2 = wrapperir_fx_functions_free(b)
return (r, q)
""",
    "pool, of dtypes and views": """
empty_strided = torch.empty_strided((288,), (1,), dtype = torch.float32, device = device(type='cpu'))
p = wrapperir_fx_functions_aligned(empty_strided, (256,), (1,), 128)
slice_tensor = torch.ops.aten.slice.Tensor(p, 0, 8, 24)
a = torch.ops.aten.view.default(slice_tensor, (8, 2))
slice_tensor_1 = torch.ops.aten.slice.Tensor(p, 0, 32, 35)
b = torch.ops.aten.view.dtype(slice_tensor_1, torch.int32)
slice_tensor_2 = torch.ops.aten.slice.Tensor(p, 0, 48, 54)
c = torch.ops.aten.view.dtype(slice_tensor_2, torch.int64)
slice_tensor_3 = torch.ops.aten.slice.Tensor(p, 0, 64, 66)
view_dtype = torch.ops.aten.view.dtype(slice_tensor_3, torch.float64)
d = torch.ops.aten.view.default(view_dtype, ())
zero__default = torch.ops.aten.zero_.default(d)
slice_tensor_4 = torch.ops.aten.slice.Tensor(p, 0, 128, 144)
e = torch.ops.aten.view.default(slice_tensor_4, (2, 8))
zero__default_1 = torch.ops.aten.zero_.default(e)
fill__scalar = torch.ops.aten.fill_.Scalar(a, 1.5)
fill__scalar_1 = torch.ops.aten.fill_.Scalar(b, 2)
fill__scalar_2 = torch.ops.aten.fill_.Scalar(c, 3)
sym_storage_offset_default = torch.ops.aten.sym_storage_offset.default(p)
add = sym_storage_offset_default + 9
v = torch.as_strided(p, (2,), (2,), add)
w2 = torch.as_strided(p, (2,), (2,), add)
free = wrapperir_fx_functions_free(a)
r = torch.ops.aten.clone.default(v)
free_1 = wrapperir_fx_functions_free(v)
q = torch.ops.aten.clone.default(w2)
free_2 = wrapperir_fx_functions_free(w2)
free_3 = wrapperir_fx_functions_free(p)
return (r, q, b, c, d, e)
""",
    "pool, of a symbolic size": """
mul = s0 * 16
add = mul + 16
p = torch.empty_strided((add,), (1,), dtype = torch.float32, device = device(type='cpu'))
a = torch.as_strided(p, (s0, 8), (8, 1), 0)
mul_1 = s0 * 8
b = torch.as_strided(p, (s0, 8), (8, 1), mul_1)
mm_out = torch.ops.aten.mm.out(x, w, out = a)
mm_out_1 = torch.ops.aten.mm.out(a, w, out = b)
free = wrapperir_fx_functions_free(a)
mul_2 = s0 * 64
sym_max = torch.sym_max(mul_2, 128)
floordiv = sym_max // 4
c = torch.as_strided(p, (2,), (1,), floordiv)
free_1 = wrapperir_fx_functions_free(p)
fill__scalar = torch.ops.aten.fill_.Scalar(c, 3)
return (b, c)
""",
    "pool, in a pool and for blocks": """
p = torch.empty_strided((1024,), (1,), dtype = torch.uint8, device = device(type='cpu'))
as_strided = torch.as_strided(p, (256,), (1,), 0)
view_dtype = torch.ops.aten.view.dtype(as_strided, torch.float32)
a = torch.ops.aten.view.default(view_dtype, (8, 8))
mm_out = torch.ops.aten.mm.out(m, m, out = a)
i = torch.as_strided(p, (512,), (1,), 512)
true_graph_0 = self.true_graph_0
false_graph_0 = self.false_graph_0
cond = torch.ops.higher_order.cond(flag, true_graph_0, false_graph_0, (i, a, w))
r = cond[0]
free = wrapperir_fx_functions_free(a)
as_strided_1 = torch.as_strided(p, (16,), (1,), 512)
g = torch.ops.aten.view.dtype(as_strided_1, torch.float32)
fill__scalar = torch.ops.aten.fill_.Scalar(g, 3)
free_1 = wrapperir_fx_functions_free(i)
free_2 = wrapperir_fx_functions_free(p)
return (r, g)
self.true_graph_0:
slice_tensor = torch.ops.aten.slice.Tensor(j, 0, 256, 512)
view_dtype = torch.ops.aten.view.dtype(slice_tensor, torch.float32)
c = torch.ops.aten.view.default(view_dtype, (8, 8))
mm_out = torch.ops.aten.mm.out(b, w, out = c)
d = torch.ops.aten.neg.default(c)
free = wrapperir_fx_functions_free(c)
return (d,)
self.false_graph_0:
own = torch.empty_strided((128,), (1,), dtype = torch.float32, device = device(type='cpu'))
f = torch.as_strided(own, (8, 8), (8, 1), 64)
free = wrapperir_fx_functions_free(own)
mm_out = torch.ops.aten.mm.out(e, w, out = f)
return (f,)
""",
    "pool, in a loop": """
p = torch.empty_strided((4096,), (1,), dtype = torch.uint8, device = device(type='cpu'))
as_strided = torch.as_strided(p, (8,), (1,), 0)
view_dtype = torch.ops.aten.view.dtype(as_strided, torch.int64)
a = torch.ops.aten.view.default(view_dtype, ())
fill__scalar = torch.ops.aten.fill_.Scalar(a, 0)
while_loop_cond_graph_0 = self.while_loop_cond_graph_0
while_loop_body_graph_0 = self.while_loop_body_graph_0
while_loop = torch.ops.higher_order.while_loop(while_loop_cond_graph_0, while_loop_body_graph_0, (a,), (p,))
r = while_loop[0]
free = wrapperir_fx_functions_free(a)
free_1 = wrapperir_fx_functions_free(p)
return (r,)
self.while_loop_cond_graph_0:
o = torch.empty_strided((64,), (1,), dtype = torch.bool, device = device(type='cpu'))
t = torch.as_strided(o, (), (), 0)
free = wrapperir_fx_functions_free(o)
lt_scalar_out = torch.ops.aten.lt.Scalar_out(c, 3, out = t)
return t
self.while_loop_body_graph_0:
slice_tensor = torch.ops.aten.slice.Tensor(bp, 0, 64, 72)
view_dtype = torch.ops.aten.view.dtype(slice_tensor, torch.int64)
q = torch.ops.aten.view.default(view_dtype, ())
fill__scalar = torch.ops.aten.fill_.Scalar(q, 1)
z = torch.ops.aten.add.Tensor(b, q)
free = wrapperir_fx_functions_free(q)
return (z,)
""",
    "events that are freed": """
r = torch.ops.aten.clone.default(x)
cpu_stream_1 = wrapperir_fx_stream_functions_stream(device(type='cpu'), 1)
e = wrapperir_fx_stream_functions_record_event(cpu_stream_1)
cpu_stream_2 = wrapperir_fx_stream_functions_stream(device(type='cpu'), 2)
wait_event = wrapperir_fx_stream_functions_wait_event(cpu_stream_2, e)
free = wrapperir_fx_functions_free(e)
free_1 = wrapperir_fx_functions_free(given_int)
free_2 = wrapperir_fx_functions_free(r)
return ()
""",
    "events on the CPU": """
r = torch.ops.aten.clone.default(x)
cpu_stream_1 = wrapperir_fx_stream_functions_stream(device(type='cpu'), 1)
e = wrapperir_fx_stream_functions_record_event(cpu_stream_1)
cpu_stream_2 = wrapperir_fx_stream_functions_stream(device(type='cpu'), 2)
wait_event = wrapperir_fx_stream_functions_wait_event(cpu_stream_2, e)
return (r,)
""",
    "reuse, same layout": """
a = torch.ops.aten.clone.default(m)
r = torch.as_strided(a, (8, 8), (8, 1))
return (r,)
""",
    "reuse, other layout": """
a = torch.ops.aten.clone.default(m)
r = torch.as_strided(a, (9,), (1,))
return (r,)
""",
    "reuse, other dtype": """
a = torch.ops.aten.clone.default(m)
as_strided = torch.as_strided(a, (64,), (1,))
view_dtype = torch.ops.aten.view.dtype(as_strided, torch.float64)
r = torch.ops.aten.view.default(view_dtype, (4, 8))
return (r,)
""",
    "reinterpret": """
as_strided = torch.as_strided(m, (64,), (1,))
slice_tensor = torch.ops.aten.slice.Tensor(as_strided, 0, 8, 16)
v = torch.ops.aten.view.default(slice_tensor, (4, 2))
w2 = torch.ops.aten.slice.Tensor(as_strided, 0, 4, 6)
r = torch.ops.aten.add.Tensor(v, w2)
free = wrapperir_fx_functions_free(v)
free_1 = wrapperir_fx_functions_free(w2)
return (r,)
""",
    "reinterpret, other dtype": """
v = torch.ops.aten.view.dtype(m, torch.int32)
as_strided = torch.as_strided(m, (64,), (1,))
slice_tensor = torch.ops.aten.slice.Tensor(as_strided, 0, 3, 5)
u = torch.ops.aten.view.dtype(slice_tensor, torch.uint8)
r = torch.ops.aten.clone.default(u)
free = wrapperir_fx_functions_free(v)
free_1 = wrapperir_fx_functions_free(u)
return (r,)
""",
    "kernel_call, C++": """
r = torch.ops.aten.clone.default(x)
mul = s0 * 8
call_kernel_default = torch.ops.wrapperir.call_kernel.default('add_one:fa2007a225163c04', [r], [], [mul])
call_kernel_default_1 = torch.ops.wrapperir.call_kernel.default('scale:aceeb78cce7f6406', [r], [], [16, 2.0, True])
return (r,)
""",
    "kernel_call, Triton": """
r = torch.ops.aten.clone.default(x)
mul = s0 * 8
ceildiv = wrapperir_fx_functions_ceildiv(mul, 16)
triton_kernel_wrapper_mutation = torch.ops.higher_order.triton_kernel_wrapper_mutation(kernel_idx = 3, constant_args_idx = 0, grid = [(ceildiv, 1, 1)], tma_descriptor_metadata = {}, kwargs = {'p': r, 'n': mul, 'XBLOCK': 16, 'num_warps': 4})
return (r,)
""",
    "kernel_call of a multi_kernel": """
r = torch.ops.aten.clone.default(x)
call_kernel_default = torch.ops.wrapperir.call_kernel.default('add_one:fa2007a225163c04', [r], [], [s0])
return (r,)
""",
    "kernel_call of a multi_kernel that goes by sizes": """
r = torch.ops.aten.clone.default(x)
k = torch.ops.aten.clone.default(m)
mul = s0 * 8
call_multi_kernel_default = torch.ops.wrapperir.call_multi_kernel.default('near:da55b5c80f0ae4a7', [r], [], [mul], [])
call_multi_kernel_default_1 = torch.ops.wrapperir.call_multi_kernel.default('near:da55b5c80f0ae4a7', [r], [], [4], [])
call_kernel_default = torch.ops.wrapperir.call_kernel.default('add_one:fa2007a225163c04', [k], [], [64])
add = s0 + 3
call_multi_kernel_default_2 = torch.ops.wrapperir.call_multi_kernel.default('computed:63ece0749030dc13', [r], [], [add], [add])
call_kernel_default_1 = torch.ops.wrapperir.call_kernel.default('add_one:fa2007a225163c04', [k], [], [16])
call_kernel_default_2 = torch.ops.wrapperir.call_kernel.default('add_back:93dfe0e1ae83bf85', [k], [], [17])
free = wrapperir_fx_functions_free(k)
return (r,)
""",
    "kernel_call of a multi_kernel that is timed": """
r = torch.ops.aten.clone.default(x)
call_multi_kernel_default = torch.ops.wrapperir.call_multi_kernel.default('timed:c75a884585a0599a', [r], [], [s0], [])
call_multi_kernel_default_1 = torch.ops.wrapperir.call_multi_kernel.default('timed:c75a884585a0599a', [r], [], [3], [])
return (r,)
""",
    "extern_kernel, out": """
r = torch.empty_strided((s0, 8), (8, 1), dtype = torch.float32, device = device(type='cpu'))
mm_out = torch.ops.aten.mm.out(x, w, out = r)
return (r,)
""",
    "extern_kernel, out of one's own or not": """
r = torch.empty_strided((s0, 8), (8, 1), dtype = torch.float32, device = device(type='cpu'))
addmm_out = torch.ops.aten.addmm.out(x, x, w, beta = 0.5, out = r)
mm_out = torch.ops.aten.mm.out(r, m, out = x)
v = torch.as_strided(r, (1, 8), (8, 1), 0)
mm_out_1 = torch.ops.aten.mm.out(v, w, out = v)
free = wrapperir_fx_functions_free(v)
return (r,)
""",
    "extern_kernel, out of batches": """
b = torch.as_strided(m, (2, 4, 4), (16, 4, 1))
r = torch.empty_strided((2, 4, 4), (16, 4, 1), dtype = torch.float32, device = device(type='cpu'))
q = torch.empty_strided((2, 4, 4), (16, 4, 1), dtype = torch.float32, device = device(type='cpu'))
bmm_out = torch.ops.aten.bmm.out(b, b, out = r)
baddbmm_out = torch.ops.aten.baddbmm.out(r, b, r, alpha = 3, beta = 2, out = q)
free = wrapperir_fx_functions_free(b)
return (r, q)
""",
    "extern_kernel, arguments": """
r = torch.ops.aten.addmm.default(m, m, w, beta = 2, alpha = 0.5)
c = torch.ops.aten.cat.default([x, m], 0)
e = torch.ops.aten.full.default([s0, 2], 1.0, dtype = torch.float64, device = device(type='cpu'), pin_memory = False)
d = torch.ops.aten.div.Tensor_mode(m, w, rounding_mode = 'floor')
f = torch.ops.aten.clone.default(m, memory_format = torch.contiguous_format)
complex_1 = complex(1.0, -inf)
g = torch.ops.aten.add.Scalar(m, complex_1)
h = torch.ops.aten.t.default(m)
return (r, c, e, d, f, g, h)
""",
    "extern_kernel, a reserved word": """
r = torch.ops.aten.clone.default(x)
call_operator = wrapperir_fx_functions_call_operator('aten.random_.from', [r, 3, 4], {})
return (r,)
""",
    "multi_output": """
t = torch.ops.aten.split.Tensor(m, 4)
h = t[1]
free = wrapperir_fx_functions_free(t)
r = torch.ops.aten.clone.default(h)
as_strided = torch.as_strided(h, (32,), (1,))
v = torch.ops.aten.slice.Tensor(as_strided, 0, 24, 32)
free_1 = wrapperir_fx_functions_free(h)
r2 = torch.ops.aten.clone.default(v)
free_2 = wrapperir_fx_functions_free(v)
return (r, r2)
""",
    "symbol_definition, layout": """
r = torch.ops.aten.clone.default(x)
a = torch.ops.aten.sym_stride.int(r, 0)
b = wrapperir_fx_functions_check_range(0, 0, None, 'b')
sym_size_int_1 = torch.ops.aten.sym_size.int(r, 1)
c = wrapperir_fx_functions_real(sym_size_int_1)
return (r, a, b, c)
""",
    "symbol_definition, values": """
i = torch.ops.aten.sum.dim_IntList(flag, [])
f = torch.ops.aten.mean.default(m)
a = wrapperir_fx_functions_check_range(given_int, 0, 5, 'a')
b = torch.ops.aten.item.default(i)
item_default = torch.ops.aten.item.default(flag)
c = wrapperir_fx_functions_whole(item_default)
d = torch.ops.aten.item.default(f)
e = torch.ops.aten.item.default(flag)
item_default_1 = torch.ops.aten.item.default(f)
g = wrapperir_fx_functions_whole(item_default_1)
ceildiv = wrapperir_fx_functions_ceildiv(a, 2)
add = b + 1
sym_min = torch.sym_min(s0, add)
sym_min_1 = torch.sym_min(sym_min, 3)
mul = ceildiv * sym_min_1
h = wrapperir_fx_functions_check_range(mul, None, 100, 'h')
truediv = h / 2
real = wrapperir_fx_functions_real(truediv)
mul_1 = 2 * truediv
whole = wrapperir_fx_functions_whole(mul_1)
gt = a > 3
free = wrapperir_fx_functions_free(i)
free_1 = wrapperir_fx_functions_free(f)
return (a, b, c, d, e, g, h, real, whole, gt)
""",
    "assert_size_stride": r"""
r = torch.ops.aten.clone.default(x)
assert_size_stride = wrapperir_fx_functions_assert_size_stride(r, (s0, 8), (8, 1), 'it\'s a\n"clone": %r')
return (r,)
""",
    "assert_alignment": """
r = torch.ops.aten.clone.default(x)
assert_alignment_default = torch.ops.wrapperir.assert_alignment.default(r, 16, 'clone: %r is not aligned to 16 bytes')
return (r,)
""",
    "assert_scalar": """
r = torch.ops.aten.clone.default(x)
ge = s0 >= 2
lt = s0 < 200
and_ = ge & lt
_assert_scalar_default = torch.ops.aten._assert_scalar.default(and_, 's0 is a size')
return (r,)
""",
    "assert_not_nan": """
r = torch.ops.aten.clone.default(x)
isfinite_default = torch.ops.aten.isfinite.default(r)
all_default = torch.ops.aten.all.default(isfinite_default)
item_default = torch.ops.aten.item.default(all_default)
_assert_scalar_default = torch.ops.aten._assert_scalar.default(item_default, '%r holds NaN or infinity')
return (r,)
""",
    "comment": """
r = torch.ops.aten.clone.default(x)
return (r,)
""",
    "provenance": """
a = torch.ops.aten.relu.default(m)
r = torch.ops.aten.neg.default(a)
free = wrapperir_fx_functions_free(a)
return (r,)
""",
    "provenance of memory": """
a = torch.empty_strided((8, 8), (8, 1), dtype = torch.float32, device = device(type='cpu'))
v = torch.as_strided(m, (8, 8), (1, 8))
mm_out = torch.ops.aten.mm.out(m, v, out = a)
free = wrapperir_fx_functions_free(v)
r = torch.ops.aten.neg.default(a)
free_1 = wrapperir_fx_functions_free(a)
q = torch.as_strided(r, (64,), (1,))
return (r, q)
""",
    "pool, of several types at one place": """
p = torch.empty_strided((64,), (1,), dtype = torch.float32, device = device(type='cpu'))
a = torch.as_strided(p, (8, 8), (8, 1), 0)
fill__scalar = torch.ops.aten.fill_.Scalar(a, 1)
free = wrapperir_fx_functions_free(a)
b = torch.as_strided(p, (64,), (1,), 0)
fill__scalar_1 = torch.ops.aten.fill_.Scalar(b, 2)
free_1 = wrapperir_fx_functions_free(b)
c = torch.ops.aten.view.dtype(p, torch.int32)
fill__scalar_2 = torch.ops.aten.fill_.Scalar(c, 3)
free_2 = wrapperir_fx_functions_free(c)
d = torch.as_strided(p, (16,), (1,), 0)
free_3 = wrapperir_fx_functions_free(p)
fill__scalar_3 = torch.ops.aten.fill_.Scalar(d, 4)
return (d,)
""",
    "conditional": """
true_graph_0 = self.true_graph_0
false_graph_0 = self.false_graph_0
cond = torch.ops.higher_order.cond(flag, true_graph_0, false_graph_0, (m, x, w, s0))
r = cond[0]
q = cond[1]
return (r, q)
self.true_graph_0:
a = torch.ops.aten.neg.default(p)
b = torch.ops.aten.add.Tensor(p, w)
return (a, b)
self.false_graph_0:
c = torch.ops.aten.relu.default(p2)
d = torch.ops.aten.mul.Scalar(p2, s0)
return (d, c)
""",
    "conditional on a condition, for effect": """
gt = s0 > 3
true_graph_0 = self.true_graph_0
false_graph_0 = self.false_graph_0
cond = torch.ops.higher_order.cond(gt, true_graph_0, false_graph_0, (x, s0))
ran = wrapperir_fx_block_functions_ran(cond)
return (None,)
self.true_graph_0:
neg__default = torch.ops.aten.neg_.default(p)
return ()
self.false_graph_0:
return ()
""",
    "while_loop": """
i = torch.ops.aten.full.default([], 0)
while_loop_cond_graph_0 = self.while_loop_cond_graph_0
while_loop_body_graph_0 = self.while_loop_body_graph_0
while_loop = torch.ops.higher_order.while_loop(while_loop_cond_graph_0, while_loop_body_graph_0, (i, x), (m, s0))
j = while_loop[0]
r = while_loop[1]
free = wrapperir_fx_functions_free(i)
return (j, r)
self.while_loop_cond_graph_0:
c = torch.ops.aten.lt.Scalar(p, 3)
return c
self.while_loop_body_graph_0:
n1 = torch.ops.aten.add.Scalar(p1, 1)
n2 = torch.ops.aten.mm.default(q1, v1)
return (n1, n2)
""",
    "while_loop on a condition": """
while_loop_cond_graph_0 = self.while_loop_cond_graph_0
while_loop_body_graph_0 = self.while_loop_body_graph_0
while_loop = torch.ops.higher_order.while_loop(while_loop_cond_graph_0, while_loop_body_graph_0, (m,), (s0,))
r = while_loop[0]
return (r,)
self.while_loop_cond_graph_0:
gt = s0 > 50
return gt
self.while_loop_body_graph_0:
a = torch.ops.aten.neg.default(q)
return (a,)
""",
    "while_loop, stacked": """
i = torch.ops.aten.full.default([], 0)
while_loop_cond_graph_0 = self.while_loop_cond_graph_0
while_loop_body_graph_0 = self.while_loop_body_graph_0
while_loop_stack_output = torch.ops.higher_order.while_loop_stack_output(while_loop_cond_graph_0, while_loop_body_graph_0, (i, m), ())
getitem = while_loop_stack_output[0]
js = torch.ops.aten.contiguous.default(getitem)
select_int = torch.ops.aten.select.int(js, 0, -1)
j = torch.ops.aten.clone.default(select_int)
getitem_1 = while_loop_stack_output[1]
rs = torch.ops.aten.contiguous.default(getitem_1)
select_int_1 = torch.ops.aten.select.int(rs, 0, -1)
r = torch.ops.aten.clone.default(select_int_1)
sym_size_int_1 = torch.ops.aten.sym_size.int(js, 0)
u0 = wrapperir_fx_functions_check_range(sym_size_int_1, 1, None, 'u0')
free = wrapperir_fx_functions_free(i)
return (j, r, js, rs, u0)
self.while_loop_cond_graph_0:
c = torch.ops.aten.lt.Scalar(p, 3)
return c
self.while_loop_body_graph_0:
n1 = torch.ops.aten.add.Scalar(p1, 1)
n2 = torch.ops.aten.neg.default(v1)
return (n1, n2)
""",
    "subgraph_call": """
block_graph = self.block_graph
invoke_subgraph = torch.ops.higher_order.invoke_subgraph(block_graph, 'block', m)
r = invoke_subgraph[0]
return (r,)
self.block_graph:
a = torch.ops.aten.neg.default(p)
return (a,)
""",
    "graph_region": """
region_graph = self.region_graph
graph_region = wrapperir_fx_block_functions_graph_region(region_graph, 'region', device(type='cpu'), 0, 8, m)
r = graph_region[0]
return (r,)
self.region_graph:
a = torch.ops.aten.neg.default(p)
return (a,)
""",
}
