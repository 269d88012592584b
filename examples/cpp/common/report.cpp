// Writing the report page: one HTML file that needs nothing else but the pages it links to.
#include "common/report.h"

#include <ATen/Parallel.h>
#include <diptych/backends/builtin_backends.h>
#include <diptych/base/error.h>
#include <torch/types.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "common/chart.h"
#include "common/lap.h"
#include "diptych/base/check.h"

namespace examples {
namespace {

constexpr const char* kStyle =
    "body{font:15px/1.5 sans-serif;color:#1e293b;max-width:860px;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;margin:.5em 0}td,th{border-bottom:1px solid #e2e8f0;padding:.2em .9em .2em "
    "0;text-align:left}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}h1{font-size:1.5em}h2{font-size:1.15em;margin-top:1.8em}"
    "pre{background:#f8fafc;border:1px solid "
    "#e2e8f0;padding:.8em;overflow-x:auto;white-space:pre-wrap}svg{max-width:100%;height:auto}";

using Row = std::vector<std::string>;

std::string table(const Row& head, const std::vector<Row>& rows) {
  std::string html = "<table><tr>";
  for (const auto& cell : head) html += "<th>" + escaped(cell) + "</th>";
  html += "</tr>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) html += (i == 0 ? "<td>" : "<td class=n>") + escaped(row[i]) + "</td>";
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

std::string milliseconds(double seconds) { return fmt::format("{:.2f}", seconds * 1e3); }

std::string loss_curve(const ReportData& data) {
  const auto& losses = data.run.state().losses;
  const double smoothing_steps = std::clamp(static_cast<double>(losses.size()) / 50, 2.0, 50.0);
  std::vector<Series> series = {{"loss of each step", "#bfdbfe", losses, 1},
                                {"smoothed", "#2563eb", smoothed(losses, 1 - 1 / smoothing_steps), 2}};
  if (data.comparison) series.push_back({"eager, the first steps", "#f97316", data.comparison->losses, 1});
  return line_chart(fmt::format("{}: loss over {} steps", data.options.name, losses.size()), "step", "loss (nats)",
                    series);
}

std::string configuration(const ReportData& data) {
  std::vector<Row> rows;
  for (const auto& [name, value] : data.options.run) rows.push_back({name, value});
  int64_t count = 0;
  for (const auto& [name, tensor] : data.run.state().parameters) count += tensor.numel();
  rows.push_back({"--steps", std::to_string(data.options.steps)});
  rows.push_back({"--backend", data.options.backend});
  rows.push_back(
      {"--partition", data.options.backend == "eager" ? "(eager saves what autograd saves)" : data.options.partition});
  rows.push_back({"parameters", fmt::format("{:.2f} million", static_cast<double>(count) / 1e6)});
  rows.push_back({"LibTorch", fmt::format("{}, {} threads", TORCH_VERSION, at::get_num_threads())});
  return "<h2>Configuration</h2>" + table({"option", "value"}, rows);
}

std::string timings(const ReportData& data) {
  const auto& times = data.run.times();
  if (times.empty()) return "";
  const StepTimes ours = median_times(times);
  const StepTimes eager = data.comparison ? median_times(data.comparison->times) : StepTimes{};
  const auto row = [&](const char* name, double StepTimes::*phase) {
    return Row{name, milliseconds(ours.*phase), data.comparison ? milliseconds(eager.*phase) : "",
               milliseconds(times.front().*phase)};
  };
  std::vector<Row> rows = {row("forward", &StepTimes::forward), row("backward, clipping, update", &StepTimes::update)};
  rows.push_back({"whole step", milliseconds(ours.total()), data.comparison ? milliseconds(eager.total()) : "",
                  milliseconds(times.front().total())});
  const auto speed = [&](double seconds) { return fmt::format("{:.0f}", data.task.units_per_step / seconds); };
  rows.push_back({data.options.unit + " per second", speed(ours.total()), data.comparison ? speed(eager.total()) : "",
                  speed(times.front().total())});
  return "<h2>Timings</h2><p>Milliseconds, medians of the steps of this process but for its first, which captures and "
         "compiles the graphs.</p>" +
         table({"phase", data.options.backend, "eager", "first step"}, rows);
}

std::string comparison(const ReportData& data) {
  if (!data.comparison) return "";
  const auto& result = *data.comparison;
  return fmt::format(
      "<h2>The same run in eager</h2><p>Over {} steps from the same seed the losses differ by at most <b>{:.3g}</b> "
      "(step {}); "
      "{:g} is allowed.</p>",
      result.steps, result.largest, result.largest_at, kLossTolerance);
}

// The pair that the loss was run by, captured once more beside a clock.
std::string graphs(const ReportData& data, const std::filesystem::path& page) {
  if (!data.run.model().capture) return "";
  const Batch batch = data.task.batch(0);
  Lap lap;
  const diptych::Pair pair = data.run.model().capture(batch);
  const double capture = lap.seconds();
  const auto compile = diptych::compiler_of(diptych::backend_by_name(data.options.backend));
  compile(pair.forward);
  const double compile_forward = lap.seconds();
  compile(pair.backward);
  const double compile_backward = lap.seconds();
  write_text(page, pair.html());
  std::vector<Row> rows;
  for (const auto& row : diptych::explain_rows(pair.split)) {
    rows.push_back({row.value, row.type, fmt::format("{}", row.bytes), row.made_by, row.wanted_by});
  }
  const auto nodes = [](const diptych::Graph& graph) { return std::to_string(graph.nodes().size()); };
  return fmt::format(
             "<h2>The pair of graphs</h2><p><a href='{}'>The pair, drawn</a>. Between forward and backward it keeps "
             "<b>{:.2f} MB</b> of new storage (--partition {}).</p>",
             escaped(std::filesystem::relative(page, data.page_folder()).generic_string()),
             static_cast<double>(diptych::residual_bytes(pair.split)) / 1e6, escaped(data.options.partition)) +
         table({"", "forward", "backward"},
               {{"nodes", nodes(pair.forward), nodes(pair.backward)},
                {"inputs", std::to_string(pair.forward.inputs().size()), std::to_string(pair.backward.inputs().size())},
                {"capture and partition, ms (both)", milliseconds(capture), ""},
                {"compile, ms", milliseconds(compile_forward), milliseconds(compile_backward)}}) +
         fmt::format("<details><summary>Residuals ({})</summary>", rows.size()) +
         table({"residual", "type", "bytes", "made by", "wanted by"}, rows) +
         "</details><details><summary>Signature</summary><pre>" + escaped(pair.signature.str()) + "</pre></details>";
}

std::string findings(const ReportData& data) {
  std::string html = "<h2>Results</h2>";
  for (const auto& [name, text] : data.findings) {
    const bool is_long = text.find('\n') != std::string::npos;
    html += is_long ? fmt::format("<p>{}:</p><pre>{}</pre>", escaped(name), escaped(text))
                    : fmt::format("<p>{}: <b>{}</b></p>", escaped(name), escaped(text));
  }
  return html;
}

}  // namespace

void write_text(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path temporary = path.string() + kTemporaryEnding;
  std::ofstream file(temporary, std::ios::binary);
  file << text;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(temporary, path, error);
  if (!file || error) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    DIPTYCH_CHECK(false, "[report] '{}' can't be written; choose another path", path.string());
  }
}

std::filesystem::path ReportData::page_folder() const {
  return options.report.empty() ? std::filesystem::path(options.out)
                                : std::filesystem::absolute(options.report).parent_path();
}

void check_report_path(const TrainOptions& options) {
  if (options.report.empty()) return;
  const std::filesystem::path page = std::filesystem::absolute(options.report);
  std::error_code error;
  DIPTYCH_CHECK(
      std::filesystem::is_directory(page.parent_path(), error) && !std::filesystem::is_directory(page, error) &&
          ::access(page.parent_path().c_str(), W_OK | X_OK) == 0,
      "[report] --report {}: give the path of a file in a folder that exists and can be written to", options.report);
}

ReportPaths write_report(const ReportData& data) {
  const std::filesystem::path out = data.options.out;
  const ReportPaths paths{
      out / "loss.svg", data.options.report.empty() ? out / "report.html" : std::filesystem::path(data.options.report)};
  const std::string curve = loss_curve(data);
  write_text(paths.curve, curve);
  const std::string title = escaped(data.options.name);
  write_text(
      paths.page,
      fmt::format(
          "<!doctype html><html lang=en><meta charset=utf-8><title>{0}</title><style>{1}</style>\n<h1>{0}</h1>\n{2}",
          title, kStyle, curve) +
          findings(data) + comparison(data) + timings(data) + graphs(data, out / "graphs.html") + configuration(data) +
          "</html>\n");
  return paths;
}

}  // namespace examples
