// Tensors by name in files of the safetensors format, which Python's safetensors and others read and write.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace diptych {

/// Writes a file whole or not at all, with a checksum of its bytes among its metadata. Tensors are written dense, in
/// row-major order, sorted by name. Errors: UserError names a tensor that the format can't hold (undefined, not
/// strided, of another dtype, called "__metadata__"), and states the system's reason if the file can't be written.
/// Source: the format of github.com/huggingface/safetensors: 8 bytes of length, a JSON header, the bytes.
void save_tensors(const std::map<std::string, at::Tensor>& tensors, const std::string& path);

/// Reads such a file; tensors are contiguous, on the CPU, and own their memory.
/// Errors: UserError for a file that is missing, cut short or not a safetensors file, naming the tensor at fault, and
/// for one whose bytes do not match its checksum (files of other programs have none).
std::map<std::string, at::Tensor> load_tensors(const std::string& path);

}  // namespace diptych
