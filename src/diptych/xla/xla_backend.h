// Runs graphs as XLA programs on the first device of a PJRT plugin.
#pragma once
#include <memory>
#include <string>

#include "diptych/backend/backend.h"

namespace diptych::detail {

/// Lowers graphs to StableHLO and has a PJRT plugin compile and run them. Nodes without a lowering are not supported:
/// compile_with_fallback() leaves them to the interpreter. A graph with dynamic sizes is compiled once for each set of
/// sizes that it meets. The plugin is the one that find_pjrt_plugin() names; it is loaded by the first compile().
class XlaBackend final : public Backend {
 public:
  /// `draws_on_device`: whether programs make random numbers from a seed (see draw_on_device()), in place of taking
  /// eager's.
  explicit XlaBackend(bool draws_on_device = false) : draws_on_device_(draws_on_device) {}
  std::string name() const override { return "xla"; }
  Graph prepare(const Graph& graph) const override;
  bool takes_whole(const Graph& graph) const override;  ///< where sizes are dynamic
  bool supports(const Graph& graph, const Node& node) const override;
  /// Errors: UserError if there is no plugin, or the plugin refuses the program, with its text.
  std::shared_ptr<const Executable> compile(const Graph& graph) const override;

 private:
  bool draws_on_device_;
};

}  // namespace diptych::detail
