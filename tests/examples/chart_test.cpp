// The loss curve's picture.
#include "common/chart.h"

#include <limits>

namespace examples {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Chart, DrawsEachSeriesBetweenItsLowestAndHighestPoint) {
  const std::string svg = line_chart("t", "step", "loss", {{"a", "#111", {4.0f, 2.0f, 3.0f}}});
  EXPECT_EQ(count(svg, "<polyline"), 1u);
  // First point: left edge and top; second: lowest.
  EXPECT_NE(svg.find("points='64.0,44.0 432.0,372.0 800.0,208.0 '"), std::string::npos) << svg;
}

TEST(Chart, LeavesOutWhatIsNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  const std::string svg = line_chart("t", "x", "y", {{"a", "#111", {1.0f, nan, infinite, 2.0f}}});
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(Chart, TakesNoPointsAndOnePoint) {
  EXPECT_EQ(count(line_chart("t", "x", "y", {}), "</svg>"), 1u);
  EXPECT_EQ(line_chart("t", "x", "y", {{"a", "#111", {2.0f}}}).find("nan"), std::string::npos);
}

TEST(Chart, EscapesText) { EXPECT_NE(line_chart("a<b & c", "x", "y", {}).find("a&lt;b &amp; c"), std::string::npos); }

TEST(Chart, SmoothingStartsAtTheFirstValueAndForgets) {
  const auto mean = smoothed(std::vector<float>(200, 3.0f), 0.9);
  EXPECT_FLOAT_EQ(mean.front(), 3.0f);
  EXPECT_FLOAT_EQ(mean.back(), 3.0f);
  std::vector<float> step(100, 0.0f);
  step.resize(300, 1.0f);
  EXPECT_NEAR(smoothed(step, 0.9).back(), 1.0f, 1e-6);
}

}  // namespace
}  // namespace examples
