// Assembly for another machine than this one, by LLVM's own program: the library has the host's target alone.
#pragma once
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include <fmt/format.h>

namespace diptych::testing {

/// The assembly that llc makes of a text of LLVM IR for a target such as "aarch64-linux-gnu"; it was also assembled, so
/// each instruction is one that the target has. Nothing where there is no llc-19. What llc says against a text goes to
/// standard error, and then the assembly is empty.
inline std::optional<std::string> cross_assembly(const std::string& text, const std::string& triple) {
  if (std::system("command -v llc-19 >/dev/null") != 0) return std::nullopt;
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("diptych_cross_{}", getpid());
  std::filesystem::create_directories(folder);
  const auto source = (folder / "text.ll").string(), assembly = (folder / "text.s").string();
  std::ofstream(source) << text;
  const auto run =
      fmt::format("llc-19 -O2 -mtriple={0} {1} -o {2} && llc-19 -O2 -mtriple={0} -filetype=obj {1} -o {2}.o", triple,
                  source, assembly);
  const bool made = std::system(run.c_str()) == 0;
  std::ifstream file(assembly);
  std::string result = made ? std::string(std::istreambuf_iterator<char>(file), {}) : "";
  std::filesystem::remove_all(folder);
  return result;
}

}  // namespace diptych::testing
