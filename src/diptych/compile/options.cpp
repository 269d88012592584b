#include "diptych/compile/options.h"

#include "diptych/base/check.h"

namespace diptych {

std::shared_ptr<const Backend> detail::backend_of(const AotOptions& options) {
  auto backend = backend_by_name(options.backend, options.draws);
  if (!options.check_kernels) return backend;
  auto checking = checking_backend_by_name(options.backend);
  DIPTYCH_CHECK(checking != nullptr,
                "[{}] got check_kernels, but backend '{}' has no kernels that the interpreter could check; use backend "
                "'native', or leave it out",
                options.name, options.backend);
  return checking;
}

}  // namespace diptych
