// What runs of graphs are called in torch's profiler.
#pragma once
#include <ATen/record_function.h>

#include <string>

namespace diptych::detail {

/// While it lives, torch's profiler sees a range of this name, "diptych::forward loss", which is made only where one
/// runs.
class ProfiledRange {
 public:
  template <class MakeName>
  explicit ProfiledRange(const MakeName& make_name) : range_(at::RecordScope::USER_SCOPE) {
    if (range_.isActive()) [[unlikely]]
      range_.before(std::string(make_name()));
  }

 private:
  at::RecordFunction range_;
};

}  // namespace diptych::detail
