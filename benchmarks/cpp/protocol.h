// The worker's side of the line protocol, which python/protocol.py describes.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace diptych::bench {

struct Reply {
  std::vector<double> times_ns;
  nlohmann::json facts = nlohmann::json::object();
};
/// A case is run `repeat` times for one reply.
using Cases = std::map<std::string, std::function<Reply(int repeat)>>;

/// Answers requests on standard input until it closes; an exception of a case becomes an error reply.
void serve(const Cases& cases);

template <class Once>
double time_ns(Once&& once) {
  const auto start = std::chrono::steady_clock::now();
  once();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

template <class Once>
std::vector<double> timed(int repeat, Once&& once) {
  std::vector<double> times;
  for (int i = 0; i < repeat; ++i) times.push_back(time_ns(once));
  return times;
}

/// Returns the nanoseconds of one call, from `repeat` batches of `calls` calls.
template <class Once>
std::vector<double> timed_in_batches(int repeat, Once&& once, int calls = 2000) {
  auto times = timed(repeat, [&] {
    for (int i = 0; i < calls; ++i) once();
  });
  for (double& time : times) time /= calls;
  return times;
}

/// Reads VmRSS or VmHWM (the high-water mark) of this process. Units: bytes.
int64_t memory_bytes(const std::string& key);

/// Runs `once` and returns how far the live bytes of LibTorch's CPU allocator rose above their number before.
int64_t allocation_peak(const std::function<void()>& once);

/// The cases of each engine: C++ eager, Diptych, its joint graph without a partition, and its steps under min_cut.
Cases eager_cases();
Cases diptych_cases();
Cases diptych_joint_cases();
Cases diptych_min_cut_cases();

/// The cases of Diptych used in other ways, for the suites on loops: a GPT of one block, of blocks written out, of
/// blocks that are not checkpoints; a scan that keeps 64 carries, with the default segment and with one of 32 steps.
Cases diptych_one_block_cases();
Cases diptych_written_out_cases();
Cases diptych_all_kept_cases();
Cases diptych_64_carries_cases();
Cases diptych_segment_32_cases();

/// The cases of XLA's backend.
Cases diptych_xla_cases();
/// The plugin alone, with a program of ours.
Cases xla_program_cases();

}  // namespace diptych::bench
