// Time and memory by node, collected when a run is asked to.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace diptych {

/// What the runs of one program spent on one node.
struct ProfileRow {
  std::string node;   ///< "%7 = aten.mm"
  std::string scope;  ///< the user's scope
  std::string call;   ///< "direct", "in place" (where it was on the last run), "boxed", "rule"
  int64_t calls = 0;
  int64_t total_ns = 0;
  int64_t output_bytes = 0;  ///< bytes of the outputs over all calls; a view counts as the bytes that it shows
};

/// Collects rows over runs of one Program. Threads: several runs may share one.
class Profile {
 public:
  std::vector<ProfileRow> rows() const;
  /// rows() in aligned columns, most time first, with shares and a line of totals; for a terminal.
  std::string table() const;
  /// Adds one run's rows. The first call sets the nodes. Errors: InternalError if the rows are another program's.
  void add(const std::vector<ProfileRow>& run);

 private:
  mutable std::mutex mutex_;
  std::vector<ProfileRow> rows_;
};

}  // namespace diptych
