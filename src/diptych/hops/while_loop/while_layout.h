// How the operands of a hop.while_loop are divided.
#pragma once
#include <vector>

#include "diptych/base/list.h"
#include "diptych/hops/hop.h"

namespace diptych::detail {

struct WhileLayout {
  explicit WhileLayout(const Hop& hop)
      : num_carries(hop.group("init")),
        num_condition_free(hop.group("condition_free")),
        num_free(hop.group("step_free")),
        every(hop.attributes().integer("checkpoint_every")) {}
  size_t num_carries;
  size_t num_condition_free;
  size_t num_free;
  int64_t every;  ///< `checkpoint_every`

  template <class T>
  std::vector<T> carries(const std::vector<T>& operands) const {
    return part(operands, 0, num_carries);
  }
  template <class T>
  std::vector<T> condition_free(const std::vector<T>& operands) const {
    return part(operands, num_carries, num_condition_free);
  }
  template <class T>
  std::vector<T> free(const std::vector<T>& operands) const {
    return part(operands, num_carries + num_condition_free, num_free);
  }
};

}  // namespace diptych::detail
