#include "common/compiled.h"

namespace examples {

dp::AotOptions aot_options(const TrainOptions& options) {
  return {.backend = options.backend,
          .partition = dp::partitioner_by_name(options.partition),
          .argument_names = {"model", "inputs", "targets"},
          .name = options.name};
}

}  // namespace examples
