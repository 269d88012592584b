// Texts that codegen writes for another machine: they are assembled for it, and never run, as there was no such
// machine.
#include <fmt/format.h>
#include <torch/types.h>

#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "backends/native/cross_assembly.h"
#include "backends/native/lowering_check.h"
#include "backends/native/parse_kernel.h"
#include "backends/native/random_row_kernel.h"
#include "diptych/compile/aot.h"
#include "samples/cases.h"
#include "testing/expect_error.h"
#include "testing/rotation.h"

namespace diptych::testing {
namespace {

using namespace detail;

const HostTarget kArm{"aarch64-unknown-linux-gnu", "generic", "+neon", 16};

/// Kernels for Arm as one module, each once.
class ArmModule {
 public:
  // `kernel` as text, since a kernel of this process is only to be had so, too.
  void add(const std::string& kernel) {
    const std::string body = kernel.substr(kernel.find('('));
    if (!known_.insert(body).second) return;
    Kernel parsed = parse_kernel(kernel);
    parsed.name = fmt::format("k{}", known_.size());
    const auto problem = codegen_problem(parsed, code_target(kArm));
    // What has code here has code there.
    if (host_code_target().has_sleef) EXPECT_EQ(problem, codegen_problem(parsed));
    if (problem) return;
    for (const std::string& text : llvm_modules(parsed, code_target(kArm))) add_text(text);
    ++kernels_;
  }

  size_t kernels() const { return kernels_; }
  std::string text() const {
    std::string all;
    for (const std::string& line : declarations_) all += line + "\n";
    return all + functions_;
  }

 private:
  // Modules that are joined declare each function once.
  void add_text(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("declare ")) {
        declarations_.insert(line);
      } else {
        functions_ += line + "\n";
      }
    }
  }

  std::set<std::string> known_, declarations_;
  std::string functions_;
  size_t kernels_ = 0;
};

// Expects that each instruction is one that Arm has, and that what is called is there.
void expect_assembles(const ArmModule& module, size_t least_kernels) {
  EXPECT_GE(module.kernels(), least_kernels);
  const std::string text = module.text();
  EXPECT_EQ(text.find("llvm.x86"), text.npos);
  // SLEEF's functions of a vector of 16 bytes.
  const std::regex call("@Sleef_[a-z0-9]+([fd])([0-9]+)_u[0-9]+\\(");
  for (std::sregex_iterator match(text.begin(), text.end(), call), end; match != end; ++match) {
    EXPECT_EQ((*match)[2], (*match)[1] == "f" ? "4" : "2") << match->str();
  }
  const auto assembly = cross_assembly(text, "aarch64-linux-gnu");
  if (!assembly) GTEST_SKIP() << "llc-19 is not installed";
  ASSERT_NE(*assembly, "") << "llc refuses the text";
  expect_contains(*assembly, {"\nk", ".4s"});
}

void add_kernels_of(const std::function<at::Tensor(const Tensors&)>& function, const Tensors& inputs,
                    ArmModule& module) {
  const auto compiled = aot_function([&](const Tensors& given) { return function(given); }, {.backend = "native"});
  const at::Tensor result = compiled(inputs);
  if (result.requires_grad()) result.sum().backward();
  for (const NativeGraph& graph : compiled.native_graphs()) {
    for (const NativeKernel& kernel : graph.kernels()) {
      EXPECT_EQ(kernel.problem(), "");
      if (!kernel.code().empty()) module.add(kernel.code());
    }
  }
}

