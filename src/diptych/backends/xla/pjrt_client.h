// What a PJRT plugin runs: a client with its devices, buffers on them, and compiled programs.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "diptych/backends/xla/pjrt_api.h"

namespace diptych::detail {

/// The devices that one plugin opens in this process.
class PjrtClient {
 public:
  /// Opens the devices of a plugin. Errors: UserError holds the plugin's text.
  explicit PjrtClient(const PjrtApi& api);
  ~PjrtClient();
  PjrtClient(const PjrtClient&) = delete;
  PjrtClient& operator=(const PjrtClient&) = delete;

  /// The client of the plugin that find_pjrt_plugin() names; opened once for each plugin and kept. Threads: any.
  static std::shared_ptr<const PjrtClient> shared();

  const PjrtApi& api() const { return api_; }
  PJRT_Client* get() const { return client_; }
  PJRT_Device* device(size_t index) const { return devices_.at(index); }
  size_t num_devices() const { return devices_.size(); }
  /// "cpu", "cuda", "tpu".
  const std::string& platform() const { return platform_; }

 private:
  const PjrtApi& api_;
  PJRT_Client* client_ = nullptr;
  std::string platform_;
  std::vector<PJRT_Device*> devices_;
};

/// A tensor on a device.
class PjrtBuffer {
 public:
  PjrtBuffer(std::shared_ptr<const PjrtClient> client, PJRT_Buffer* buffer)
      : client_(std::move(client)), buffer_(buffer) {}
  ~PjrtBuffer();
  PjrtBuffer(const PjrtBuffer&) = delete;
  PjrtBuffer& operator=(const PjrtBuffer&) = delete;

  /// Puts a tensor on a device. A device that shares the host's memory reads the tensor's memory in place, so the
  /// tensor must not be written to while the buffer is used; the buffer keeps the tensor.
  /// Requires: a contiguous CPU tensor of a dtype that pjrt_type() knows. Errors: UserError.
  static std::shared_ptr<PjrtBuffer> from_tensor(std::shared_ptr<const PjrtClient> client, const at::Tensor& tensor);

  /// Returns the values as a contiguous CPU tensor, once they are computed. On a device that shares the host's memory
  /// the tensor takes the buffer over, without a copy. Requires: the buffer's own sizes and dtype. Errors: UserError.
  static at::Tensor to_tensor(std::shared_ptr<PjrtBuffer> buffer, at::IntArrayRef sizes, at::ScalarType dtype);

  PJRT_Buffer* get() const { return buffer_; }

 private:
  void wait() const;
  bool is_on_host() const;

  std::shared_ptr<const PjrtClient> client_;
  PJRT_Buffer* buffer_;
  at::Tensor source_;  // whose memory the buffer reads
};

/// A program that a plugin has compiled for one device.
class PjrtProgram {
 public:
  /// Compiles a StableHLO module whose function `main` takes and returns tensors.
  /// Errors: UserError holds the plugin's text.
  PjrtProgram(std::shared_ptr<const PjrtClient> client, std::string_view module);
  ~PjrtProgram();
  PjrtProgram(const PjrtProgram&) = delete;
  PjrtProgram& operator=(const PjrtProgram&) = delete;

  /// Runs the program and returns its results, which may still be computed. Threads: any number at once.
  /// Errors: UserError holds the plugin's text.
  std::vector<std::shared_ptr<PjrtBuffer>> run(const std::vector<std::shared_ptr<PjrtBuffer>>& inputs) const;

 private:
  std::shared_ptr<const PjrtClient> client_;
  PJRT_LoadedExecutable* executable_ = nullptr;
  size_t num_outputs_ = 0;
};

/// The element type of a buffer for a dtype. Errors: UserError for a dtype that PJRT does not have.
PJRT_Buffer_Type pjrt_type(at::ScalarType dtype);

}  // namespace diptych::detail
