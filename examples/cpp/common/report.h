// The report page of a run and the picture of its loss curve.
#pragma once
#include "common/trainer.h"

namespace examples {

struct ReportData {
  const TrainOptions& options;
  const Task& task;
  TrainRun& run;
  std::vector<Finding> findings;
  std::optional<Comparison> comparison = std::nullopt;

  std::filesystem::path page_folder() const;  ///< where the page will be
};

struct ReportPaths {
  std::filesystem::path curve, page;
};

/// Finds out before a long run whether the report can be written. Errors: UserError if --report names no file in a
/// folder that exists.
void check_report_path(const TrainOptions& options);

/// Writes loss.svg and, where the loss was captured, graphs.html into options.out, and the page to options.report.
/// Errors: UserError if a file can't be written.
ReportPaths write_report(const ReportData& data);

/// Replaces a file by `text` at once: a reader sees the old one or the new one. Errors: UserError if that fails.
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace examples
