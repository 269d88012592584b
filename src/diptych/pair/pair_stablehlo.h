// Pairs for other programs: the two graphs as StableHLO modules, and a folder with all that is needed to run them.
#pragma once
#include <string>

#include "diptych/backends/stablehlo.h"
#include "diptych/pair/pair_parameters.h"

namespace diptych {

/// The modules of a pair; see stablehlo() of a graph for what each `main` takes and returns.
struct StableHlo {
  std::string forward;
  std::string backward;
};

/// Returns both modules as text. Errors: as stablehlo() of a graph.
StableHlo stablehlo(const Pair& pair);

/// The version of manifest.json; docs/xla.md says what it holds.
inline constexpr int kStableHloManifestVersion = 1;

/// Writes a folder that JAX, or any program that runs StableHLO, needs nothing else to use: forward.mlir,
/// backward.mlir, manifest.json (what each parameter and result is), constants.safetensors (the graphs' constants) and
/// parameters.safetensors (`parameters`, and the free variables under their paths). A slot takes the parameter with its
/// path, or with its path without the argument's name: "weight" for the slot "params.weight".
/// The folder is written whole or not at all; an earlier export is replaced, another folder must be empty.
/// Errors: UserError as stablehlo(); for a parameter that does not fit its slot, or a name that several slots take; for
/// a folder that holds something else; and with the system's reason where it can't be written.
void export_stablehlo(const Pair& pair, const std::string& folder, const NamedTensors& parameters = {});

}  // namespace diptych
