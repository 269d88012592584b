// Joint graphs as PyTorch 2.13's aot_function traced them, with the bytes of new storage that its own partitioners keep
// on them. Made by tracing three small models in Python and printing the joint graph in this library's text.
#pragma once
#include <cstdint>
#include <string_view>

namespace diptych::testing {

struct TorchJoint {
  std::string_view name;
  std::string_view text;
  size_t primals;
  size_t tangents;
  size_t outputs;
  int64_t min_cut_bytes;  ///< by torch._functorch.partitioners.min_cut_rematerialization_partition
  int64_t default_bytes;  ///< by default_partition
};

constexpr std::string_view kMlpText =
    R"(graph joint(%0 primals_1 : f32[128,64] grad, %1 primals_2 : f32[128] grad, %2 primals_3 : f32[128] grad, %3 primals_4 : f32[128] grad, %4 primals_5 : f32[128,128] grad, %5 primals_6 : f32[128] grad, %6 primals_7 : f32[10,128] grad, %7 primals_8 : f32[10] grad, %8 primals_9 : f32[32,64], %9 primals_10 : i64[32], %10 tangents_1 : f32[] tangent)
  %11 : f32[64,128]{1,64} = aten.t(%0)
  %12 : f32[32,128] = aten.addmm(%1, %8, %11)
  %13 : f32[32,128] = aten.silu(%12)
  %14 : f32[32,128], %15 : f32[32,1], %16 : f32[32,1] = aten.native_layer_norm(%13, [128], %2, %3, 1e-05)
  %17 : f32[128,128]{1,128} = aten.t(%4)
  %18 : f32[32,128] = aten.addmm(%5, %14, %17)
  %19 : f32[32,128] = aten.tanh(%18)
  %20 : f32[32,128] = aten.detach(%19)
  %21 : f32[32,128], %22 : b8[32,128] = aten.native_dropout(%19, 0.2, true)
  %23 : f32[128,10]{1,128} = aten.t(%6)
  %24 : f32[32,10] = aten.addmm(%7, %21, %23)
  %25 : f32[32,10] = aten._log_softmax(%24, 1, false)
  %26 : f32[32,10] = aten.detach(%25)
  %27 : f32[], %28 : f32[] = aten.nll_loss_forward(%25, %9, none, 1, -100)
  %29 : f32[32,10] = aten.nll_loss_backward(%10, %25, %9, none, 1, -100, %28)  # backward
  %30 : f32[32,10] = aten.detach(%26)  # backward
  %31 : f32[32,10] = aten._log_softmax_backward_data(%29, %30, 1, f32)  # backward
  %32 : f32[10,128] = aten.t(%23)  # backward
  %33 : f32[32,128] = aten.mm(%31, %32)  # backward
  %34 : f32[10,32]{1,10} = aten.t(%31)  # backward
  %35 : f32[10,128] = aten.mm(%34, %21)  # backward
  %36 : f32[128,10]{1,128} = aten.t(%35)  # backward
  %37 : f32[1,10] = aten.sum.dim_IntList(%31, [0], true)  # backward
  %38 : f32[10] = aten.view(%37, [10])  # backward
  %39 : f32[10,128] = aten.t(%36)  # backward
  %40 : f32[32,128] = aten.native_dropout_backward(%33, %22, 1.25)  # backward
  %41 : f32[32,128] = aten.detach(%20)  # backward
  %42 : f32[32,128] = aten.tanh_backward(%40, %41)  # backward
  %43 : f32[128,128] = aten.t(%17)  # backward
  %44 : f32[32,128] = aten.mm(%42, %43)  # backward
  %45 : f32[128,32]{1,128} = aten.t(%42)  # backward
  %46 : f32[128,128] = aten.mm(%45, %14)  # backward
  %47 : f32[128,128]{1,128} = aten.t(%46)  # backward
  %48 : f32[1,128] = aten.sum.dim_IntList(%42, [0], true)  # backward
  %49 : f32[128] = aten.view(%48, [128])  # backward
  %50 : f32[128,128] = aten.t(%47)  # backward
  %51 : f32[32,128], %52 : f32[128], %53 : f32[128] = aten.native_layer_norm_backward(%44, %13, [128], %15, %16, %2, %3, [true, true, true])  # backward
  %54 : f32[32,128] = aten.silu_backward(%51, %12)  # backward
  %55 : f32[128,32]{1,128} = aten.t(%54)  # backward
  %56 : f32[128,64] = aten.mm(%55, %8)  # backward
  %57 : f32[64,128]{1,64} = aten.t(%56)  # backward
  %58 : f32[1,128] = aten.sum.dim_IntList(%54, [0], true)  # backward
  %59 : f32[128] = aten.view(%58, [128])  # backward
  %60 : f32[128,64] = aten.t(%57)  # backward
  return (%27 o0, %60 o1 gradient, %59 o2 gradient, %52 o3 gradient, %53 o4 gradient, %50 o5 gradient, %49 o6 gradient, %39 o7 gradient, %38 o8 gradient, none o9 gradient, none o10 gradient)
)";

