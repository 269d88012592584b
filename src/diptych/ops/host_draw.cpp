#include "diptych/ops/host_draw.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include "diptych/base/check.h"

namespace diptych::detail {
namespace {

at::Tensor host_draw(const std::optional<at::Generator>& generator, c10::Device device) {
  const auto options = at::TensorOptions(at::kDouble).device(device);
  if (device.is_meta()) return at::empty({}, options);
  auto* const host = generator ? dynamic_cast<HostGenerator*>(generator->unsafeGetGeneratorImpl()) : nullptr;
  DIPTYCH_CHECK(host != nullptr,
                "[host_draw] got a generator of LibTorch's, expected one of the host language; use torch's operators "
                "for random numbers");
  return at::scalar_tensor(host->draw(), options);
}

Op register_host_draw() {
  // Never destroyed, as operators of a loaded library are not.
  auto* const library = new torch::Library(torch::Library::FRAGMENT, "diptych", std::nullopt, __FILE__, __LINE__);
  library->def("host_draw(Generator? generator, Device device) -> Tensor", {at::Tag::nondeterministic_seeded});
  library->impl("host_draw", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(host_draw)));
  return Op::find("diptych.host_draw");
}

}  // namespace

void HostGenerator::refuse(const char* what) {
  throw_user_error(fmt::format(
      "[host_draw] a generator of the host language has no {} for LibTorch; seed it by its own functions", what));
}

const Op& host_draw_operator() {
  static const Op& op = *new Op(register_host_draw());
  return op;
}

}  // namespace diptych::detail
