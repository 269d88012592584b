// A line chart as an SVG picture: what a browser, a file viewer and a report page show with no further tool.
#pragma once
#include <string>
#include <vector>

namespace examples {

/// One line of a chart; point i is drawn at x = first_x + i. Values that are not finite are left out.
struct Series {
  std::string label;
  std::string color;  ///< as CSS has it: "#2563eb"
  std::vector<float> values;
  double width = 1.5;  ///< of the line, in pixels
  int64_t first_x = 1;
};

/// Draws the series over one pair of axes, with ticks at round numbers and a legend. Returns a whole SVG document.
std::string line_chart(const std::string& title, const std::string& x_label, const std::string& y_label,
                       const std::vector<Series>& series);

/// The exponentially weighted mean of the values so far, corrected for its start.
std::vector<float> smoothed(const std::vector<float>& values, double decay);

/// Text with &, <, > and quotes replaced, to stand in HTML or SVG.
std::string escaped(const std::string& text);

}  // namespace examples
