// The library's operators through the generic set.
#include "hops/subject.h"

namespace diptych::testing {
namespace {

const bool kLibraryAdded = [] {
  for (const Subject& subject : library_subjects()) add_generic_set(subject);
  return true;
}();

}  // namespace
}  // namespace diptych::testing
