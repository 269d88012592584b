#include "diptych/compile/capture_watch.h"
#include "diptych/base/check.h"

namespace diptych::detail {

std::string CaptureWatch::refusal() const {
  try {
    throw;
  } catch (const CaptureRefused& refused) {
    return refused.what();
  } catch (...) {
    return "";
  }
}

void take_back(CaptureWatch& watch) {
  const CaptureWatch::Found found = watch.finish({});
  DIPTYCH_CHECK(found.is_undone,
                "[capture] the function {}, which can't be undone so that the function itself could run, as a call "
                "inside a transform or on its tensors needs; pass what it takes as an argument",
                found.what);
}

}  // namespace diptych::detail
