// Every operator that kernels have, beside eager: dtypes, promotion, special values.
#include <algorithm>
#include <map>
#include <set>

#include "backends/native/kernel_noise.h"
#include "backends/native/lowering_check.h"
#include "backends/native/operator_cases.h"
#include "diptych/native/codegen/compiled_kernel.h"
#include "diptych/native/lower/kernel_row.h"
#include "testing/as_near.h"

namespace diptych {
namespace {

using namespace detail;
using testing::GraphWriter;
using testing::OperatorCase;
using testing::Sample;
using testing::Tensors;

const std::vector<at::ScalarType> kDtypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                             at::kLong,  at::kInt,    at::kByte, at::kBool};

// Calls with the same samples share them.
using Samples = std::map<Sample, Value>;

Value input_of(GraphWriter& writer, Sample sample, at::ScalarType dtype, Samples& known) {
  const auto [found, is_new] = known.try_emplace(sample);
  if (is_new) found->second = writer.input(testing::sample(sample, dtype));
  return found->second;
}

Operand operand_of(GraphWriter& writer, const testing::Argument& argument, at::ScalarType dtype, Samples& known) {
  if (const auto* sample = std::get_if<Sample>(&argument)) return input_of(writer, *sample, dtype, known);
  if (const auto* constant = std::get_if<Operand>(&argument)) return *constant;
  ValueList list;
  for (const Sample sample : std::get<std::vector<Sample>>(argument))
    list.push_back(input_of(writer, sample, dtype, known));
  return list;
}

std::string described(const OperatorCase& c, at::ScalarType dtype) {
  std::string text = c.op + " of " + dtype_name(dtype) + " with";
  for (const auto& argument : c.arguments) {
    const auto* constant = std::get_if<Operand>(&argument);
    const auto* value = constant ? std::get_if<c10::IValue>(constant) : nullptr;
    if (value) text += " " + c10::str(*value);
  }
  return text;
}

// Calls of a case as a function of its samples.
class SampledCase {
 public:
  SampledCase(const OperatorCase& c, at::ScalarType dtype) : case_(c), dtype_(dtype) {
    GraphWriter writer;
    Samples known;
    for (const auto& argument : c.arguments) operand_of(writer, argument, dtype, known);
    for (const auto& [sample, value] : known) inputs_.push_back(writer.tensor(value)), samples_.push_back(sample);
  }

  testing::Judge judge() const {
    return {[*this](const Tensors& inputs) { return results(inputs); }, inputs_};
  }

 private:
  Tensors results(const Tensors& inputs) const {
    GraphWriter writer;
    Samples known;
    for (size_t i = 0; i < samples_.size(); ++i) known.emplace(samples_[i], writer.input(inputs[i]));
    std::vector<Operand> operands;
    for (const auto& argument : case_.arguments) operands.push_back(operand_of(writer, argument, dtype_, known));
    return writer.tensors(writer.call_all(case_.op, operands));
  }

  OperatorCase case_;
  at::ScalarType dtype_;
  Tensors inputs_;
  std::vector<Sample> samples_;
};

// Compares with eager. Results that are views with gaps are copied, as kernels do not write such.
void compare(GraphWriter& writer, std::vector<Value> outputs, testing::Judge judge) {
  for (Value& output : outputs) {
    if (!writer.tensor(output).is_non_overlapping_and_dense())
      output = writer.call("aten.clone", {output, c10::IValue(at::MemoryFormat::Contiguous)});
  }
  std::string why;
  const auto kernel = testing::lowered(writer, outputs, &why);
  ASSERT_TRUE(kernel) << why;
  const Tensors ours = testing::run_lowered(*kernel, writer.graph(), writer.inputs());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const at::Tensor eager = writer.tensor(outputs[i]);
    EXPECT_EQ(ours[i].strides(), eager.strides());
    const auto moved = [&] { return testing::rounding_of(*kernel, writer.inputs(), ours, i); };
    EXPECT_TRUE(judge.is_right(ours[i], eager, i, moved)) << print(*kernel);
  }
}

// Whether eager has a result, which then is compared.
bool compare_with_eager(const OperatorCase& c, at::ScalarType dtype) {
  SCOPED_TRACE(described(c, dtype));
  GraphWriter writer;
  Samples known;
  std::vector<Operand> operands;
  for (const auto& argument : c.arguments) operands.push_back(operand_of(writer, argument, dtype, known));
  std::vector<Value> outputs;
  try {
    outputs = writer.call_all(c.op, operands);
  } catch (const std::exception&) {
    return false;
  }
  const bool is_lowered = is_lowered_to_kernels(writer.graph(), writer.graph().nodes()[0]);
  const bool may_be = has_dtype(kComplexes, dtype) && is_lowered;
  if (!has_dtype(c.lowered, dtype) && !may_be) return true;  // some of these have a kernel, others not
  EXPECT_TRUE(is_lowered);
  if (is_lowered) compare(writer, outputs, SampledCase(c, dtype).judge());
  return true;
}

