#include "diptych/native/call/kernel_code.h"

#include <exception>
#include <mutex>
#include <vector>

#include "diptych/base/log.h"
#include "diptych/base/parallel.h"
#include "diptych/native/call/body_sizes.h"
#include "diptych/native/call/body_table.h"
#include "diptych/native/fusion/fused_node.h"
#include "diptych/native/jit/jit.h"
#include "diptych/native/jit/profiler_names.h"
#include "diptych/native/kernel/print.h"
#include "diptych/native/lower/lower_group.h"

namespace diptych::detail {
namespace {

// One body's code, and whether it is made yet.
struct CodeSlot {
  std::once_flag once;
  KernelCode code;
};

BodyTable<CodeSlot>& code_table() {
  static auto* const table = new BodyTable<CodeSlot>;
  return *table;
}

KernelCode make_code(const Graph& body) {
  // These are the user's errors, and no problem of the body.
  (void)keeps_kernels();
  (void)names_kernels();
  (void)host_target();
  KernelCode made;
  try {
    made.kernel = lower_group(body, &made.problem, &made.symbols);
    if (!made.kernel) {
      if (made.problem.empty()) made.problem = "its nodes have no common iteration space";
      return made;
    }
    made.problem.clear();
    made.has_check = has_check(*made.kernel, body);
    if (auto problem = codegen_problem(*made.kernel)) {
      made.problem = *std::move(problem);
    } else if (auto open = BodySizes(body).problem(sizes_of_call(body, made.symbols))) {
      made.problem = *std::move(open);
    } else {
      made.code = compile_kernel(*made.kernel);
    }
  } catch (const std::exception& error) {
    made.problem = error.what();
  }
  return made;
}

void log_code(const Graph& body, const KernelCode& made) {
  log(Log::kKernels, [&] {
    const std::string text = made.kernel ? print(*made.kernel) : body.code();
    if (made.code != nullptr) return fmt::format("made {} of {} nodes:\n{}", body.name(), body.nodes().size(), text);
    return fmt::format("the interpreter runs {} of {} nodes: {}\n{}", body.name(), body.nodes().size(), made.problem,
                       text);
  });
}

void list_bodies(const Graph& graph, std::vector<std::shared_ptr<const Graph>>& bodies) {
  for (const Node& node : graph.nodes()) {
    for (const auto& body : node.subgraphs) {
      if (is_fused(node)) {
        bodies.push_back(body);
      } else {
        list_bodies(*body, bodies);
      }
    }
  }
}

}  // namespace

std::vector<SizeExpr> sizes_of_call(const Graph& body, const std::vector<SizeExpr>& symbols) {
  std::vector<SizeExpr> sizes = symbols;
  for (const auto* values : {&body.inputs(), &body.outputs()}) {
    for (const Value value : *values) {
      const TensorMeta& meta = body.meta(value);
      sizes.insert(sizes.end(), meta.sizes.begin(), meta.sizes.end());
      sizes.insert(sizes.end(), meta.strides.begin(), meta.strides.end());
    }
  }
  return sizes;
}

std::shared_ptr<const KernelCode> code_of(const std::shared_ptr<const Graph>& body) {
  const auto slot = code_table().find(body);
  std::call_once(slot->once, [&] {
    slot->code = make_code(*body);
    log_code(*body, slot->code);
  });
  return {slot, &slot->code};
}

void make_codes(const Graph& graph) {
  std::vector<std::shared_ptr<const Graph>> bodies;
  list_bodies(graph, bodies);
  in_parallel(static_cast<int64_t>(bodies.size()), /*grain=*/1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) code_of(bodies[i]);
  });
}

}  // namespace diptych::detail
