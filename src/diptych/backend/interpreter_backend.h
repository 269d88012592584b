// The backend that every graph can fall back on: the interpreter behind the contract of backend.h.
#pragma once
#include <memory>
#include <string>

#include "diptych/backend/backend.h"
#include "diptych/interpreter/program.h"

namespace diptych::detail {

struct InterpreterOptions {
  ProgramOptions program;
  /// Where every run adds the time and bytes of each node; null for none. It must outlive the executables. A profile
  /// holds the rows of one graph, so compile one graph with it.
  Profile* profile = nullptr;
};

/// An executable that interprets. Its program is accessible, so that callers can run it in another way (differentiably,
/// profiled).
class InterpreterExecutable final : public Executable {
 public:
  InterpreterExecutable(const Graph& graph, const InterpreterOptions& options);
  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const override;
  const Program& program() const { return program_; }

 private:
  Program program_;
  RunOptions run_options_;
};

/// "interpreter": takes every ATen node, and every higher-order node that an interpreter rule is registered for.
class InterpreterBackend final : public Backend {
 public:
  explicit InterpreterBackend(InterpreterOptions options = {}) : options_(options) {}
  std::string name() const override { return "interpreter"; }
  bool may_be_interpreted() const override { return true; }
  bool supports(const Graph& graph, const Node& node) const override;
  std::shared_ptr<const Executable> compile(const Graph& graph) const override;

 private:
  InterpreterOptions options_;
};

/// Returns the same backend as a function, to be passed as a forward, backward or inference compiler.
Compiler interpreter_compiler(const InterpreterOptions& options = {});

}  // namespace diptych::detail
