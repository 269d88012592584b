// Trust, but verify once: what a backend returns on its first run is compared with what the graph says.
#pragma once
#include <memory>
#include <string>

#include "diptych/backend/backend.h"

namespace diptych::detail {

/// Wraps an executable so that the outputs of its first run are checked: their number, and for each whether it is
/// defined, its dtype, device and sizes. In later runs the number of outputs is checked, which costs next to nothing;
/// where checks_calls(), all of this is checked in every run, and the inputs as well. A first run that throws does not
/// count. `name` is the backend's, for the message.
/// Errors: run() throws UserError "[backend llvm] output 2 (residual.0) came back as f32[3], expected f32[4]; ...".
std::shared_ptr<const Executable> checked_executable(std::shared_ptr<const Executable> executable, const Graph& graph,
                                                     std::string name);

}  // namespace diptych::detail
