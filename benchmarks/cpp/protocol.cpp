// Requests, replies, and the measurements of the process's memory.
#include "protocol.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>

namespace diptych::bench {
namespace {

using nlohmann::json;

json answer(const Cases& cases, const json& request) {
  std::vector<std::string> names;
  for (const auto& [name, run] : cases) names.push_back(name);
  if (request.value("list", false)) return {{"cases", names}};
  const auto found = cases.find(request.value("case", ""));
  if (found == cases.end()) {
    throw std::invalid_argument("unknown case '" + request.value("case", "") + "'; this worker has " +
                                json(names).dump());
  }
  const Reply reply = found->second(request.value("repeat", 1));
  return {{"times_ns", reply.times_ns}, {"facts", reply.facts}};
}

/// Is told of each allocation made on this thread.
class PeakRecorder : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    live_ += size;
    peak_ = std::max(peak_, live_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t peak() const { return peak_; }

 private:
  int64_t live_ = 0;
  int64_t peak_ = 0;
};

}  // namespace

void serve(const Cases& cases) {
  for (std::string line; std::getline(std::cin, line);) {
    json reply;
    try {
      reply = answer(cases, json::parse(line));
    } catch (const std::exception& error) {
      reply = {{"error", error.what()}};
    }
    std::cout << reply.dump() << std::endl;
  }
}

int64_t memory_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key + ":", 0) == 0) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  throw std::runtime_error("/proc/self/status has no " + key);
}

int64_t allocation_peak(const std::function<void()>& once) {
  const auto recorder = std::make_shared<PeakRecorder>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, recorder);
    once();
  }
  return recorder->peak();
}

}  // namespace diptych::bench
