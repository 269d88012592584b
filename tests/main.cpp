// The main function of all test programs. Each test draws the same numbers whenever it is run, alone or among others;
// --gtest_random_seed=N draws others. A program holds the files of a folder: in --gtest_filter a file's name stands for
// its cases, as in --gtest_filter=scan_test.cpp. With DIPTYCH_TEST_ONEDNN=0 eager has no use for oneDNN, as on some
// CPUs.
#include <ATen/Context.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>

namespace {

class SeedBeforeEachTest final : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& /*test*/) override {
    at::manual_seed(static_cast<uint64_t>(::testing::GTEST_FLAG(random_seed)));
  }
};

/// The cases of each file, as a filter.
std::map<std::string, std::string> cases_of_files() {
  std::map<std::string, std::string> cases;
  const ::testing::UnitTest& tests = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < tests.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *tests.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const ::testing::TestInfo& test = *suite.GetTestInfo(k);
      std::string& filter = cases[std::filesystem::path(test.file()).filename()];
      filter += fmt::format("{}{}.{}", filter.empty() ? "" : ":", suite.name(), test.name());
    }
  }
  return cases;
}

/// Returns `filter` with the cases of each file that it names. One without cases keeps its name, which matches none.
std::string with_cases(const std::string& filter) {
  const auto files = cases_of_files();
  std::string result;
  for (size_t begin = 0; begin <= filter.size();) {
    const size_t end = std::min(filter.find_first_of(":-", begin), filter.size());
    const std::string word = filter.substr(begin, end - begin);
    const auto found = files.find(word);
    result += found == files.end() ? word : found->second;
    if (end < filter.size()) result += filter[end];
    begin = end + 1;
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::GTEST_FLAG(filter) = with_cases(::testing::GTEST_FLAG(filter));
  const char* const onednn = std::getenv("DIPTYCH_TEST_ONEDNN");
  if (onednn != nullptr && std::string_view(onednn) == "0") at::globalContext().setUserEnabledMkldnn(false);
  ::testing::UnitTest::GetInstance()->listeners().Append(new SeedBeforeEachTest);  // NOLINT: the list owns it
  return RUN_ALL_TESTS();
}
