// What functionalization does with a write to a view that expand() made.
#pragma once
#include "diptych/trace/view_steps.h"

namespace diptych::detail {

/// Has writes to `view`, whose last step is expand(), reach what was expanded element by element. Functionalization
/// adds the difference to what was there, which rounds, and leaves NaN where there was an infinity. Requires: no
/// element of the view is another one's, as of every view by expand() that eager may write to.
void write_back_by_element(const at::Tensor& view);

}  // namespace diptych::detail
