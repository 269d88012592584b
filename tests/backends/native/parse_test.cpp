// print() and parse_kernel() are each other's inverse, and no text is too damaged for an error with its place.
#include "backends/native/parse_kernel.h"

#include <gtest/gtest.h>

#include "backends/native/random_kernel.h"
#include "diptych/native/kernel/print.h"
#include "diptych/native/kernel/verify.h"
#include "testing/expect_error.h"

namespace diptych {

using namespace detail;
namespace {

using testing::expect_error;
using testing::RandomKernel;

constexpr std::string_view kEveryKind = R"(kernel every.kind(d0=s0, d1=1024, d2=2*s1) {
  x0 : f32
  x1 : bf16
  y0 : f32
  y1 : i64
  %0 : b8 = constant true
  %1 : f32 = constant 1e-05
  %2 : f64 = constant -0
  %3 : c64 = constant (inf, nan)
  %4 : u8 = constant 255
  %5 : i64 = index -s2 + d0 - 3*d1
  %6 : f32 = load x0[5 + 2*s0 + 1024*d0 + d1 - s3*%5]
  %7 : f32 = load x0[0] if %0 else %1
  %8 : bf16 = load x1[s0*d2]
  %9 : f32 = cast %8
  %10 : f32 = select %0, %6, %9
  %11 : f32 = reduce sum %10 over d0, d2
  %12 : i64 = reduce argmax %6 over d1
  store y0[d1] = %11
  store add y1[%5] = %12
}
)";

TEST(KernelText, PrintsWhatItParsed) { EXPECT_EQ(print(parse_kernel(kEveryKind)), kEveryKind); }

TEST(KernelText, ReadsRemarksGapsAndTermsInAnyOrder) {
  const auto kernel = parse_kernel(R"(kernel f ( d0 = 4*s0 ) { // rows
      x0:f32 y0:f32
      %3 : f32 = load x0[ d0*2*s1 + d0 - 7 + d0 ]  // the only one
      store y0[d0] = %3 })");
  EXPECT_EQ(print(kernel), R"(kernel f(d0=4*s0) {
  x0 : f32
  y0 : f32
  %0 : f32 = load x0[-7 + 2*d0 + 2*s1*d0]
  store y0[d0] = %0
}
)");
}

TEST(KernelText, RoundTripsRandomKernels) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const Kernel kernel = RandomKernel(seed).make();
    const auto problem = find_problem(kernel);
    ASSERT_FALSE(problem) << problem->what << '\n' << print(kernel);
    const std::string text = print(kernel);
    const Kernel parsed = parse_kernel(text);
    ASSERT_TRUE(parsed == kernel) << text << print(parsed);
    ASSERT_EQ(print(parsed), text);
  }
}

// Damages a text in one to three places.
std::string damaged(std::string text, std::mt19937& random) {
  constexpr std::string_view kCharacters = "%xydsk0123456789-+*[](){}=:,. \nabcefglmnoprtuw\"/\\#~\xff";
  for (uint32_t i = random() % 3 + 1; i > 0 && !text.empty(); --i) {
    const size_t at = random() % text.size(), length = random() % 12 + 1;
    switch (random() % 5) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text[at] = kCharacters[random() % kCharacters.size()];
        break;
      case 2:
        text.insert(at, 1, kCharacters[random() % kCharacters.size()]);
        break;
      case 3:
        text.insert(random() % text.size(), text.substr(at, length));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

TEST(KernelText, SurvivesDamagedTexts) {
  std::mt19937 random(7);
  int valid = 0, refused = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const std::string text = print(RandomKernel(seed).make());
    for (int i = 0; i < 100; ++i) {
      const std::string bad = damaged(text, random);
      try {
        const Kernel kernel = parse_kernel(bad);
        ASSERT_FALSE(find_problem(kernel)) << bad;
        ASSERT_TRUE(parse_kernel(print(kernel)) == kernel) << bad;
        ++valid;
      } catch (const UserError& error) {
        ASSERT_EQ(std::string(error.what()).rfind("[parse] line ", 0), 0U) << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(valid, 500);
  EXPECT_GT(refused, 10000);
}

TEST(KernelText, SaysWhereAndWhatItExpected) {
  const auto refuses = [](const std::string& body, const testing::Parts& parts) {
    expect_error([&] { parse_kernel("kernel f(d0=4) {\n  x0 : f32\n  y0 : f32\n" + body); }, parts);
  };
  refuses("  %0 : f32 = load x0[d0]\n  %1 : f32 = exq %0\n",
          {"[parse] line 5, column 14: got 'exq', expected 'constant', 'index', 'load', 'reduce' or one of add, sub,"});
  refuses("  %0 : f32 = load x0[d0]\n  %1 : f32 = exp %2\n",
          {"line 5, column 18: got %2, which no line above defines"});
  refuses("  %0 : f32 = load x0[d0]\n  %1 : f32 = reduce total %0 over d0\n",
          {"line 5, column 21: got 'total', expected one of the reductions sum, prod,"});
  refuses("  %0 : f32 = load x0[d0 * d0]\n", {"line 4, column 27: a term has at most one symbol and one dim or value"});
  refuses("  %0 : f32 = load x0[9223372036854775807*2]\n", {"line 4", "a coefficient leaves 64 bits"});
  refuses("  %0 : f32 = load x0[9223372036854775807*d0 + 9*d0]\n", {"line 4", "which leaves 64 bits"});
  refuses("  %0 : f33 = load x0[d0]\n", {"line 4, column 8: got \"f33", "one of the dtypes u8, i8"});
  refuses("  %0 : f32 = constant 1e50\n", {"line 4, column 23: got \"1e50\"", "a number in the range of its dtype"});
  refuses("  %0 : b8 = constant 1\n", {"line 4, column 22: got \"1\", expected 'true' or 'false'"});
  refuses("  %4 : f32 = load x0[d0]\n  %4 : f32 = exp %4\n", {"line 5, column 3: got %4 after %4"});
  refuses("  x2 : f32\n", {"line 4, column 3: got \"x2 : f32\", expected x1, since they are numbered in their order"});
  refuses("  %0 : f32 = load x0[d0]\n  %1 : i64 = exp %0\n  store y0[d0] = %0\n}\n",
          {"line 5, column 3: '%1 : i64 = exp %0': the result is i64, expected f32"});
  refuses("  %0 : f32 = load x0[d0]\n", {"line 5, column 1: got the end of the text, expected an input x0"});
  refuses("  %0 : f32 = load x0[d0]\n  store y0[d0] = %0\n} more",
          {"line 6, column 3", "the end of the text after '}'"});
  expect_error([] { parse_kernel(""); }, "line 1, column 1: got the end of the text, expected 'kernel'");
}

}  // namespace
}  // namespace diptych
