// The report page of a run and the picture of its loss curve.
#pragma once
#include "common/trainer.h"

namespace examples {

struct ReportData {
  const TrainOptions& options;
  const Task& task;
  Run& run;
  std::vector<Finding> findings;
  std::optional<Comparison> comparison = std::nullopt;
};

struct ReportPaths {
  std::filesystem::path curve, page;
};

/// Writes loss.svg into options.out and the page to options.report. Errors: UserError if a file can't be written.
ReportPaths write_report(const ReportData& data);

/// Replaces a file by `text` at once: a reader sees the old one or the new one. Errors: UserError if that fails.
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace examples
