#include "diptych/ops/draw_bits.h"

#include <ATen/core/PhiloxRNGEngine.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "diptych/base/check.h"

namespace diptych::detail {
namespace {

// The engine makes four words at a time.
constexpr int64_t kWordsPerBlock = 4;

void fill_with_bits(const at::Tensor& bits, int64_t key, int64_t counter) {
  at::philox_engine engine(static_cast<uint64_t>(key), /*subsequence=*/0, static_cast<uint64_t>(counter));
  const auto num_words = static_cast<int64_t>(bits.nbytes() / sizeof(uint32_t));
  auto* const words = static_cast<uint32_t*>(bits.mutable_data_ptr());
  for (int64_t i = 0; i < num_words; ++i) words[i] = engine();
}

std::tuple<at::Tensor, at::Tensor> draw_bits(const at::Tensor& state, at::IntArrayRef size, at::ScalarType dtype) {
  DIPTYCH_CHECK(state.scalar_type() == at::kLong && state.dim() == 1 && state.size(0) == 2,
                "[draw_bits] got a state of dtype {} with {} elements; pass int64 with the 2 elements that the seed or "
                "an earlier call has returned",
                c10::toString(state.scalar_type()), state.numel());
  DIPTYCH_CHECK(dtype == at::kInt || dtype == at::kLong,
                "[draw_bits] got dtype {}, expected int32 or int64; cast after", c10::toString(dtype));
  at::Tensor bits = at::empty(size, state.options().dtype(dtype));
  at::Tensor next = at::empty_like(state, at::MemoryFormat::Contiguous);
  if (state.is_meta()) return {bits, next};
  const at::Tensor read = state.contiguous();
  const auto* const from = read.const_data_ptr<int64_t>();
  fill_with_bits(bits, from[0], from[1]);
  const auto num_words = static_cast<uint64_t>(bits.nbytes() / sizeof(uint32_t));
  auto* const to = next.mutable_data_ptr<int64_t>();
  to[0] = from[0];
  to[1] = static_cast<int64_t>(static_cast<uint64_t>(from[1]) + (num_words + kWordsPerBlock - 1) / kWordsPerBlock);
  return {bits, next};
}

Op register_draw_bits() {
  // Never destroyed, as operators of a loaded library are not.
  auto* const library = new torch::Library(torch::Library::FRAGMENT, "diptych", std::nullopt, __FILE__, __LINE__);
  library->def("draw_bits(Tensor state, int[] size, ScalarType dtype) -> (Tensor, Tensor)");
  library->impl("draw_bits", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(draw_bits)));
  return Op::find("diptych.draw_bits");
}

}  // namespace

const Op& draw_bits_operator() {
  static const Op& op = *new Op(register_draw_bits());
  return op;
}

}  // namespace diptych::detail
