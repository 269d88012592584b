// Constant tensors as a table in JSON and bytes beside it.
#pragma once
#include <ATen/core/Tensor.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace diptych::detail {

/// Appends each tensor's elements to `bytes` in row-major order (a tensor that occurs twice is written once) and
/// returns the table that read_constants() takes.
nlohmann::json write_constants(const std::vector<at::Tensor>& tensors, std::string& bytes);
/// Reads what write_constants() wrote; tensors get their strides, device and requires_grad back.
std::vector<at::Tensor> read_constants(const nlohmann::json& table, std::string_view bytes);

}  // namespace diptych::detail
