// Converts between the user's own argument and result types and flat lists of tensors, for one call of a captured
// function.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "diptych/compile/cache.h"
#include "diptych/hops/flat_function.h"
#include "diptych/tree/flatten.h"

namespace diptych::detail {

/// Returns the name that the paths of an argument start with: the given one, or one made from its position.
std::string argument_name(const std::vector<std::string>& names, size_t index);

template <class... A>
Flattened flatten_arguments(const std::vector<std::string>& names, const A&... arguments) {
  TreeRecorder recorder;
  visit_arguments(names, recorder, arguments...);
  return {recorder.take_tensors(), recorder.take_spec()};
}

template <class... A>
bool match_arguments(const TreeSpec& spec, Cache::Tensors& tensors, const A&... arguments) {
  TreeMatcher matcher(spec, AppendAddress{tensors});
  (visit_leaves(arguments, Path(), matcher), ...);
  return matcher.matched();
}

}  // namespace diptych::detail
