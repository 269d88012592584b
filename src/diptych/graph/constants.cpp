#include "diptych/graph/constants.h"

#include <ATen/EmptyTensor.h>

#include <cstring>

#include "diptych/base/check.h"
#include "diptych/graph/identical.h"
#include "diptych/graph/json.h"

namespace diptych::detail {
namespace {

using nlohmann::json;

json entry_of(const at::Tensor& tensor, std::string& bytes) {
  json entry = write_meta(TensorMeta::of(tensor));
  const auto dense = dense_bytes(tensor);
  entry["offset"] = bytes.size();
  entry["bytes"] = dense.size();
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) entry["wrapped_number"] = true;
  bytes += dense;
  return entry;
}

// Writes row-major elements to where the strides put them.
const char* scatter(char* data, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t item, const char* source) {
  if (sizes.empty()) {
    std::memcpy(data, source, item);
    return source + item;
  }
  for (int64_t i = 0; i < sizes[0]; ++i) {
    source = scatter(data + i * strides[0] * item, sizes.slice(1), strides.slice(1), item, source);
  }
  return source;
}

// The bytes of a tensor, or -1 if no tensor has such sizes.
int64_t counted_bytes(const TensorMeta& meta) {
  auto bytes = static_cast<int64_t>(c10::elementSize(meta.dtype));
  if (meta.sizes.size() != meta.strides.size()) return -1;
  for (const auto& length : meta.sizes) {
    if (length.hint() < 0 || __builtin_mul_overflow(bytes, length.hint(), &bytes)) return -1;
  }
  return bytes;
}

// Checks, before storage is allocated, that the strides do not reach absurdly far for a constant that has `bytes` bytes
// in the file.
void check_extent(const TensorMeta& meta, size_t bytes) {
  constexpr int64_t kMaxStretch = 1 << 20;
  int64_t last = 0;
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    int64_t reach = 0;
    const bool overflow = __builtin_mul_overflow(meta.sizes[i].hint() - 1, meta.strides[i].hint(), &reach) ||
                          __builtin_add_overflow(last, reach, &last);
    DIPTYCH_CHECK(!overflow && meta.strides[i].hint() >= 0,
                  "[graph file] a constant has strides that reach outside 64 bits; save the graph again");
  }
  const auto limit = static_cast<int64_t>(bytes) * kMaxStretch;
  DIPTYCH_CHECK(last <= limit,
                "[graph file] a constant of {} bytes has strides that reach {} elements; save the graph again", bytes,
                last);
}

at::Tensor read_entry(const json& entry, std::string_view bytes) {
  const auto meta = read_meta(entry, {});
  const auto offset = entry.at("offset").get<size_t>(), size = entry.at("bytes").get<size_t>();
  DIPTYCH_CHECK(offset <= bytes.size() && size <= bytes.size() - offset,
                "[graph file] a constant lies outside the file; save the graph again");
  DIPTYCH_CHECK(counted_bytes(meta) == static_cast<int64_t>(size),
                "[graph file] a constant {} has {} bytes, which does not fit its type; save the graph again",
                type_string(meta), size);
  if (size > 0) check_extent(meta, size);
  at::Tensor tensor = at::detail::empty_strided_cpu(meta.size_hints(), meta.stride_hints(), meta.dtype);
  if (size > 0) {
    scatter(static_cast<char*>(tensor.mutable_data_ptr()), tensor.sizes(), tensor.strides(),
            static_cast<int64_t>(tensor.element_size()), bytes.data() + offset);
  }
  if (!meta.device.is_cpu()) tensor = tensor.to(meta.device);
  if (meta.requires_grad) tensor.set_requires_grad(true);
  if (entry.value("wrapped_number", false)) tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

}  // namespace

json write_constants(const std::vector<at::Tensor>& tensors, std::string& bytes) {
  json table = json::array();
  for (size_t i = 0; i < tensors.size(); ++i) {
    size_t same = 0;
    while (!tensors[same].is_same(tensors[i])) ++same;
    if (same < i) {
      table.push_back({{"same_as", same}});
    } else {
      table.push_back(entry_of(tensors[i], bytes));
    }
  }
  return table;
}

std::vector<at::Tensor> read_constants(const json& table, std::string_view bytes) {
  std::vector<at::Tensor> tensors;
  for (const auto& entry : table) {
    if (entry.contains("same_as")) {
      const auto same = entry.at("same_as").get<size_t>();
      DIPTYCH_CHECK(same < tensors.size(),
                    "[graph file] a constant refers to constant {}, which comes after it; save the graph again", same);
      tensors.push_back(tensors[same]);
    } else {
      tensors.push_back(read_entry(entry, bytes));
    }
  }
  return tensors;
}

}  // namespace diptych::detail
