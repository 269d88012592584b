// A tensor on a device of a PJRT plugin.
#pragma once
#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <vector>

#include "diptych/xla/pjrt/pjrt_client.h"

namespace diptych::detail {

/// A tensor on a device. A program may still be computing it: what reads values waits for them, and throws UserError if
/// the program failed. A buffer that was donated to a program holds no values any more; whatever needs them throws
/// UserError. Threads: any number may read a buffer at once; donating one excludes other uses.
class PjrtBuffer {
 public:
  PjrtBuffer(std::shared_ptr<const PjrtClient> client, PJRT_Buffer* buffer)
      : client_(std::move(client)), buffer_(buffer, {&client_->api()}) {}

  /// Puts a tensor on a device of the client. A device that shares the host's memory reads the tensor's memory in
  /// place, so the tensor must not be written to while the buffer is used; the buffer keeps the tensor, and a program
  /// to which it is donated computes into other memory.
  /// Requires: a contiguous CPU tensor. Errors: UserError for a dtype that XLA or the plugin lacks.
  static std::shared_ptr<PjrtBuffer> from_tensor(std::shared_ptr<const PjrtClient> client, const at::Tensor& tensor,
                                                 size_t device = 0);
  /// Copies a tensor to memory of the device's own, which programs can reuse. The tensor is free when it returns.
  /// Requires and errors: as from_tensor().
  static std::shared_ptr<PjrtBuffer> copy_from(std::shared_ptr<const PjrtClient> client, const at::Tensor& tensor,
                                               size_t device = 0);

  /// Returns the values as a contiguous CPU tensor, once they are computed. On a device that shares the host's memory
  /// the tensor takes the buffer over, without a copy; from then on donating it leaves its memory alone.
  /// Requires: `sizes` and `dtype` are the buffer's. Errors: UserError.
  static at::Tensor to_tensor(std::shared_ptr<PjrtBuffer> buffer, at::IntArrayRef sizes, at::ScalarType dtype);
  /// Copies the values to a tensor, once they are computed.
  /// Requires: a contiguous CPU tensor. Errors: UserError if it has other sizes or another dtype.
  void copy_to(const at::Tensor& tensor) const;

  /// Whether the values are computed, or have failed to be; does not wait.
  bool is_ready() const;
  /// Waits until the values are computed. Errors: UserError if they have failed to be.
  void wait() const;

  std::vector<int64_t> sizes() const;
  at::ScalarType dtype() const;
  /// The memory that the buffer takes on its device, in bytes.
  size_t bytes_on_device() const;
  /// The address of the values on the device, for comparisons. Waits for them.
  uintptr_t address() const;
  /// Whether a program has taken the buffer's memory.
  bool is_donated() const { return is_donated_; }

  PJRT_Buffer* get() const { return buffer_.get(); }

 private:
  friend class PjrtProgram;
  static std::shared_ptr<PjrtBuffer> transfer(std::shared_ptr<const PjrtClient> client, const at::Tensor& tensor,
                                              size_t device, PJRT_HostBufferSemantics semantics);
  void check_usable() const;
  PjrtEventHandle ready_event() const;
  bool is_on_host() const;

  std::shared_ptr<const PjrtClient> client_;
  PjrtBufferHandle buffer_;
  at::Tensor source_;  // whose memory the buffer reads
  std::atomic<bool> is_donated_ = false;
  std::atomic<bool> is_lent_ = false;  // a tensor lies over its memory
};

}  // namespace diptych::detail
