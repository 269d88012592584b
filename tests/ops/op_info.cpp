// Builders that the samples of all families share.
#include "ops/op_info.h"

#include <torch/types.h>

namespace diptych::test {

c10::OperatorHandle OpSample::handle() const {
  const size_t dot = op.find('.');
  const std::string overload = dot == std::string::npos ? "" : op.substr(dot + 1);
  return c10::Dispatcher::singleton().findSchemaOrThrow(op.substr(0, dot).c_str(), overload.c_str());
}

OpSample sample(const std::string& op, std::vector<c10::IValue> arguments, const std::string& note) {
  OpSample result{op, std::move(arguments), note};
  const auto handle = result.handle();
  const auto& schema = handle.schema().arguments();
  for (size_t i = result.arguments.size(); i < schema.size(); ++i) {
    TORCH_CHECK(schema[i].default_value().has_value(), "the sample of ", op, " lacks argument ", schema[i].name());
    result.arguments.push_back(*schema[i].default_value());
  }
  TORCH_CHECK(result.arguments.size() == schema.size(), "the sample of ", op, " has too many arguments");
  return result;
}

at::Tensor f32(at::IntArrayRef sizes) { return torch::randn(sizes); }
at::Tensor f64(at::IntArrayRef sizes) { return torch::randn(sizes, torch::kDouble); }
at::Tensor i64(at::IntArrayRef sizes, int64_t below) { return torch::randint(below, sizes, torch::kLong); }
c10::IValue ints(std::vector<int64_t> values) { return c10::IValue(std::move(values)); }

c10::IValue bools(std::vector<bool> values) {
  c10::List<bool> list;
  for (const bool value : values) list.push_back(value);
  return c10::IValue(std::move(list));
}

at::Tensor channels_last(const at::Tensor& tensor) {
  return tensor.contiguous(tensor.dim() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast);
}

std::vector<Layout> nonempty_layouts(const at::Tensor& tensor) {
  std::vector<Layout> result = {{tensor, "contiguous"}};
  if (tensor.dim() == 0) return result;
  const int64_t last = tensor.dim() - 1;
  if (last > 0) result.push_back({tensor.transpose(0, last).contiguous().transpose(0, last), "transposed"});
  if (last > 1) result.push_back({tensor.transpose(1, last).contiguous().transpose(1, last), "inner transposed"});
  result.push_back({tensor.repeat_interleave(2, last).slice(last, 0, c10::nullopt, 2), "with gaps"});
  result.push_back({tensor.slice(0, 0, 1).expand_as(tensor), "expanded"});
  if (tensor.dim() == 4 || tensor.dim() == 5) result.push_back({channels_last(tensor), "channels last"});
  return result;
}

std::vector<Layout> layouts(const at::Tensor& tensor) {
  auto result = nonempty_layouts(tensor);
  if (tensor.dim() > 0) result.push_back({tensor.slice(0, 0, 0).clone(), "empty"});
  return result;
}

Samples all_samples() {
  Samples all;
  for (const auto& family : {pointwise_samples(), activation_samples(), embedding_samples(), norm_samples(),
                             attention_samples(), convolution_samples(), pool_samples(), loss_samples(),
                             recurrent_samples(), reduction_samples(), indexing_samples(), random_samples(),
                             fft_samples(), linalg_samples(), spatial_samples(), structured_samples()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

}  // namespace diptych::test
