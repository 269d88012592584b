// Numbers at which formulas go wrong, in each dtype, before every judge.
#include "samples/walk.h"

namespace diptych::test {
namespace {

class Numbers : public Walk {};
TEST_P(Numbers, DoAsEager) { walk(); }
INSTANTIATE_TEST_SUITE_P(Samples, Numbers, ::testing::ValuesIn(families_of("numbers_")), name_of);

}  // namespace
}  // namespace diptych::test
