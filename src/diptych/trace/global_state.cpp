#include "diptych/trace/global_state.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace diptych::detail {
namespace {

// The processor's own switch, which each thread has.
bool flushes_denormals() {
#if defined(__SSE__)
  return (_mm_getcsr() & _MM_FLUSH_ZERO_MASK) != 0;
#else
  return false;
#endif
}

struct KernelMode {
  const char* name;
  bool (*is_on)(const at::Context&);
};

// Switches that kernels read each time they run need no row, because a graph runs the same kernels. The number of
// threads changes no meaning. Attention chooses its form while it is traced, and constants may be computed in
// uninitialized memory.
constexpr KernelMode kKernelModes[] = {
    {"deterministic algorithms", [](const at::Context& context) { return context.deterministicAlgorithms(); }},
    {"warning only about nondeterministic operators",
     [](const at::Context& context) { return context.deterministicAlgorithmsWarnOnly(); }},
    {"filling of uninitialized memory",
     [](const at::Context& context) {
       return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
     }},
    {"MKL-DNN", [](const at::Context& context) { return context.userEnabledMkldnn(); }},
    {"NNPACK", [](const at::Context& context) { return context.userEnabledNNPACK(); }},
    {"deterministic MKL-DNN", [](const at::Context& context) { return context.deterministicMkldnn(); }},
    {"flash attention", [](const at::Context& context) { return context.userEnabledFlashSDP(); }},
    {"memory-efficient attention", [](const at::Context& context) { return context.userEnabledMemEfficientSDP(); }},
    {"the math kernel of attention", [](const at::Context& context) { return context.userEnabledMathSDP(); }},
    {"attention by cuDNN", [](const at::Context& context) { return context.userEnabledCuDNNSDP(); }},
    {"reduced precision in attention",
     [](const at::Context& context) { return context.allowFP16BF16ReductionMathSDP(); }},
    {"flushing of denormal numbers", [](const at::Context&) { return flushes_denormals(); }},
};

uint32_t kernel_modes_now() {
  const at::Context& context = at::globalContext();
  uint32_t modes = 0;
  uint32_t bit = 1;
  for (const KernelMode& mode : kKernelModes) {
    if (mode.is_on(context)) modes |= bit;
    bit <<= 1;
  }
  return modes;
}

}  // namespace

GlobalState GlobalState::current() {
  GlobalState state;
  state.grad_mode = c10::GradMode::is_enabled();
  state.inference_mode = c10::InferenceMode::is_enabled();
  state.autocast_cpu = at::autocast::is_autocast_enabled(at::kCPU);
  state.autocast_cuda = at::autocast::is_autocast_enabled(at::kCUDA);
  if (state.autocast_cpu) state.autocast_cpu_dtype = at::autocast::get_autocast_dtype(at::kCPU);
  if (state.autocast_cuda) state.autocast_cuda_dtype = at::autocast::get_autocast_dtype(at::kCUDA);
  state.default_dtype = c10::get_default_dtype_as_scalartype();
  state.kernel_modes = kernel_modes_now();
  return state;
}

GlobalState GlobalState::without_autocast() {
  GlobalState state;
  state.kernel_modes = kernel_modes_now();
  return state;
}

bool GlobalState::same_for_backward(const GlobalState& other) const {
  return kernel_modes == other.kernel_modes && autocast_cpu == other.autocast_cpu &&
         autocast_cuda == other.autocast_cuda && autocast_cpu_dtype == other.autocast_cpu_dtype &&
         autocast_cuda_dtype == other.autocast_cuda_dtype;
}

std::string GlobalState::difference(const GlobalState& now) const {
  std::string text;
  const auto add = [&](const char* what, const auto& then, const auto& is) {
    if (then != is)
      text += fmt::format("{}{} was {}, is {}", text.empty() ? "" : "; ", what, c10::str(then), c10::str(is));
  };
  const auto on = [](bool value) { return std::string(value ? "on" : "off"); };
  add("grad mode", on(grad_mode), on(now.grad_mode));
  add("inference mode", on(inference_mode), on(now.inference_mode));
  add("autocast on CPU", on(autocast_cpu), on(now.autocast_cpu));
  add("autocast on CUDA", on(autocast_cuda), on(now.autocast_cuda));
  add("autocast dtype on CPU", autocast_cpu_dtype, now.autocast_cpu_dtype);
  add("autocast dtype on CUDA", autocast_cuda_dtype, now.autocast_cuda_dtype);
  add("the default dtype", default_dtype, now.default_dtype);
  uint32_t bit = 1;
  for (const KernelMode& mode : kKernelModes) {
    add(mode.name, on((kernel_modes & bit) != 0), on((now.kernel_modes & bit) != 0));
    bit <<= 1;
  }
  return text;
}

}  // namespace diptych::detail
