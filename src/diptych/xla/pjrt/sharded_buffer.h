// A tensor split over the devices of a mesh.
#pragma once
#include <memory>
#include <vector>

#include "diptych/xla/hlo/mesh.h"
#include "diptych/xla/pjrt/pjrt_buffer.h"

namespace diptych::detail {

/// Checks that a client has the devices of a mesh. Errors: UserError says what to set.
void check_devices(const PjrtClient& client, const xla::Mesh& mesh);

/// A tensor of which each device of a mesh holds the shard that its sharding says; device i of the client is number i
/// of the mesh. What holds of a PjrtBuffer (values that are still computed, donation, threads) holds of each shard.
class ShardedBuffer {
 public:
  /// Requires: a shard for each device of the mesh, and a complete sharding.
  ShardedBuffer(xla::Mesh mesh, xla::Sharding sharding, std::vector<std::shared_ptr<PjrtBuffer>> shards);

  /// Splits a tensor. Shards that are contiguous in it are read in place, as PjrtBuffer::from_tensor() does; the others
  /// are copied. Requires: a contiguous CPU tensor. Errors: UserError if the sharding does not fit the tensor, or the
  /// client lacks devices.
  static std::shared_ptr<ShardedBuffer> from_tensor(const std::shared_ptr<const PjrtClient>& client,
                                                    const at::Tensor& tensor, const xla::Mesh& mesh,
                                                    const xla::Sharding& sharding);
  /// Splits a tensor into memory of the devices' own, which programs can reuse. Requires and errors: as from_tensor().
  static std::shared_ptr<ShardedBuffer> copy_from(const std::shared_ptr<const PjrtClient>& client,
                                                  const at::Tensor& tensor, const xla::Mesh& mesh,
                                                  const xla::Sharding& sharding);

  /// Copies the values, once they are computed, to a tensor. Requires: a CPU tensor.
  /// Errors: UserError if it has other sizes or another dtype, or the values were donated or failed to be computed.
  void copy_to(const at::Tensor& tensor) const;

  /// As for PjrtBuffer, of all shards.
  bool is_ready() const;
  void wait() const;
  bool is_donated() const;

  /// Of the whole tensor.
  std::vector<int64_t> sizes() const;
  at::ScalarType dtype() const { return shards_.front()->dtype(); }
  const xla::Mesh& mesh() const { return mesh_; }
  const xla::Sharding& sharding() const { return sharding_; }
  /// The memory that the shard of one device takes, in bytes.
  size_t bytes_on_device(size_t device) const { return shards_.at(device)->bytes_on_device(); }
  const std::shared_ptr<PjrtBuffer>& shard(size_t device) const { return shards_.at(device); }

 private:
  xla::Mesh mesh_;
  xla::Sharding sharding_;
  std::vector<std::shared_ptr<PjrtBuffer>> shards_;
};

}  // namespace diptych::detail
