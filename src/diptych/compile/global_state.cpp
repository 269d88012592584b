#include "diptych/compile/global_state.h"

#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

namespace diptych {

GlobalState GlobalState::current() {
  GlobalState state;
  state.grad_mode = c10::GradMode::is_enabled();
  state.inference_mode = c10::InferenceMode::is_enabled();
  state.autocast_cpu = at::autocast::is_autocast_enabled(at::kCPU);
  state.autocast_cuda = at::autocast::is_autocast_enabled(at::kCUDA);
  if (state.autocast_cpu) state.autocast_cpu_dtype = at::autocast::get_autocast_dtype(at::kCPU);
  if (state.autocast_cuda) state.autocast_cuda_dtype = at::autocast::get_autocast_dtype(at::kCUDA);
  state.default_dtype = c10::get_default_dtype_as_scalartype();
  return state;
}

bool GlobalState::same_autocast(const GlobalState& other) const {
  return autocast_cpu == other.autocast_cpu && autocast_cuda == other.autocast_cuda &&
         autocast_cpu_dtype == other.autocast_cpu_dtype && autocast_cuda_dtype == other.autocast_cuda_dtype;
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
  return text;
}

}  // namespace diptych
