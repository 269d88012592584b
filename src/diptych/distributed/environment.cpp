#include "diptych/distributed/environment.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "diptych/base/check.h"

namespace diptych::distributed {
namespace {

constexpr const char* kLaunchers =
    "start the program with a launcher: diptych_launch --processes 2 -- <program>, or torchrun --no-python "
    "--nproc_per_node 2 <program>";

std::string read_text(const char* name) {
  const char* value = std::getenv(name);
  DIPTYCH_CHECK(value != nullptr && *value != '\0', "[distributed] the environment variable {} is not set; {}", name,
                kLaunchers);
  return value;
}

int read_number(const char* name, int least, int most) {
  const std::string text = read_text(name);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  DIPTYCH_CHECK(is_number && number >= least && number <= most,
                "[distributed] the environment variable {} is '{}', expected a whole number from {} to {}; {}", name,
                text, least, most, kLaunchers);
  return number;
}

}  // namespace

Environment Environment::read() {
  constexpr int kMost = std::numeric_limits<int>::max();
  Environment found;
  found.size = read_number("WORLD_SIZE", 1, kMost);
  found.rank = read_number("RANK", 0, found.size - 1);
  found.local_size = read_number("LOCAL_WORLD_SIZE", 1, found.size);
  found.local_rank = read_number("LOCAL_RANK", 0, found.local_size - 1);
  found.address = read_text("MASTER_ADDR");
  found.port = static_cast<uint16_t>(read_number("MASTER_PORT", 1, std::numeric_limits<uint16_t>::max()));
  const char* keeps_store = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  found.launcher_keeps_store = keeps_store != nullptr && std::string_view(keeps_store) == "True";
  if (std::getenv("TORCHELASTIC_RESTART_COUNT") != nullptr) {
    found.restart = read_number("TORCHELASTIC_RESTART_COUNT", 0, kMost);
  }
  return found;
}

}  // namespace diptych::distributed
