#include "samples/judges.h"

#include <gtest/gtest.h>

#include "backends/native/kernel_noise.h"
#include "backends/native/lowering_check.h"
#include "backends/xla/xla_check.h"
#include "diptych/graph/print.h"
#include "diptych/interpreter/program.h"
#include "testing/as_near.h"

namespace diptych::test {

using namespace detail;
using testing::Judge;

namespace {

Judge judge_of(const SharedCall& call) {
  return {[call](const Tensors& inputs) { return call->results_of(inputs); }, call->inputs()};
}

// The results that are defined, for these are the outputs of a graph.
std::vector<std::pair<size_t, at::Tensor>> defined_results(const SampledCall& call) {
  std::vector<std::pair<size_t, at::Tensor>> defined;
  for (size_t i = 0; i < call.results().size(); ++i) {
    if (call.results()[i].defined()) defined.emplace_back(i, call.results()[i]);
  }
  return defined;
}

::testing::AssertionResult xla_is_right(const SharedCall& call, const Tensors& results) {
  Judge judge = judge_of(call);
  size_t next = 0;
  for (const auto& [index, eager] : defined_results(*call)) {
    const at::Tensor got = results.at(next++);
    if (got.scalar_type() != eager.scalar_type() || got.sizes() != eager.sizes()) {
      return ::testing::AssertionFailure() << "is " << described({got}) << ", expected " << described({eager});
    }
    const bool has_strides = got.numel() < 2 || got.strides() == eager.strides();
    if (eager.is_non_overlapping_and_dense() && !has_strides) {
      return ::testing::AssertionFailure() << "lies as " << described({got}) << ", expected " << described({eager});
    }
    const double tolerance = testing::xla_tolerance(eager.scalar_type());
    if (tolerance == 0 ? at::equal(got, eager) : at::allclose(got, eager, tolerance, tolerance, true)) continue;
    if (const auto right = judge.is_right(got, eager, index); !right) {
      return ::testing::AssertionFailure() << "result " << index << " " << right.message();
    }
  }
  return ::testing::AssertionSuccess();
}

// XLA may take numbers below the least normal one for zeros.
Tensors without_denormals(Tensors tensors) {
  for (at::Tensor& tensor : tensors) {
    if (!tensor.is_floating_point() || !tensor.is_non_overlapping_and_dense()) continue;
    const double least = tensor.scalar_type() == at::kDouble ? std::numeric_limits<double>::min()
                                                             : double{std::numeric_limits<float>::min()};
    tensor = tensor.masked_fill(tensor.abs().lt(least), 0);
  }
  return tensors;
}

Tensors run_xla(const std::vector<SharedCall>& calls) {
  CallGraph all(calls);
  all.finish();
  return XlaBackend().compile(all.graph)->run(std::move(all.inputs));
}

// The same bits but for those of NaN, which differ with where an element lies in memory.
bool is_same(const at::Tensor& got, const at::Tensor& eager) {
  if (same_bits(got, eager)) return true;
  if (got.scalar_type() != eager.scalar_type() || got.sizes() != eager.sizes() || !testing::is_inexact(got))
    return false;
  return same_bits(at::nan_to_num(got, 0, kInf, -kInf), at::nan_to_num(eager, 0, kInf, -kInf)) &&
         at::isnan(got).equal(at::isnan(eager));
}

}  // namespace

void judge_by_interpreter(const SharedCall& call) {
  CallGraph one({call});
  one.finish();
  const Program program(one.graph);
  at::manual_seed(kDrawSeed);
  const Tensors results = program.run(std::move(one.inputs));
  size_t next = 0;
  for (const auto& [index, eager] : defined_results(*call)) {
    const at::Tensor& got = results.at(next++);
    EXPECT_TRUE((is_same(got, eager) || !call->is_whole(index)) && got.strides() == eager.strides())
        << "by the interpreter, result " << index << " of " << call->where() << "is " << described({got})
        << "\nexpected " << described({eager});
  }
}

bool NativeJudge::takes(const SharedCall& call) {
  CallGraph one({call});
  if (!is_lowered_to_kernels(one.graph, one.graph.nodes()[0])) return false;
  one.copy_sparse_results({call});
  one.finish();
  return lower_group(one.graph).has_value();
}

void NativeJudge::judge(const SharedCall& call) {
  CallGraph one({call});
  one.copy_sparse_results({call});
  one.finish();
  const auto kernel = lower_group(one.graph);
  EXPECT_FALSE(find_problem(*kernel)) << print(*kernel) << call->where();
  const Tensors ours = testing::run_lowered(*kernel, one.graph, one.inputs);
  Judge judge = judge_of(call);
  size_t next = 0;
  for (const auto& [index, eager] : defined_results(*call)) {
    const size_t k = next++;
    const auto moved = [&] { return testing::rounding_of(*kernel, one.inputs, ours, k); };
    EXPECT_TRUE(judge.is_right(ours[k], eager, index, moved))
        << "by the evaluator, result " << index << " of " << call->where() << print(*kernel);
  }
  if (codegen_problem(*kernel)) return;
  // What has no code together with those before, or runs along dims of its own, is another kernel.
  waiting_.push_back(call);
  CallGraph together(waiting_);
  together.copy_sparse_results(waiting_);
  together.finish();
  const auto joined = lower_group(together.graph);
  const bool runs_alike = joined && joined->extents.size() == kernel->extents.size() && !has_check(*kernel, one.graph);
  if (runs_alike && !codegen_problem(*joined) && together.graph.outputs().size() < 40) return;
  waiting_.pop_back();
  run_code();
  waiting_.push_back(call);
}

void NativeJudge::run_code() {
  if (waiting_.empty()) return;
  CallGraph all(waiting_);
  all.copy_sparse_results(waiting_);
  all.finish();
  const auto kernel = lower_group(all.graph);
  const Tensors ours = testing::run_code(*kernel, all.graph, all.inputs, false);
  size_t next = 0;
  for (const SharedCall& call : waiting_) {
    Judge judge = judge_of(call);
    for (const auto& [index, eager] : defined_results(*call)) {
      const size_t k = next++;
      const auto moved = [&] { return testing::rounding_of(*kernel, all.inputs, ours, k); };
      EXPECT_TRUE(judge.is_right(ours[k], eager, index, moved))
          << "by machine code, result " << index << " of " << call->where();
    }
  }
  waiting_.clear();
}

void NativeJudge::finish() { run_code(); }

bool XlaJudge::takes(const SharedCall& call) {
  const CallGraph one({call});
  return XlaBackend().supports(one.graph, one.graph.nodes()[0]);
}

void XlaJudge::judge(const SharedCall& call) {
  waiting_.push_back(call);
  if (waiting_.size() == 32) finish();
}

void XlaJudge::finish() {
  if (waiting_.empty()) return;
  const std::vector<SharedCall> calls = std::move(waiting_);
  waiting_.clear();
  try {
    Tensors results = run_xla(calls);
    size_t next = 0;
    for (const SharedCall& call : calls) {
      const size_t count = defined_results(*call).size();
      const auto begin = results.begin() + static_cast<int64_t>(next);
      auto right = xla_is_right(call, {begin, begin + static_cast<int64_t>(count)});
      if (!right) {
        const auto plain = call->with_inputs(without_denormals(call->inputs()));
        right = xla_is_right(plain, run_xla({plain}));
      }
      EXPECT_TRUE(right) << "by XLA, " << call->where();
      next += count;
    }
  } catch (const std::exception& error) {
    if (calls.size() == 1) {
      ADD_FAILURE() << "by XLA, " << calls[0]->where() << std::string(error.what()).substr(0, 600);
      return;
    }
    for (const SharedCall& call : calls) {  // which it is
      waiting_ = {call};
      finish();
    }
  }
}

}  // namespace diptych::test
