#include "diptych/native/native_graph.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "diptych/base/error.h"
#include "diptych/graph/html.h"
#include "diptych/graph/names.h"
#include "diptych/native/call/kernel_code.h"
#include "diptych/native/codegen/compiled_kernel.h"
#include "diptych/native/fusion/fused_node.h"
#include "diptych/native/jit/jit.h"
#include "diptych/native/kernel/print.h"
#include "diptych/native/native_backend.h"
#include "diptych/native/plan/planned_node.h"
#include "diptych/native/report/explain_fusion.h"
#include "diptych/native/report/kernel_work.h"
#include "diptych/native/report/machine_speed.h"
#include "diptych/native/report/memory_plan.h"
#include "diptych/native/report/text_table.h"

namespace diptych {

using namespace detail;

NativeKernel::NativeKernel(std::shared_ptr<const Graph> body) : body_(std::move(body)), code_(code_of(body_)) {}

const std::string& NativeKernel::name() const { return body_->name(); }

const std::string& NativeKernel::problem() const { return code_->problem; }

std::string NativeKernel::code() const { return code_->code == nullptr ? "" : print(*code_->kernel); }

std::string NativeKernel::llvm() const { return code_->code == nullptr ? "" : llvm_text(*code_->kernel); }

std::string NativeKernel::assembly() const {
  std::string all;
  if (code_->code == nullptr) return all;
  for (const std::string& module : llvm_modules(*code_->kernel)) all += detail::assembly(module, name());
  return all;
}

KernelWork NativeKernel::work() const {
  return code_->code == nullptr ? KernelWork() : work_of(*code_->kernel, *body_);
}

int64_t NativeKernel::timed_calls() const { return code_->times->calls(); }

double NativeKernel::median_us() const { return code_->times->median_us(); }

NativeGraph::NativeGraph(std::string name, std::shared_ptr<const Executable> executable)
    : name_(std::move(name)), executable_(std::move(executable)), kernels_(native_kernels(*executable_)) {}

const Graph& NativeGraph::graph() const { return fused_graph(*executable_); }

int64_t NativeGraph::peak_bytes() const { return plan_memory(graph()).peak; }

std::string NativeGraph::code() const {
  std::string text;
  for (const NativeKernel& kernel : kernels_) {
    if (!kernel.code().empty()) text += (text.empty() ? "" : "\n") + kernel.code();
  }
  return text;
}

std::string NativeGraph::html() const { return diptych::html(graph(), name_, is_fused); }

std::string NativeGraph::explain() const { return explain_fusion(unfused_graph(*executable_)); }

namespace {

std::vector<std::string> operators_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (is_planned(node)) {
      for (std::string& name : operators_of(*node.subgraphs[0])) names.push_back(std::move(name));
    } else if (!is_fused(node)) {
      names.push_back(node.op.name());
    }
  }
  return names;
}

// How much of what the machine can do at most a kernel makes use of.
std::string share_text(const KernelWork& work, double seconds) {
  if (seconds <= 0) return "";
  const double memory = static_cast<double>(work.bytes_read + work.bytes_written) / seconds / memory_bandwidth();
  const double peak = peak_flops() > 0 ? static_cast<double>(work.flops) / seconds / peak_flops() : 0;
  return memory >= peak ? fmt::format("{:.0f}% of memory", 100 * memory) : fmt::format("{:.0f}% of flops", 100 * peak);
}

TableRow row_of(const NativeKernel& kernel, size_t number, bool is_timed) {
  const KernelWork work = kernel.work();
  TableRow row{fmt::format("{} {}", number, kernel.name()), operator_list(operators_of(kernel.nodes())),
               bytes_text(work.bytes_read), bytes_text(work.bytes_written), count_text(work.flops)};
  const bool has_kernel = kernel.problem().empty();
  if (!has_kernel) std::fill(row.begin() + 2, row.end(), "");
  if (is_timed) {
    const double seconds = kernel.median_us() * 1e-6;
    row.push_back(std::to_string(kernel.timed_calls()));
    row.push_back(fmt::format("{:.1f}", kernel.median_us()));
    row.push_back(has_kernel ? share_text(work, seconds) : "by the interpreter");
  } else if (!has_kernel) {
    row.back() = "by the interpreter";
  }
  return row;
}

}  // namespace

std::string NativeGraph::table() const {
  const bool is_timed = std::any_of(kernels_.begin(), kernels_.end(),
                                    [](const NativeKernel& kernel) { return kernel.timed_calls() > 0; });
  std::vector<TableRow> rows{{"kernel", "fuses", "read", "written", "flops"}};
  if (is_timed) rows[0].insert(rows[0].end(), {"calls", "median us", "share"});
  size_t num_nodes = 0;
  for (const NativeKernel& kernel : kernels_) {
    num_nodes += kernel.nodes().nodes().size();
    rows.push_back(row_of(kernel, rows.size() - 1, is_timed));
  }
  const auto others = operators_of(graph());
  const MemoryPlan memory = plan_memory(graph());
  return aligned_table(rows, {2, 3, 4, 5, 6}) +
         fmt::format("{}: {} kernels of {} nodes; LibTorch runs {}\n", name_, kernels_.size(), num_nodes,
                     others.empty() ? "nothing" : operator_list(others)) +
         fmt::format("memory: at most {} of results at once, {} of them outlive the run\n", bytes_text(memory.peak),
                     bytes_text(memory.escaping));
}

void detail::add_native_graphs(const std::string& name, const std::shared_ptr<const Executable>& executable,
                               std::vector<NativeGraph>& graphs) {
  if (is_native(*executable)) graphs.emplace_back(name, executable);
  for (const auto& part : executable->parts()) add_native_graphs(name, part, graphs);
}

}  // namespace diptych
