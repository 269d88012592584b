// Named tensors and named strings in one file, in the safetensors format, which Python's `safetensors` reads too.
// The last tensor, "checksum", is the CRC-32 of every byte before it, so a torn or altered file is noticed.
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace examples {

/// A tensor with its path in the model, such as "blocks.3.attention.weight".
using NamedTensor = std::pair<std::string, at::Tensor>;

/// What a tensor file holds.
struct TensorFile {
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> metadata;

  /// Errors: UserError if no tensor is called `name`.
  const at::Tensor& tensor(const std::string& name) const;
};

/// Writes the file so that `path` holds either all of the new bytes or, after a crash at any moment, what it held
/// before: a temporary file beside it is written, flushed to the disk and renamed. Errors: UserError if the disk
/// refuses (no room, no permission); the temporary file is then removed.
void write_tensor_file(const std::filesystem::path& path, const TensorFile& contents);

/// Reads a file back. Errors: UserError says what is wrong with it: missing, cut off, checksum, format.
TensorFile read_tensor_file(const std::filesystem::path& path);

/// The ending of temporary files: a crash may leave one behind.
inline constexpr const char* kTemporaryEnding = ".tmp";

}  // namespace examples
