#include "samples/sample.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

namespace diptych::test {

c10::OperatorHandle OpSample::handle() const {
  const size_t begin = op.find('.') + 1, dot = op.find('.', begin);
  const std::string overload = dot == op.npos ? "" : op.substr(dot + 1);
  const std::string name = op.substr(0, begin - 1) + "::" + op.substr(begin, dot - begin);
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
}

OpSample sample(const std::string& op, std::vector<c10::IValue> arguments, const std::string& note) {
  OpSample result{op, std::move(arguments), note};
  const auto handle = result.handle();
  const auto& schema = handle.schema().arguments();
  for (size_t i = 0; i < result.arguments.size() && i < schema.size(); ++i) {
    c10::IValue& argument = result.arguments[i];
    if (argument.isTensorList() && !schema[i].type()->isSubtypeOf(*c10::ListType::ofTensors())) {
      argument = optional_tensors(argument.toTensorVector());
    }
  }
  for (size_t i = result.arguments.size(); i < schema.size(); ++i) {
    TORCH_CHECK(schema[i].default_value().has_value(), "the sample of ", op, " lacks argument ", schema[i].name());
    result.arguments.push_back(*schema[i].default_value());
  }
  TORCH_CHECK(result.arguments.size() == schema.size(), "the sample of ", op, " has too many arguments");
  // The random numbers of a sample follow from the one before it, whatever else there is.
  at::manual_seed(std::hash<std::string>()(op + note));
  return result;
}

OneThread::OneThread() : threads_(at::get_num_threads()) { at::set_num_threads(1); }
OneThread::~OneThread() { at::set_num_threads(threads_); }

void add(Samples& samples, const std::string& op, std::vector<c10::IValue> arguments) {
  samples.push_back(sample(op, std::move(arguments)));
}

void add(Samples& samples, const std::string& op, const Tensors& tensors, const std::vector<c10::IValue>& rest) {
  std::vector<c10::IValue> arguments(tensors.begin(), tensors.end());
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  add(samples, op, std::move(arguments));
}

c10::Stack eager(const OpSample& sample) {
  c10::Stack stack = sample.arguments;
  sample.handle().callBoxed(stack);
  return stack;
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

c10::IValue optional_tensors(const Tensors& tensors) {
  c10::List<std::optional<at::Tensor>> list;
  for (const at::Tensor& tensor : tensors) list.push_back(tensor.defined() ? std::optional(tensor) : std::nullopt);
  return list;
}

at::Tensor channels_last(const at::Tensor& tensor) {
  return tensor.contiguous(tensor.dim() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast);
}

bool is_number(const at::Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number();
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

}  // namespace diptych::test
