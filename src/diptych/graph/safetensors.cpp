#include "diptych/graph/safetensors.h"

#include <ATen/ops/empty.h>

#include <array>
#include <cstring>
#include <utility>

#include "diptych/base/check.h"
#include "diptych/graph/checksum.h"
#include "diptych/graph/file.h"
#include "diptych/graph/identical.h"
#include "diptych/graph/json.h"

namespace diptych {

using namespace detail;
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<const char*, at::ScalarType>, 13> kDtypes{{{"BOOL", at::kBool},
                                                                          {"U8", at::kByte},
                                                                          {"I8", at::kChar},
                                                                          {"I16", at::kShort},
                                                                          {"I32", at::kInt},
                                                                          {"I64", at::kLong},
                                                                          {"F16", at::kHalf},
                                                                          {"BF16", at::kBFloat16},
                                                                          {"F32", at::kFloat},
                                                                          {"F64", at::kDouble},
                                                                          {"C64", at::kComplexFloat},
                                                                          {"F8_E4M3", at::kFloat8_e4m3fn},
                                                                          {"F8_E5M2", at::kFloat8_e5m2}}};

// The header's entry for strings of the program that wrote the file. Other readers ignore our checksum, and files of
// other programs have none.
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kChecksum = "diptych.checksum";

/// The checksum of the tensors' descriptions (`header` without its metadata) and of their bytes.
std::string checksum_text(const Json& header, std::string_view data) {
  return fmt::format("{:016x}", checksum(data, checksum(header.dump())));
}

const char* dtype_word(at::ScalarType dtype) {
  for (const auto& [word, known] : kDtypes) {
    if (known == dtype) return word;
  }
  return nullptr;
}

/// A file that is being read: its path for errors, its header, and what follows it.
struct File {
  const std::string& path;
  std::string bytes;
  Json header;
  std::string_view data;

  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(fmt::format("[load_tensors] '{}' {}; write it again", path, what));
  }
};

void check_sum(const File& file) {
  const auto metadata = file.header.find(kMetadata);
  if (metadata == file.header.end() || !metadata->is_object()) return;
  const auto expected = metadata->find(kChecksum);
  if (expected == metadata->end()) return;
  Json described = file.header;
  described.erase(kMetadata);
  if (*expected != checksum_text(described, file.data)) file.refuse("is damaged (its checksum does not match)");
}

File open(const std::string& path) {
  File file{path, read_file(path), {}, {}};
  uint64_t length = 0;
  if (file.bytes.size() < sizeof(length)) file.refuse("is too short for a safetensors file");
  std::memcpy(&length, file.bytes.data(), sizeof(length));
  if (length > file.bytes.size() - sizeof(length)) file.refuse("is not a safetensors file, or was cut short");
  const std::string_view rest = std::string_view(file.bytes).substr(sizeof(length));
  try {
    file.header = parse_whole_numbers(rest.substr(0, length), path);
  } catch (const Json::exception&) {  // the header is not an object then
  }
  if (!file.header.is_object()) file.refuse("has no safetensors header");
  file.data = rest.substr(length);
  check_sum(file);
  return file;
}

at::Tensor read_tensor(const File& file, const std::string& name, const Json& entry) {
  try {
    const auto word = entry.at("dtype").get<std::string>();
    const auto sizes = entry.at("shape").get<std::vector<int64_t>>();
    const auto [begin, end] = entry.at("data_offsets").get<std::pair<size_t, size_t>>();
    const auto dtype =
        std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& known) { return word == known.first; });
    if (dtype == kDtypes.end()) file.refuse(fmt::format("holds '{}' with the unknown dtype {}", name, word));
    const bool is_negative = std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; });
    if (begin > end || end > file.data.size() || is_negative) {
      file.refuse(fmt::format("was cut short, or is damaged, at '{}'", name));
    }
    uint64_t expected = c10::elementSize(dtype->second);
    for (const int64_t size : sizes) {
      if (__builtin_mul_overflow(expected, static_cast<uint64_t>(size), &expected)) expected = UINT64_MAX;
      if (size == 0) break;
    }
    if (expected != end - begin) {
      file.refuse(fmt::format("holds {} bytes for '{}', expected {}", end - begin, name, expected));
    }
    const at::Tensor tensor = at::empty(sizes, at::TensorOptions(dtype->second));
    if (end > begin) std::memcpy(tensor.mutable_data_ptr(), file.data.data() + begin, end - begin);
    return tensor;
  } catch (const Json::exception&) {
    file.refuse(fmt::format("describes '{}' in a way that safetensors do not", name));
  }
}

}  // namespace

void save_tensors(const std::map<std::string, at::Tensor>& tensors, const std::string& path) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    DIPTYCH_CHECK(name != kMetadata,
                  "[save_tensors] a tensor is called '{}', a reserved name in safetensors files; rename it", name);
    const bool is_plain = tensor.defined() && tensor.layout() == at::kStrided;
    const char* word = is_plain ? dtype_word(tensor.scalar_type()) : nullptr;
    DIPTYCH_CHECK(
        word != nullptr,
        "[save_tensors] '{}' is {}, expected a strided tensor of a dtype that safetensors support; convert it", name,
        is_plain ? dtype_name(tensor.scalar_type()) : "undefined or not strided");
    const size_t begin = data.size();
    data += dense_bytes(tensor.detach());
    header[name] = {{"dtype", word}, {"shape", tensor.sizes().vec()}, {"data_offsets", {begin, data.size()}}};
  }
  header[kMetadata] = {{kChecksum, checksum_text(header, data)}};
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the data are aligned
  const uint64_t length = text.size();
  write_file_atomically(path, {std::string_view(reinterpret_cast<const char*>(&length), sizeof(length)), text, data});
}

std::map<std::string, at::Tensor> load_tensors(const std::string& path) {
  const File file = open(path);
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, entry] : file.header.items()) {
    if (name != kMetadata) tensors.emplace(name, read_tensor(file, name, entry));
  }
  return tensors;
}

}  // namespace diptych
