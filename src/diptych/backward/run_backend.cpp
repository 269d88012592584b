#include "diptych/backward/run_backend.h"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>

#include "diptych/backend/checked_executable.h"
#include "diptych/backend/compile_per_sizes.h"
#include "diptych/backend/fallback.h"
#include "diptych/backends/builtin_backends.h"
#include "diptych/backward/accumulate_last.h"
#include "diptych/backward/update_parameters.h"
#include "diptych/graph/map_sizes.h"
#include "diptych/interpreter/program.h"
#include "diptych/interpreter/symbols.h"
#include "diptych/passes/run_pass.h"

namespace diptych::detail {
namespace {

/// A part of a run that only computes.
class Piece final : public Executable {
 public:
  Piece(const Backend& backend, const Graph& graph)
      : graph_(graph), executable_(checked_executable(compile_with_fallback(backend, graph), graph, backend.name())) {
    for (const Value input : graph_.inputs()) {
      const TensorMeta& meta = graph_.meta(input);
      inputs_.push_back({meta.dtype, meta.device, meta.size_hints()});
    }
  }

  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const override {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs_[i].describes(inputs[i])) return interpreted().run(std::move(inputs));
    }
    return executable_->run(std::move(inputs));
  }

  std::vector<std::shared_ptr<const Executable>> parts() const override { return {executable_}; }

 private:
  struct Expected {
    bool describes(const at::Tensor& tensor) const {
      return tensor.defined() && tensor.layout() == at::kStrided && tensor.scalar_type() == dtype &&
             tensor.device() == device && tensor.sizes() == sizes;
    }
    at::ScalarType dtype;
    c10::Device device;
    std::vector<int64_t> sizes;
  };

  const Program& interpreted() const {
    std::call_once(once_, [this] { program_ = std::make_unique<const Program>(graph_); });
    return *program_;
  }

  const Graph graph_;
  const std::shared_ptr<const Executable> executable_;
  std::vector<Expected> inputs_;
  mutable std::once_flag once_;
  mutable std::unique_ptr<const Program> program_;
};

/// Takes pieces whole, and has the backend within run what it supports of each.
class PieceBackend final : public Backend {
 public:
  explicit PieceBackend(const Backend& backend) : backend_(backend) {}
  std::string name() const override { return backend_.name(); }
  bool supports(const Graph& /*graph*/, const Node& node) const override { return !has_effects(node); }
  std::shared_ptr<const Executable> compile(const Graph& graph) const override {
    return std::make_shared<Piece>(backend_, graph);
  }

 private:
  const Backend& backend_;
};

/// A compiler of the user's.
class CompilerBackend final : public Backend {
 public:
  explicit CompilerBackend(Compiler compile) : compile_(std::move(compile)) {}
  std::string name() const override { return "compiler"; }
  bool supports(const Graph& /*graph*/, const Node& /*node*/) const override { return true; }
  bool may_be_interpreted() const override { return false; }
  std::shared_ptr<const Executable> compile(const Graph& graph) const override { return compile_(graph); }

 private:
  Compiler compile_;
};

}  // namespace

std::shared_ptr<const RunBackend> run_backend_of(Compiler compile) {
  static std::atomic<uint64_t> number{0};
  return std::make_shared<const RunBackend>(
      RunBackend{fmt::format("compiler {}", ++number), std::make_shared<CompilerBackend>(std::move(compile))});
}

const RunBackend& run_backend(const std::string& name) {
  static auto* const mutex = new std::mutex;
  static auto* const known = new std::map<std::string, RunBackend>;
  auto backend = backend_by_name(name);
  const std::lock_guard lock(*mutex);
  const bool is_interpreter = name == kInterpreter;
  return known->try_emplace(name, RunBackend{name, is_interpreter ? nullptr : std::move(backend)}).first->second;
}

bool has_effects(const Node& node) {
  return node.op.is_hop() &&
         (&node.op.hop() == &autograd_node_schema() || &node.op.hop() == &update_parameters_schema());
}

std::shared_ptr<const Executable> compile_run(const RunBackend& backend, const Graph& graph,
                                              const std::vector<bool>& accumulations) {
  const Graph ordered =
      run_pass("accumulate_last", graph, [&](const Graph& run) { return accumulate_last(run, accumulations); });
  const auto compile = [backend = backend.backend](const Graph& run) {
    return compile_with_fallback(PieceBackend(*backend), run);
  };
  if (!SymbolBinder(ordered).has_symbols()) return compile(ordered);
  SizesPolicy policy;
  if (backend.backend->may_be_interpreted()) {
    policy = once_sizes_return(compile_with_fallback(*backend_by_name(kInterpreter), ordered));
  }
  return compile_per_sizes(ordered, compile, std::move(policy));
}

}  // namespace diptych::detail
