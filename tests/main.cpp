// The main function of all test programs: each test draws the same numbers whenever it is run, alone or among others.
// --gtest_random_seed=N draws others. With DIPTYCH_TEST_ONEDNN=0 eager has no use for oneDNN, as on some CPUs.
#include <ATen/Context.h>

#include <cstdlib>
#include <string_view>

namespace {

class SeedBeforeEachTest final : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& /*test*/) override {
    at::manual_seed(static_cast<uint64_t>(::testing::GTEST_FLAG(random_seed)));
  }
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const char* const onednn = std::getenv("DIPTYCH_TEST_ONEDNN");
  if (onednn != nullptr && std::string_view(onednn) == "0") at::globalContext().setUserEnabledMkldnn(false);
  ::testing::UnitTest::GetInstance()->listeners().Append(new SeedBeforeEachTest);  // NOLINT: the list owns it
  return RUN_ALL_TESTS();
}