constexpr std::string_view kCnnText =
    R"(graph joint(%0 primals_1 : f32[8,1,3,3] grad, %1 primals_2 : f32[8] grad, %2 primals_3 : f32[8] grad, %3 primals_4 : f32[8] grad, %4 primals_5 : f32[16,8,3,3] grad, %5 primals_6 : f32[16] grad, %6 primals_7 : f32[10,256] grad, %7 primals_8 : f32[10] grad, %8 primals_9 : f32[16,1,8,8], %9 primals_10 : i64[16], %10 tangents_1 : f32[] tangent)
  %11 : f32[16,8,8,8] = aten.convolution(%8, %0, %1, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %12 : f32[16,8,8,8], %13 : f32[16,4], %14 : f32[16,4] = aten.native_group_norm(%11, %2, %3, 16, 8, 64, 4, 1e-05)
  %15 : f32[16,4] = aten.detach(%13)
  %16 : f32[16,4] = aten.detach(%14)
  %17 : f32[16,8,8,8] = aten.relu(%12)
  %18 : f32[16,8,8,8] = aten.detach(%17)
  %19 : f32[16,16,8,8] = aten.convolution(%17, %4, %5, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %20 : f32[16,16,8,8] = aten.hardswish(%19)
  %21 : f32[16,16,4,4], %22 : i64[16,16,4,4] = aten.max_pool2d_with_indices(%20, [2, 2], [2, 2])
  %23 : f32[16,256] = aten.view(%21, [16, 256])
  %24 : f32[256,10]{1,256} = aten.t(%6)
  %25 : f32[16,10] = aten.addmm(%7, %23, %24)
  %26 : f32[16,10] = aten._log_softmax(%25, 1, false)
  %27 : f32[16,10] = aten.detach(%26)
  %28 : f32[], %29 : f32[] = aten.nll_loss_forward(%26, %9, none, 1, -100)
  %30 : f32[16,10] = aten.nll_loss_backward(%10, %26, %9, none, 1, -100, %29)  # backward
  %31 : f32[16,10] = aten.detach(%27)  # backward
  %32 : f32[16,10] = aten._log_softmax_backward_data(%30, %31, 1, f32)  # backward
  %33 : f32[10,256] = aten.t(%24)  # backward
  %34 : f32[16,256] = aten.mm(%32, %33)  # backward
  %35 : f32[10,16]{1,10} = aten.t(%32)  # backward
  %36 : f32[10,256] = aten.mm(%35, %23)  # backward
  %37 : f32[256,10]{1,256} = aten.t(%36)  # backward
  %38 : f32[1,10] = aten.sum.dim_IntList(%32, [0], true)  # backward
  %39 : f32[10] = aten.view(%38, [10])  # backward
  %40 : f32[10,256] = aten.t(%37)  # backward
  %41 : f32[16,16,4,4] = aten.view(%34, [16, 16, 4, 4])  # backward
  %42 : f32[16,16,8,8] = aten.max_pool2d_with_indices_backward(%41, %20, [2, 2], [2, 2], [0, 0], [1, 1], false, %22)  # backward
  %43 : f32[16,16,8,8] = aten.hardswish_backward(%42, %19)  # backward
  %44 : f32[16,8,8,8], %45 : f32[16,8,3,3], %46 : f32[16] = aten.convolution_backward(%43, %17, %4, [16], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, true])  # backward
  %47 : f32[16,8,8,8] = aten.detach(%18)  # backward
  %48 : f32[16,8,8,8] = aten.threshold_backward(%44, %47, 0)  # backward
  %49 : f32[16,4] = aten.detach(%15)  # backward
  %50 : f32[16,4] = aten.detach(%16)  # backward
  %51 : f32[16,8,8,8], %52 : f32[8], %53 : f32[8] = aten.native_group_norm_backward(%48, %11, %49, %50, %2, 16, 8, 64, 4, [true, true, true])  # backward
  none, %54 : f32[8,1,3,3], %55 : f32[8] = aten.convolution_backward(%51, %8, %0, [8], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [false, true, true])  # backward
  return (%28 o0, %54 o1 gradient, %55 o2 gradient, %52 o3 gradient, %53 o4 gradient, %45 o5 gradient, %46 o6 gradient, %40 o7 gradient, %39 o8 gradient, none o9 gradient, none o10 gradient)
)";

