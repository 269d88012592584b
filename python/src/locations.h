// Finds the line of the user's Python code, for the provenance of nodes.
#pragma once

namespace diptych::python {

/// Makes traces ask for the line of Python that calls an operator: the innermost one outside torch and Diptych.
void tell_locations();

}  // namespace diptych::python
