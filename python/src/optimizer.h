// An optimizer of Python's torch.optim as steps read and write it.
#pragma once
#include <pybind11/pybind11.h>

#include <memory>

#include "diptych/backward/optimizer_view.h"

namespace diptych::python {

/// Returns a view that keeps the optimizer alive and takes the GIL in each call. Requires: the GIL.
/// Errors: UserError for what a step can't hold, named.
std::shared_ptr<const diptych::detail::OptimizerView> view_of(pybind11::object optimizer);

}  // namespace diptych::python
