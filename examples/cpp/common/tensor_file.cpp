// The safetensors format: u64 length of the header, the header in JSON, the bytes of the tensors one after the other.
#include "common/tensor_file.h"

#include <diptych/base/error.h>
#include <fcntl.h>
#include <torch/types.h>
#include <unistd.h>

#include <boost/crc.hpp>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/batch.h"
#include "diptych/base/check.h"

namespace examples {
namespace {

constexpr const char* kChecksum = "checksum";
constexpr size_t kChecksumBytes = sizeof(uint32_t);
constexpr size_t kLengthBytes = sizeof(uint64_t);

struct DtypeName {
  at::ScalarType dtype;
  const char* name;
};
constexpr DtypeName kDtypes[] = {{at::kFloat, "F32"}, {at::kDouble, "F64"},   {at::kLong, "I64"},
                                 {at::kInt, "I32"},   {at::kByte, "U8"},      {at::kBool, "BOOL"},
                                 {at::kHalf, "F16"},  {at::kBFloat16, "BF16"}};

const char* name_of(at::ScalarType dtype) {
  for (const auto& row : kDtypes) {
    if (row.dtype == dtype) return row.name;
  }
  DIPTYCH_CHECK(false, "[tensor file] tensors of dtype {} can't be stored", c10::toString(dtype));
}

at::ScalarType dtype_of(const std::string& name) {
  for (const auto& row : kDtypes) {
    if (name == row.name) return row.dtype;
  }
  DIPTYCH_CHECK(false, "unknown dtype '{}'", name);
}

uint32_t checksum(const void* bytes, size_t size) {
  boost::crc_32_type sum;
  sum.process_bytes(bytes, size);
  return sum.checksum();
}

// A file that is being written beside its final place; it is gone again unless commit() was reached.
class PendingFile {
 public:
  explicit PendingFile(const std::filesystem::path& path) : path_(path), temporary_(path.string() + kTemporaryEnding) {
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    check(file_ >= 0, "open");
  }
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;
  ~PendingFile() {
    if (file_ >= 0) ::close(file_);
    if (!committed_) ::unlink(temporary_.c_str());
  }
  void write(const void* bytes, size_t size) {
    checksum_.process_bytes(bytes, size);
    for (const char* at = static_cast<const char*>(bytes); size > 0;) {
      const ssize_t written = ::write(file_, at, size);
      if (written < 0 && errno == EINTR) continue;
      check(written >= 0, "write");
      at += written;
      size -= static_cast<size_t>(written);
    }
  }
  uint32_t checksum_so_far() const { return checksum_.checksum(); }
  void commit() {
    check(::fsync(file_) == 0, "flush");
    check(::rename(temporary_.c_str(), path_.c_str()) == 0, "rename");
    committed_ = true;
    // The rename itself is on the disk only when the folder is; a file system that can't flush folders is no reason to
    // fail.
    const std::string folder = path_.has_parent_path() ? path_.parent_path().string() : ".";
    if (const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); handle >= 0) {
      ::fsync(handle);
      ::close(handle);
    }
  }

 private:
  void check(bool ok, const char* what) const {
    const int error = errno;
    DIPTYCH_CHECK(ok, "[tensor file] can't {} '{}': {}", what, temporary_, std::strerror(error));
  }

  std::filesystem::path path_;
  std::string temporary_;
  int file_ = -1;
  boost::crc_32_type checksum_;
  bool committed_ = false;
};

nlohmann::json header_of(const TensorFile& contents, const std::vector<at::Tensor>& dense) {
  nlohmann::json header;
  if (!contents.metadata.empty()) header["__metadata__"] = contents.metadata;
  size_t offset = 0;
  for (size_t i = 0; i < dense.size(); ++i) {
    const std::string& name = contents.tensors[i].first;
    DIPTYCH_CHECK(!header.contains(name) && name != kChecksum, "[tensor file] two tensors are called '{}'", name);
    header[name] = {{"dtype", name_of(dense[i].scalar_type())},
                    {"shape", dense[i].sizes().vec()},
                    {"data_offsets", {offset, offset + dense[i].nbytes()}}};
    offset += dense[i].nbytes();
  }
  header[kChecksum] = {
      {"dtype", "U8"}, {"shape", {kChecksumBytes}}, {"data_offsets", {offset, offset + kChecksumBytes}}};
  return header;
}

at::Tensor tensor_from(const nlohmann::json& entry, const std::string& bytes, size_t data_begin) {
  const auto sizes = entry.at("shape").get<std::vector<int64_t>>();
  const auto begin = entry.at("data_offsets").at(0).get<size_t>();
  const auto end = entry.at("data_offsets").at(1).get<size_t>();
  at::Tensor tensor = at::empty(sizes, dtype_of(entry.at("dtype").get<std::string>()));
  DIPTYCH_CHECK(begin <= end && end - begin == tensor.nbytes() && end <= bytes.size() - data_begin,
                "a tensor's place is out of range");
  if (begin != end) std::memcpy(tensor.mutable_data_ptr(), bytes.data() + data_begin + begin, end - begin);
  return tensor;
}

TensorFile parse(const std::string& bytes) {
  DIPTYCH_CHECK(bytes.size() > kLengthBytes + kChecksumBytes, "it is cut off");
  uint32_t stored = 0;
  std::memcpy(&stored, bytes.data() + bytes.size() - kChecksumBytes, kChecksumBytes);
  DIPTYCH_CHECK(stored == checksum(bytes.data(), bytes.size() - kChecksumBytes),
                "its checksum does not match: it is cut off or altered");
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), kLengthBytes);
  DIPTYCH_CHECK(header_size <= bytes.size() - kLengthBytes, "its header is cut off");
  const auto header = nlohmann::json::parse(bytes.substr(kLengthBytes, header_size));
  TensorFile result;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      result.metadata = entry.get<std::map<std::string, std::string>>();
    } else if (name != kChecksum) {
      result.tensors.emplace_back(name, tensor_from(entry, bytes, kLengthBytes + header_size));
    }
  }
  return result;
}

}  // namespace

const at::Tensor& TensorFile::tensor(const std::string& name) const {
  for (const auto& [key, value] : tensors) {
    if (key == name) return value;
  }
  DIPTYCH_CHECK(false, "[tensor file] it holds no tensor called '{}'", name);
}

void write_tensor_file(const std::filesystem::path& path, const TensorFile& contents) {
  std::vector<at::Tensor> dense;
  for (const auto& [name, tensor] : contents.tensors) dense.push_back(tensor.detach().cpu().contiguous());
  std::string header = header_of(contents, dense).dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');  // the format wants the data aligned
  PendingFile file(path);
  const uint64_t header_size = header.size();
  file.write(&header_size, kLengthBytes);
  file.write(header.data(), header.size());
  for (const auto& tensor : dense) file.write(tensor.const_data_ptr(), tensor.nbytes());
  const uint32_t sum = file.checksum_so_far();
  file.write(&sum, kChecksumBytes);
  file.commit();
}

TensorFile read_tensor_file(const std::filesystem::path& path) {
  const std::string bytes = read_file(path, "tensor file");
  try {
    return parse(bytes);
  } catch (const std::exception& error) {
    DIPTYCH_CHECK(false, "[tensor file] '{}' can't be used: {}", path.string(), error.what());
  }
}

}  // namespace examples
