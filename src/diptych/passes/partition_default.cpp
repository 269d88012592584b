// Eager's partition: the forward saves what autograd's nodes read.
#include "diptych/passes/joint_analysis.h"
#include "diptych/passes/partition.h"

namespace diptych {

using namespace detail;

Partitioner default_partition() {
  return {"default", [](const Joint& joint) { return detail::JointAnalysis(joint).required(/*either_is_late=*/true); }};
}

}  // namespace diptych
