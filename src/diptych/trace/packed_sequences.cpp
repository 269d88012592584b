#include "diptych/trace/packed_sequences.h"

#include <ATen/ops/_pack_padded_sequence.h>
#include <ATen/ops/_pad_packed_sequence.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <tuple>

#include "diptych/trace/asked_values.h"
#include "diptych/trace/trace_guard.h"

namespace diptych::detail {
namespace {

at::Tensor lengths_in(Recorder& recorder, const c10::IValue& argument, const std::string& place) {
  return recorder.asked_values().ask(recorder.value_of(argument.toTensor()), Question::kElements, place);
}

// A batch whose rows are their own numbers; without rows, one that the operator refuses as it refuses `input`.
at::Tensor row_numbers(const at::Tensor& input) {
  if (input.dim() < 2 || input.numel() == 0) return at::zeros(input.sizes());
  return at::arange(input.size(0) * input.size(1)).view({input.size(0), input.size(1)});
}

// The places of the rows of a packed sequence in a padded batch, whose rows are counted along the first two dimensions.
at::Tensor places_in(const at::Tensor& padded_numbers) {
  const at::Tensor numbers = padded_numbers.flatten();
  const at::Tensor filled = numbers.nonzero().squeeze(1);
  return filled.index_select(0, numbers.index_select(0, filled).argsort());
}

}  // namespace

std::vector<c10::IValue> pack(Recorder& recorder, std::span<const c10::IValue> arguments, const std::string& place) {
  const at::Tensor& input = arguments[0].toTensor();
  const at::Tensor lengths = lengths_in(recorder, arguments[1], place);
  at::Tensor rows, batch_sizes;
  {
    const PauseTraceGuard real;
    std::tie(rows, batch_sizes) = at::_pack_padded_sequence(row_numbers(input), lengths, arguments[2].toBool());
    rows = rows.to(input.device());
  }
  return {input.flatten(0, 1).index_select(0, recorder.lift(rows)), recorder.lift(batch_sizes)};
}

std::vector<c10::IValue> pad(Recorder& recorder, std::span<const c10::IValue> arguments, const std::string& place) {
  const at::Tensor& data = arguments[0].toTensor();
  const at::Tensor batch_sizes = lengths_in(recorder, arguments[1], place);
  at::Tensor places, lengths;
  std::vector<int64_t> sizes;
  {
    const PauseTraceGuard real;
    at::Tensor numbers;
    std::tie(numbers, lengths) = at::_pad_packed_sequence(at::arange(1, data.size(0) + 1), batch_sizes,
                                                          /*batch_first=*/false, 0, arguments[4].toInt());
    sizes = numbers.sizes().vec();
    places = places_in(numbers).to(data.device());
  }
  sizes.insert(sizes.end(), data.sizes().begin() + 1, data.sizes().end());
  std::vector<int64_t> flat(sizes.begin() + 1, sizes.end());
  flat[0] *= sizes[0];
  const at::Tensor padding = at::full(flat, arguments[3].toScalar(), data.options());
  const at::Tensor padded = padding.index_copy(0, recorder.lift(places), data).view(sizes);
  return {arguments[2].toBool() ? padded.transpose(0, 1) : padded, recorder.lift(lengths)};
}

}  // namespace diptych::detail