TEST(ArmCode, OfFunctionsAndTheirGradientsAssembles) {
  const at::Tensor classes = torch::tensor({1, 0, 30, 7, 5, 5}), places = torch::tensor({3, 0, 3, 2, 5, 1});
  const auto embedded = [&](const at::Tensor& x) { return torch::embedding(x, places); };
  using Function = std::function<at::Tensor(const Tensors&)>;
  const std::vector<Function> functions = {
      [](const Tensors& t) { return torch::softmax(t[0], -1) * t[1]; },
      [](const Tensors& t) { return torch::log_softmax(t[0] + t[1], 0); },
      [](const Tensors& t) { return torch::layer_norm(t[0], {33}, t[2], t[3]) * t[1]; },
      [](const Tensors& t) { return torch::gelu(t[0] * t[2]).sum(0) + torch::silu(t[1]).mean(); },
      [&](const Tensors& t) { return torch::cross_entropy_loss(t[0] * t[1], classes); },
      [&](const Tensors& t) { return torch::tanh(embedded(t[0]) * t[1]); },
      [&](const Tensors& t) { return t[0].index_add(0, places, torch::sin(t[1])); },
      [](const Tensors& t) {
        return torch::cat({t[0], t[1]}, 1).pow(2).flip(0).cos() * 2;
      },
      [](const Tensors& t) { return std::get<0>(torch::max(t[0] * t[1], 1)) + torch::argmin(t[1], 1); },
      [](const Tensors& t) { return torch::where(t[0] > t[1], torch::erfinv(t[0].tanh()), torch::atan2(t[0], t[1])); },
      [](const Tensors& t) { return torch::var(t[0] * t[1], {0}, true) + torch::logsumexp(t[1], 0); }};
  ArmModule module;
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (size_t i = 0; i < functions.size(); ++i) {
      if (!takes_sample(fmt::format("function {}", i))) continue;
      Tensors inputs;
      for (const auto& sizes : std::vector<std::vector<int64_t>>{{6, 33}, {6, 33}, {33}, {33}}) {
        inputs.push_back(torch::rand(sizes).to(dtype).requires_grad_());
      }
      add_kernels_of(functions[i], inputs, module);
    }
  }
  expect_assembles(module, part_of_run().is_whole() ? 60 : 20);
}

// The kernel of one operator, if there is one.
void add_kernel_of(const OperatorCase& c, at::ScalarType dtype, ArmModule& module) {
  GraphWriter writer;
  std::map<OperandKind, Value> known;
  const auto input = [&](OperandKind kind) {
    const auto [found, is_new] = known.try_emplace(kind);
    if (is_new) found->second = writer.input(plain_sample(kind, dtype));
    return found->second;
  };
  std::vector<Operand> operands;
  for (const Argument& argument : c.arguments) {
    if (const auto* one = std::get_if<OperandKind>(&argument)) {
      operands.emplace_back(input(*one));
    } else if (const auto* constant = std::get_if<Operand>(&argument)) {
      operands.push_back(*constant);
    } else {
      ValueList list;
      for (const OperandKind kind : std::get<std::vector<OperandKind>>(argument)) list.push_back(input(kind));
      operands.emplace_back(list);
    }
  }
  std::vector<Value> outputs;
  try {
    outputs = writer.call_all(c.op, operands);
  } catch (const std::exception&) {
    return;  // eager has no result
  }
  if (const auto kernel = lower_group(writer.finish(outputs))) module.add(print(*kernel));
}

TEST(ArmCode, OfOperatorsAssembles) {
  ArmModule module;
  for (const auto& cases :
       {pointwise_cases(), activation_cases(), reduction_cases(), moving_cases(), indexing_cases()}) {
    for (const OperatorCase& c : cases) {
      for (const auto dtype : {at::kFloat, at::kLong}) {
        if (has_dtype(c.dtypes, dtype) && takes_sample(c.op)) add_kernel_of(c, dtype, module);
      }
    }
  }
  expect_assembles(module, part_of_run().is_whole() ? 200 : 120);
}

TEST(ArmCode, OfRandomKernelsAssembles) {
  ArmModule module;
  const auto seeds = rotating_seeds(0, 150);
  for (const uint32_t seed : seeds) {
    RandomRowKernel random(seed);
    random.make();
    module.add(print(random.kernel));
  }
  expect_assembles(module, share_of(seeds.size(), 100, 150));
}

}  // namespace
}  // namespace diptych::testing
