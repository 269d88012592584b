// Every row of a table of rules is compared with eager by some sample: by what left_to_the_interpreter.txt leaves.
#include <fmt/format.h>

#include <map>
#include <set>

#include "diptych/native/lower/kernel_row.h"
#include "diptych/ops/shapes_table.h"
#include "diptych/ops/tags.h"
#include "diptych/xla/hlo/lowering.h"
#include "samples/families.h"
#include "samples/judge_shapes.h"
#include "samples/left.h"

namespace diptych::test {

using namespace detail;
namespace {

bool is_complex(const OpSample& sample) {
  const auto is_complex_tensor = [](const at::Tensor& tensor) { return tensor.defined() && tensor.is_complex(); };
  const auto handle = sample.handle();
  for (size_t i = 0; i < sample.arguments.size(); ++i) {
    const c10::IValue& argument = sample.arguments[i];
    if (argument.isComplexDouble()) return true;
    if (argument.isTensor() && is_complex_tensor(argument.toTensor())) return true;
    const Tensors list = argument.isTensorList() ? argument.toTensorVector() : Tensors();
    if (std::any_of(list.begin(), list.end(), is_complex_tensor)) return true;
    const bool is_dtype = handle.schema().arguments()[i].name() == "dtype" && argument.isInt();
    if (is_dtype && at::isComplexType(argument.toScalarType())) return true;
  }
  return false;
}

// The operators of samples that are compared, and of whatever a shape function answers.
struct Operators {
  std::set<std::string> native, native_complex, xla, shapes;
};

Operators find_operators() {
  const OneThread calls_are_small;
  Operators found;
  LeftSamples left = read_left_samples();
  for (const Family& family : families()) {
    std::map<std::string, int> numbers;
    auto& judges = left[family.name];
    const Samples samples = family.samples();
    for (const OpSample& sample : samples) {
      const int number = numbers[sample.op]++;
      const auto takes = [&](const char* judge) { return !judges[judge][sample.op].contains(number); };
      if (!takes("eager")) continue;
      if (takes("native")) found.native.insert(sample.op);
      if (takes("native") && is_complex(sample)) found.native_complex.insert(sample.op);
      if (takes("xla")) found.xla.insert(sample.op);
    }
    found.shapes.merge(operators_answered(samples));
  }
  return found;
}

const Operators& operators() {
  static const Operators found = find_operators();
  return found;
}

TEST(SampleRows, EveryKernelRowIsComparedWithEager) {
  for (const KernelRow* const row : all_kernel_rows()) {
    EXPECT_TRUE(operators().native.contains(std::string(row->op))) << row->op;
  }
}

TEST(SampleRows, EveryKernelRowOfComplexNumbersIsComparedWithEagerOnSuch) {
  for (const KernelRow* const row : all_kernel_rows()) {
    const bool makes_complex = row->op == "aten.complex" || row->op == "aten.polar";
    if (!row->takes_complex || makes_complex) continue;
    EXPECT_TRUE(operators().native_complex.contains(std::string(row->op))) << row->op;
  }
}

TEST(SampleRows, EveryLoweringToXlaIsComparedWithEager) {
  for (const LoweringRow* const row : all_lowerings()) {
    const bool is_operator = row->op.starts_with("aten.");
    if (is_operator && !leaves_values_unset(Op::find(row->op)))
      EXPECT_TRUE(operators().xla.contains(std::string(row->op))) << row->op;
  }
}

// Their results are sparse, and no shape to compare; tests/python/results runs these.
bool makes_sparse_gradient(std::string_view name) {
  return name.find("sparse") != name.npos || name == "aten::_embedding_bag_backward";
}

TEST(SampleRows, EveryShapeFunctionAnswersSomeSample) {
  for (const auto& row : all_shape_rows()) {
    const size_t colons = row.name.find("::");
    const std::string_view space = row.name.substr(0, colons), name = row.name.substr(colons + 2);
    if (makes_sparse_gradient(row.name) || space != "aten") continue;  // of others tests/distributed runs some
    const size_t dot = row.name.find('.');
    const std::string overload = dot == row.name.npos ? "" : std::string(row.name.substr(dot + 1));
    const c10::OperatorName there(std::string(row.name.substr(0, dot)), overload);
    if (!c10::Dispatcher::singleton().findSchema(there)) continue;  // gone in some torch
    EXPECT_TRUE(operators().shapes.contains(fmt::format("aten.{}", name))) << row.name;
  }
}

}  // namespace
}  // namespace diptych::test