void compare_all(const std::vector<OperatorCase>& cases) {
  for (const OperatorCase& c : cases) {
    int results = 0;
    for (const auto dtype : kDtypes) results += has_dtype(c.tried, dtype) && compare_with_eager(c, dtype) ? 1 : 0;
    EXPECT_GT(results, 0) << "eager has no result of " << c.op;
  }
}

TEST(LowerOperators, PointwiseOperatorsComputeWhatEagerComputes) { compare_all(testing::pointwise_cases()); }
TEST(LowerOperators, ActivationsAndTheirGradientsComputeWhatEagerComputes) { compare_all(testing::activation_cases()); }
TEST(LowerOperators, ReductionsComputeWhatEagerComputes) { compare_all(testing::reduction_cases()); }
TEST(LowerOperators, WhatMakesOrMovesElementsDoesAsEager) { compare_all(testing::moving_cases()); }

std::vector<OperatorCase> all_cases() {
  std::vector<OperatorCase> all;
  for (const auto& cases : {testing::pointwise_cases(), testing::activation_cases(), testing::reduction_cases(),
                            testing::moving_cases(), testing::complex_cases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

TEST(LowerOperators, ComplexOperatorsComputeWhatEagerComputes) {
  std::set<std::string> compared;
  const auto compare_in = [&](const OperatorCase& c, std::initializer_list<at::ScalarType> dtypes) {
    for (const auto dtype : dtypes) {
      if (compare_with_eager(c, dtype)) compared.insert(c.op);
    }
  };
  for (const OperatorCase& c : all_cases()) compare_in(c, {at::kComplexFloat, at::kComplexDouble});
  for (const OperatorCase& c : testing::complex_cases()) compare_in(c, {at::kFloat, at::kDouble});
  for (const KernelRow* const row : all_kernel_rows()) {
    if (row->takes_complex) EXPECT_TRUE(compared.count(std::string(row->op))) << row->op;
  }
}

// Many operators of one dtype as machine code.
class CompiledOperators {
 public:
  explicit CompiledOperators(at::ScalarType dtype) : dtype_(dtype) {}

  void add(const OperatorCase& c) {
    const auto make = [&](GraphWriter& writer, Samples& known) {
      std::vector<Operand> operands;
      for (const auto& argument : c.arguments) operands.push_back(operand_of(writer, argument, dtype_, known));
      return writer.call_all(c.op, operands);
    };
    GraphWriter alone;
    Samples own;
    try {
      const auto kernel = lower_group(alone.finish(make(alone, own)));
      if (!kernel || codegen_problem(*kernel)) return;
    } catch (const std::exception&) {
      return;  // eager has no result
    }
    // What has no code together with those before is another kernel.
    GraphWriter together = writer_;
    Samples known = shared_;
    auto all = outputs_;
    for (const Value output : make(together, known)) all.push_back(output);
    const auto joined = lower_group(together.finish(all));
    if (!joined || codegen_problem(*joined)) check();
    const auto outputs = make(writer_, shared_);
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs_.push_back(outputs[i]);
      of_.push_back({c, i});
    }
    if (outputs_.size() >= 40) check();
  }

  void check() {
    if (outputs_.empty()) return;
    const auto kernel = testing::lowered(writer_, outputs_);
    ASSERT_TRUE(kernel);
    ASSERT_EQ(codegen_problem(*kernel), std::nullopt) << print(*kernel);
    std::vector<void*> read, written;
    Tensors ours;
    for (const at::Tensor& input : writer_.inputs()) read.push_back(input.data_ptr());
    for (const Value output : outputs_) {
      ours.push_back(at::empty_like(writer_.tensor(output)));
      written.push_back(ours.back().data_ptr());
    }
    compile_kernel(*kernel)->run(read.data(), written.data(), {});
    for (size_t i = 0; i < ours.size(); ++i) {
      const at::Tensor eager = writer_.tensor(outputs_[i]);
      const auto moved = [&] { return testing::rounding_of(*kernel, writer_.inputs(), ours, i); };
      EXPECT_TRUE(SampledCase(of_[i].of, dtype_).judge().is_right(ours[i], eager, of_[i].index, moved))
          << described(of_[i].of, dtype_);
    }
    compared += ours.size();
    writer_ = GraphWriter();
    shared_.clear();
    outputs_.clear();
    of_.clear();
  }
  size_t compared = 0;

 private:
  at::ScalarType dtype_;
  GraphWriter writer_;
  Samples shared_;
  std::vector<Value> outputs_;
  struct ResultOf {
    OperatorCase of;
    size_t index;
  };
  std::vector<ResultOf> of_;  // the outputs, one by one
};

TEST(LowerOperators, CompiledOperatorsComputeWhatEagerComputes) {
  for (const auto dtype : kDtypes) {
    CompiledOperators operators(dtype);
    auto cases = testing::pointwise_cases();
    const auto append = [&](const std::vector<OperatorCase>& more) {
      cases.insert(cases.end(), more.begin(), more.end());
    };
    append(testing::activation_cases());
    if (dtype == at::kFloat) append(testing::reduction_cases());  // a kernel each: enough for one dtype
    for (const OperatorCase& c : cases) {
      if (has_dtype(c.tried, dtype)) operators.add(c);
    }
    operators.check();
    EXPECT_GT(operators.compared, 40U) << dtype_name(dtype);
  }
}

TEST(LowerOperators, CompiledComplexOperatorsComputeWhatEagerComputes) {
  for (const auto dtype : {at::kComplexFloat, at::kComplexDouble}) {
    CompiledOperators operators(dtype);
    for (const OperatorCase& c : all_cases()) operators.add(c);
    operators.check();
    EXPECT_GT(operators.compared, 40U) << dtype_name(dtype);
  }
}

TEST(LowerOperators, EveryRowHasACase) {
  std::set<std::string> tested;
  for (const auto& cases : {testing::pointwise_cases(), testing::activation_cases(), testing::reduction_cases(),
                            testing::moving_cases(), testing::indexing_cases(), testing::complex_cases()}) {
    for (const OperatorCase& c : cases) tested.insert(c.op);
  }
  for (const KernelRow* const row : all_kernel_rows()) EXPECT_TRUE(tested.count(std::string(row->op))) << row->op;
}

TEST(LowerOperators, ExpandedOperandsAreReadWhereTheyAre) {
  GraphWriter w;
  const Value x = w.input(testing::values({4, 1}));
  const Value y = w.call("aten.neg", {w.call("aten.expand", {x, testing::ints({3, 4, 5})})});
  EXPECT_TRUE(testing::like_eager(w, {y}));
}

TEST(LowerOperators, DropoutPassesTheGradientOfWhatItKept) {
  GraphWriter w;
  const Value g = w.input(testing::values({4, 3})), mask = w.input(testing::values({4, 3}, 1).gt(0));
  const Value y = w.call("aten.native_dropout_backward", {g, mask, c10::IValue(1.25)});
  EXPECT_TRUE(testing::like_eager(w, {y}));
}

// Operands of all pairs of dtypes, with and without dims.
TEST(LowerOperators, OperandsArePromotedAsEagerPromotesThem) {
  const std::vector<std::string> ops = {"add.Tensor", "mul.Tensor", "div.Tensor",        "maximum", "lt.Tensor",
                                        "eq.Tensor",  "where.self", "pow.Tensor_Tensor", "atan2"};
  for (const std::string& op : ops) {
    for (const auto a : kDtypes) {
      for (const auto b : kDtypes) {
        for (const bool is_scalar : {false, true}) {
          SCOPED_TRACE(op + " of " + dtype_name(a) + " and " + dtype_name(b) + (is_scalar ? " without dims" : ""));
          GraphWriter w;
          std::vector<Operand> operands = {w.input(testing::sample(Sample::kBlock, a)),
                                           w.input(testing::sample(is_scalar ? Sample::kScalar : Sample::kBlock2, b))};
          if (op == "where.self") operands.insert(operands.begin(), w.input(testing::values({3, 4, 5}).gt(0)));
          std::vector<Value> outputs;
          try {
            outputs = w.call_all("aten." + op, operands);
          } catch (const std::exception&) {
            continue;
          }
          const auto again = [&](const Tensors& inputs) {
            GraphWriter other;
            std::vector<Operand> given;
            for (const at::Tensor& input : inputs) given.push_back(other.input(input));
            if (op == "where.self") std::rotate(given.begin(), given.end() - 1, given.end());
            return other.tensors(other.call_all("aten." + op, given));
          };
          compare(w, outputs, {again, w.inputs()});
        }
      }
    }
  }
}

TEST(LowerOperators, WhatEagerRaisesErrorsForIsNotLowered) {
  GraphWriter w;
  const Value x = w.input(at::arange(6).add(1)), y = w.input(at::arange(6).add(2));
  w.call("aten.div.Tensor_mode", {x, y, c10::IValue("floor")});
  w.call("aten.remainder.Tensor", {x, y});
  w.call("aten.fmod.Tensor", {x, y});
  const Graph graph = w.finish({x});
  for (const Node& node : graph.nodes()) EXPECT_FALSE(is_lowered_to_kernels(graph, node)) << node.op.name();
}

}  // namespace
}  // namespace diptych