constexpr std::string_view kPwText =
    R"(graph joint(%0 primals_1 : f32[64,64] grad, %1 primals_2 : f32[64,64], %2 tangents_1 : f32[] tangent, %3 tangents_2 : f32[] tangent)
  %4 : f32[64,64] = aten.sin(%0)
  %5 : f32[64,64] = aten.cos(%1)
  %6 : f32[64,64] = aten.mul.Tensor(%4, %5)
  %7 : f32[64,64] = aten.add.Tensor(%6, %0)
  %8 : f32[64,64] = aten.tanh(%7)
  %9 : f32[64,64] = aten.detach(%8)
  %10 : f32[64,64] = aten.clamp(%8, 0)
  %11 : f32[64,64] = aten.exp(%6)
  %12 : f32[64,64] = aten.detach(%11)
  %13 : f32[64,64] = aten.mul.Tensor(%10, %11)
  %14 : f32[64,64] = aten.mul.Tensor(%13, %8)
  %15 : f32[64,64] = aten.add.Tensor(%14, %6)
  %16 : f32[] = aten.sum(%15)
  %17 : f32[] = aten.mean(%13)
  %18 : f32[64,64]{0,0} = aten.expand(%3, [64, 64])  # backward
  %19 : f32[64,64] = aten.div.Scalar(%18, 4096)  # backward
  %20 : f32[64,64]{0,0} = aten.expand(%2, [64, 64])  # backward
  %21 : f32[64,64] = aten.mul.Tensor(%20, %13)  # backward
  %22 : f32[64,64] = aten.mul.Tensor(%20, %8)  # backward
  %23 : f32[64,64] = aten.add.Tensor(%19, %22)  # backward
  %24 : f32[64,64] = aten.mul.Tensor(%23, %10)  # backward
  %25 : f32[64,64] = aten.mul.Tensor(%23, %11)  # backward
  %26 : f32[64,64] = aten.detach(%12)  # backward
  %27 : f32[64,64] = aten.mul.Tensor(%24, %26)  # backward
  %28 : f32[64,64] = aten.add.Tensor(%20, %27)  # backward
  %29 : f32[] = aten.scalar_tensor(0.0, dtype=f32, layout=strided, device=device(cpu))  # backward
  %30 : b8[64,64] = aten.ge.Scalar(%8, 0)  # backward
  %31 : f32[64,64] = aten.where.self(%30, %25, %29)  # backward
  %32 : f32[64,64] = aten.add.Tensor(%21, %31)  # backward
  %33 : f32[64,64] = aten.detach(%9)  # backward
  %34 : f32[64,64] = aten.tanh_backward(%32, %33)  # backward
  %35 : f32[64,64] = aten.add.Tensor(%28, %34)  # backward
  %36 : f32[64,64] = aten.mul.Tensor(%35, %5)  # backward
  %37 : f32[64,64] = aten.cos(%0)  # backward
  %38 : f32[64,64] = aten.mul.Tensor(%36, %37)  # backward
  %39 : f32[64,64] = aten.add.Tensor(%34, %38)  # backward
  return (%16 o0, %17 o1, %39 o2 gradient, none o3 gradient)
)";

constexpr TorchJoint kTorchJoints[] = {
    {"mlp", kMlpText, 10, 1, 1, 87556, 87556},
    {"cnn", kCnnText, 10, 1, 1, 246916, 246916},
    {"pw", kPwText, 2, 2, 2, 32768, 81920},
};

}  // namespace diptych::testing
