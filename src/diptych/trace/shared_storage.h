// Primals that share memory, traced as views of one base so that a write to one of them is seen in the others.
#pragma once
#include <vector>

#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// Makes the primals at the positions `members`, whose real tensors share memory, views of one base. The base also
/// holds what lies between their elements. The slots stay as they are; `with_families`, primals are added for tensors
/// of which several members are views. See Note [Merged primals].
/// Requires: called before the traced function runs. Errors: UserError names members of several dtypes, and without
/// families members that require grad.
void merge_primals(Recorder& recorder, const std::vector<size_t>& members, bool with_families);

}  // namespace diptych::detail
