// Layouts that kernels tell apart, before every judge.
#include "samples/walk.h"

namespace diptych::test {
namespace {

class Layouts : public Walk {};
TEST_P(Layouts, DoAsEager) { walk(); }
INSTANTIATE_TEST_SUITE_P(Samples, Layouts, ::testing::ValuesIn(families_of("layouts_")), name_of);

}  // namespace
}  // namespace diptych::test
