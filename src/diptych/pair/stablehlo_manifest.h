// What the parameters and results of a pair's exported modules are.
#pragma once
#include <string>

#include "diptych/pair/pair_stablehlo.h"

namespace diptych::detail {

/// The tensors of an export, by the names that its files give them.
struct ExportedTensors {
  NamedTensors constants;
  NamedTensors parameters;
  /// By forward input slot: the name of its tensor in `parameters`; empty for one that the caller passes in.
  std::vector<std::string> names;
};

/// Finds which slot each parameter belongs to. Errors: UserError as export_stablehlo().
ExportedTensors exported_tensors(const Pair& pair, const StableHloModule& forward, const StableHloModule& backward,
                                 const NamedTensors& parameters);

/// Returns the text of manifest.json.
std::string stablehlo_manifest(const Pair& pair, const StableHloModule& forward, const StableHloModule& backward,
                               const ExportedTensors& tensors);

}  // namespace diptych::detail
