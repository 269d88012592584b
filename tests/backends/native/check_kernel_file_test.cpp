// Kernels that are checked, and run alone from the files of a report.
#include "diptych/native/report/check_kernel_file.h"

#include <torch/types.h>

#include <filesystem>
#include <regex>

#include "diptych/compile/aot.h"
#include "diptych/graph/safetensors.h"
#include "diptych/graph/serialize.h"
#include "diptych/native/call/kernel_check.h"
#include "diptych/native/native_backend.h"
#include "interpreter/graph_builder.h"
#include "testing/expect_error.h"

namespace diptych {

using namespace detail;
namespace {

using test::GraphBuilder;
using testing::expect_contains;
using testing::expect_error;
using testing::message_of;

// The body of x.sin() * y, with an input of each kind of strides.
Graph product(const at::Tensor& x, const at::Tensor& y) {
  GraphBuilder builder("fused_sin_mul");
  const Value a = builder.input(x), b = builder.input(y);
  return builder.finish({builder.node("aten.mul.Tensor", {builder.node("aten.sin", {a}), b})});
}

// The file that check_kernel() writes when it is given a wrong result.
std::string file_of_report(const at::Tensor& x, const at::Tensor& y) {
  const Graph body = product(x, y);
  const at::Tensor right = x.sin() * y;
  const std::string message = message_of<InternalError>([&] { check_kernel(body, {x, y}, {right + 1}, {right}); });
  std::smatch found;
  EXPECT_TRUE(std::regex_search(message, found, std::regex("diptych check-kernel (\\S+\\.graph)"))) << message;
  return found[1];
}

void remove_files(const std::string& path) {
  std::filesystem::remove(path);
  std::filesystem::remove(path.substr(0, path.size() - 6) + ".safetensors");
}

TEST(CheckKernelFile, RunsAKernelAlone) {
  const at::Tensor x = torch::randn({6, 4}), row = torch::randn({4});
  for (const at::Tensor& y : {torch::randn({6, 4}), torch::randn({4, 6}).t(), row.expand({6, 4})}) {
    const std::string path = file_of_report(x, y);
    const KernelFileReport report = check_kernel_file(path);
    EXPECT_FALSE(report.differs) << report.text;
    expect_contains(report.text, {"kernel fused_sin_mul", "kernel and interpreter     as it should be",
                                  "kernel and evaluator       as it should be"});
    remove_files(path);
  }
}

TEST(CheckKernelFile, RefusesWhatItCannotRun) {
  const std::string path = file_of_report(torch::ones({6, 4}), torch::ones({6, 4}));
  const std::string tensors = path.substr(0, path.size() - 6) + ".safetensors";
  save_tensors({{"input000", torch::ones({6, 4})}}, tensors);
  expect_error([&] { check_kernel_file(path); }, "has no input 1 of type f32[6,4]");
  GraphBuilder builder("body");
  const Value x = builder.input(torch::ones({6, 4})), y = builder.input(torch::ones({4, 6}));
  const Graph body = builder.finish({builder.node("aten.mm", {x, y})});
  save(body, path);
  save_tensors({{"input000", torch::ones({6, 4})}, {"input001", torch::ones({4, 6})}}, tensors);
  expect_error([&] { check_kernel_file(path); }, "[check_kernel_file] no kernel can be made of");
  save(GraphFile{{{"one", body}, {"two", body}}, {}}, path);
  expect_error([&] { check_kernel_file(path); }, "holds 2 graphs, expected the body of one kernel");
  remove_files(path);
}

TEST(CheckKernels, IsAnOptionOfAFunction) {
  const auto function = [](const at::Tensor& x) { return torch::tanh(x * x); };
  const auto compiled = aot_function(function, {.backend = "native", .check_kernels = true});
  const at::Tensor x = torch::randn({8, 8});
  EXPECT_TRUE(torch::allclose(compiled(x), function(x), 1e-5, 1e-6));
  EXPECT_FALSE(is_kernel_checked());
  {
    const KernelCheckScope checked;
    EXPECT_TRUE(is_kernel_checked());
  }
  const auto refused = aot_function(function, {.backend = "interpreter", .check_kernels = true});
  expect_error([&] { refused(x); }, "got check_kernels, but backend 'interpreter' has no kernels");
}

}  // namespace
}  // namespace diptych
