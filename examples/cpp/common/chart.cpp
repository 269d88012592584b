// Laying out and writing the SVG of a line chart.
#include "common/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace examples {
namespace {

constexpr double kWidth = 820, kHeight = 420, kLeft = 64, kRight = 20, kTop = 44, kBottom = 48;
constexpr size_t kMaxPoints = 2000;  // more can't be told apart at this width

// The range of one axis and where it lies in the picture.
struct Axis {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  double from = 0, to = 0;  // pixels

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void close() {
    if (low > high) low = 0, high = 1;
    if (low == high) low -= 0.5, high += 0.5;
  }
  double place(double value) const { return from + (value - low) / (high - low) * (to - from); }
  // Steps of 1, 2 or 5 times a power of ten, about six of them.
  std::vector<double> ticks() const {
    const double rough = (high - low) / 6;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    const double step = (rough / power < 1.5 ? 1 : rough / power < 3.5 ? 2 : rough / power < 7.5 ? 5 : 10) * power;
    std::vector<double> found;
    for (double tick = std::ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) {
      found.push_back(std::abs(tick) < step * 1e-9 ? 0 : tick);
    }
    return found;
  }
};

std::string grid(const Axis& x, const Axis& y) {
  std::string svg;
  for (const double tick : y.ticks()) {
    svg += fmt::format("<line x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}' stroke='#e2e8f0'/>", kLeft, kWidth - kRight,
                       y.place(tick), y.place(tick));
    svg += fmt::format("<text x='{}' y='{:.1f}' text-anchor='end'>{:.6g}</text>\n", kLeft - 8, y.place(tick) + 4, tick);
  }
  for (const double tick : x.ticks()) {
    svg += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{:.6g}</text>\n", x.place(tick),
                       kHeight - kBottom + 20, tick);
  }
  return svg;
}

std::string polyline(const Series& series, const Axis& x, const Axis& y) {
  std::string points;
  const size_t stride = std::max<size_t>(1, series.values.size() / kMaxPoints);
  for (size_t i = 0; i < series.values.size(); i += stride) {
    if (!std::isfinite(series.values[i])) continue;
    points += fmt::format("{:.1f},{:.1f} ", x.place(static_cast<double>(series.first_x) + static_cast<double>(i)),
                          y.place(series.values[i]));
  }
  return fmt::format("<polyline fill='none' stroke='{}' stroke-width='{}' stroke-linejoin='round' points='{}'/>\n",
                     series.color, series.width, points);
}

std::string legend(const std::vector<Series>& series) {
  std::string svg;
  double x = kLeft;
  for (const auto& line : series) {
    svg += fmt::format("<rect x='{:.0f}' y='30' width='14' height='4' fill='{}'/><text x='{:.0f}' y='36'>{}</text>\n",
                       x, line.color, x + 19, escaped(line.label));
    x += 34 + 6.6 * static_cast<double>(line.label.size());
  }
  return svg;
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::vector<float> smoothed(const std::vector<float>& values, double decay) {
  std::vector<float> result;
  double mean = 0, weight = 0;
  for (const float value : values) {
    mean = decay * mean + (1 - decay) * value;
    weight = decay * weight + (1 - decay);
    result.push_back(static_cast<float>(mean / weight));
  }
  return result;
}

std::string line_chart(const std::string& title, const std::string& x_label, const std::string& y_label,
                       const std::vector<Series>& series) {
  Axis x{.from = kLeft, .to = kWidth - kRight}, y{.from = kHeight - kBottom, .to = kTop};
  for (const auto& line : series) {
    for (size_t i = 0; i < line.values.size(); ++i) {
      if (!std::isfinite(line.values[i])) continue;
      x.include(static_cast<double>(line.first_x) + static_cast<double>(i));
      y.include(line.values[i]);
    }
  }
  x.close();
  y.close();
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' font-family='sans-serif' "
      "font-size='12' "
      "fill='#334155'>\n<rect width='{0}' height='{1}' fill='white'/>\n<text x='{2}' y='18' font-size='15' "
      "font-weight='bold'>{3}</text>\n",
      kWidth, kHeight, kLeft, escaped(title));
  svg += grid(x, y);
  svg += fmt::format(
      "<line x1='{0}' x2='{0}' y1='{1}' y2='{2}' stroke='#94a3b8'/><line x1='{0}' x2='{3}' y1='{2}' y2='{2}' "
      "stroke='#94a3b8'/>\n",
      kLeft, kTop, kHeight - kBottom, kWidth - kRight);
  svg += fmt::format("<text x='{}' y='{}' text-anchor='middle'>{}</text>\n", (kLeft + kWidth) / 2, kHeight - 8,
                     escaped(x_label));
  svg += fmt::format("<text transform='translate(16 {}) rotate(-90)' text-anchor='middle'>{}</text>\n", kHeight / 2,
                     escaped(y_label));
  for (const auto& line : series) svg += polyline(line, x, y);
  return svg + legend(series) + "</svg>\n";
}

}  // namespace examples
