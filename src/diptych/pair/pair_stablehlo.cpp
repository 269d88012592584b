#include "diptych/pair/pair_stablehlo.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "diptych/base/check.h"
#include "diptych/graph/file.h"
#include "diptych/graph/safetensors.h"
#include "diptych/pair/stablehlo_manifest.h"

namespace diptych {

using namespace detail;
namespace fs = std::filesystem;
namespace {

constexpr const char* kManifest = "manifest.json";

// A folder beside the one to be written, which goes away unless it takes its place.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& target) : target_(target) {
    static std::atomic<unsigned> counter{0};
    path_ = target.string() + fmt::format(".tmp-{}-{}", ::getpid(), counter.fetch_add(1));
    if (!target.parent_path().empty()) fs::create_directories(target.parent_path());
    fs::create_directory(path_);
  }
  ~NewFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  std::string file(const char* name) const { return (path_ / name).string(); }

  void take_place() {
    // An earlier export is moved into the new folder's name, and removed with it.
    const fs::path earlier = path_.string() + ".earlier";
    const bool replaces = fs::exists(target_);
    if (replaces) fs::rename(target_, earlier);
    fs::rename(path_, target_);
    if (replaces) fs::remove_all(earlier);
  }

 private:
  fs::path target_, path_;
};

fs::path folder_path(const std::string& folder) {
  const fs::path path = fs::path(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

void check_replaceable(const fs::path& folder) {
  if (!fs::exists(folder)) return;
  const bool is_ours = fs::is_directory(folder) && (fs::is_empty(folder) || fs::exists(folder / kManifest));
  DIPTYCH_CHECK(is_ours,
                "[export_stablehlo] '{}' is no folder, or holds something other than an export; name a new folder",
                folder.string());
}

}  // namespace

StableHlo stablehlo(const Pair& pair) { return {stablehlo(pair.forward), stablehlo(pair.backward)}; }

void export_stablehlo(const Pair& pair, const std::string& folder, const NamedTensors& parameters) {
  DIPTYCH_CHECK(!folder.empty(), "[export_stablehlo] the folder's name is empty; name a folder");
  const auto forward = stablehlo_module(pair.forward), backward = stablehlo_module(pair.backward);
  const auto tensors = exported_tensors(pair, forward, backward, parameters);
  const auto manifest = stablehlo_manifest(pair, forward, backward, tensors);
  const fs::path target = folder_path(folder);
  try {
    check_replaceable(target);
    NewFolder made(target);
    write_file_atomically(made.file("forward.mlir"), {forward.text});
    write_file_atomically(made.file("backward.mlir"), {backward.text});
    save_tensors(tensors.constants, made.file("constants.safetensors"));
    save_tensors(tensors.parameters, made.file("parameters.safetensors"));
    write_file_atomically(made.file(kManifest), {manifest});
    made.take_place();
  } catch (const fs::filesystem_error& error) {
    detail::throw_user_error(
        fmt::format("[export_stablehlo] '{}': {}; check the path and its permissions", folder, error.code().message()));
  }
}

}  // namespace diptych
