// A program that is made when it is first used.
#pragma once
#include <memory>
#include <mutex>
#include <optional>

#include "diptych/interpreter/program.h"

namespace diptych {

/// Stands for a Program of a graph: `program->run(...)` makes it if that is the first use, so that graphs which are
/// only looked at, saved or lowered cost none. Copies share it. Threads: any.
class LazyProgram {
 public:
  /// Without a graph; may only be assigned to.
  LazyProgram() = default;
  explicit LazyProgram(Graph graph) : state_(std::make_shared<State>(std::move(graph))) {}

  /// Errors: as Program's constructor.
  const Program* operator->() const {
    std::call_once(state_->once, [&] { state_->program.emplace(state_->graph); });
    return &*state_->program;
  }

 private:
  struct State {
    explicit State(Graph of) : graph(std::move(of)) {}
    const Graph graph;
    std::once_flag once;
    std::optional<const Program> program;
  };
  std::shared_ptr<State> state_;
};

}  // namespace diptych
