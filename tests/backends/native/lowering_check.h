// A group of nodes as a kernel, beside what eager computes.
#pragma once
#include "diptych/native/codegen/compiled_kernel.h"
#include "diptych/native/kernel/evaluate.h"
#include "diptych/native/kernel/print.h"
#include "diptych/native/kernel/verify.h"
#include "diptych/native/lower/lower_group.h"
#include "testing/graph_writer.h"
#include "testing/values.h"

namespace diptych::testing {

/// A constant operand.
inline Operand integer(int64_t value) { return c10::IValue(value); }

/// Runs a kernel on the inputs of a graph, by `run` of the buffers that it reads and writes; the outputs have the
/// graph's metadata. Expects that its check, if it has one, finds what `is_wrong` says.
template <class Run>
Tensors run_lowered_by(const Run& run, const Kernel& kernel, const Graph& graph, const Tensors& inputs, bool is_wrong) {
  std::vector<KernelMemory> read, written;
  Tensors outputs;
  for (const at::Tensor& input : inputs) read.push_back(KernelMemory::of(input));
  for (const Value output : graph.outputs()) {
    const TensorMeta& meta = graph.meta(output);
    outputs.push_back(at::empty_strided(meta.size_hints(), meta.stride_hints(), at::TensorOptions(meta.dtype)));
    written.push_back(KernelMemory::of(outputs.back()));
  }
  const at::Tensor check = at::zeros({}, at::kBool);
  if (has_check(kernel, graph)) written.push_back(KernelMemory::of(check));
  run(read, written);
  EXPECT_EQ(check.item<bool>(), is_wrong) << print(kernel);
  return outputs;
}

/// The same by the evaluator.
inline Tensors run_lowered(const Kernel& kernel, const Graph& graph, const Tensors& inputs, bool is_wrong = false) {
  const auto run = [&](const auto& read, const auto& written) { evaluate(kernel, read, written, {}); };
  return run_lowered_by(run, kernel, graph, inputs, is_wrong);
}

/// The kernel of all nodes that were written; it verifies.
inline std::optional<Kernel> lowered(GraphWriter& writer, const std::vector<Value>& outputs,
                                     std::string* why = nullptr) {
  const auto kernel = lower_group(writer.finish(outputs), why);
  if (kernel) EXPECT_FALSE(find_problem(*kernel)) << print(*kernel);
  return kernel;
}

/// Whether the kernel of all nodes computes what eager did.
inline ::testing::AssertionResult like_eager(GraphWriter& writer, const std::vector<Value>& outputs,
                                             Likeness how = {}) {
  std::string why;
  const auto kernel = lowered(writer, outputs, &why);
  if (!kernel) return ::testing::AssertionFailure() << "no kernel: " << why << "\n" << writer.graph().code();
  how.equal_nan = true;
  const auto same = same_tensors(run_lowered(*kernel, writer.graph(), writer.inputs()), writer.tensors(outputs), how);
  return same ? same : ::testing::AssertionFailure() << same.message() << "\n" << print(*kernel);
}

/// Runs a kernel's machine code. `is_wrong`: what its check is expected to find.
inline Tensors run_code(const Kernel& kernel, const Graph& graph, const Tensors& inputs, bool is_wrong) {
  const auto run = [&](const std::vector<KernelMemory>& read, const std::vector<KernelMemory>& written) {
    std::vector<void*> from, to;
    for (const auto& memory : read) from.push_back(memory.data);
    for (const auto& memory : written) to.push_back(memory.data);
    compile_kernel(kernel)->run(from.data(), to.data(), {});
  };
  return run_lowered_by(run, kernel, graph, inputs, is_wrong);
}

}  // namespace diptych::testing
