// Sizes and options that rules of lowering tell apart, before every judge.
#include "samples/walk.h"

namespace diptych::test {
namespace {

class Calls : public Walk {};
TEST_P(Calls, DoAsEager) { walk(); }
INSTANTIATE_TEST_SUITE_P(Samples, Calls, ::testing::ValuesIn(families_of("calls_")), name_of);

}  // namespace
}  // namespace diptych::test
