#include "diptych/xla/pjrt/sharded_buffer.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "diptych/base/check.h"
#include "diptych/xla/hlo/hlo_writer.h"

namespace diptych::detail {
namespace {

using Transfer = std::shared_ptr<PjrtBuffer> (*)(std::shared_ptr<const PjrtClient>, const at::Tensor&, size_t);

// How many processes a launcher has started together; 1 without a launcher.
std::string_view num_launched_processes() {
  const char* const number = std::getenv("WORLD_SIZE");
  return number == nullptr || *number == '\0' ? "1" : number;
}

at::Tensor shard_view(const at::Tensor& tensor, const xla::Mesh& mesh, const xla::Sharding& sharding, int64_t device) {
  const auto starts = xla::shard_starts(mesh, sharding, tensor.sizes(), device);
  const auto sizes = xla::shard_sizes(mesh, sharding, tensor.sizes());
  at::Tensor view = tensor;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) view = view.narrow(dim, starts[dim], sizes[dim]);
  return view;
}

std::shared_ptr<ShardedBuffer> split_tensor(const std::shared_ptr<const PjrtClient>& client, const at::Tensor& tensor,
                                            const xla::Mesh& mesh, const xla::Sharding& sharding, Transfer transfer) {
  check_devices(*client, mesh);
  const xla::Sharding complete = xla::complete_sharding(mesh, sharding, "a tensor", tensor.sizes());
  std::vector<std::shared_ptr<PjrtBuffer>> shards;
  for (int64_t device = 0; device < mesh.num_devices(); ++device) {
    shards.push_back(transfer(client, shard_view(tensor, mesh, complete, device).contiguous(), device));
  }
  return std::make_shared<ShardedBuffer>(mesh, complete, std::move(shards));
}

}  // namespace

void check_devices(const PjrtClient& client, const xla::Mesh& mesh) {
  xla::check_mesh(mesh);
  const bool fits = mesh.num_devices() <= static_cast<int64_t>(client.num_devices());
  DIPTYCH_CHECK(fits || num_launched_processes() == "1",
                "[xla] a mesh got {} devices in one of {} processes (WORLD_SIZE), and the PJRT plugin has {}, all of "
                "this process: a plugin is opened for one process and sees no other's devices; use a mesh within a "
                "process (with the CPU plugin, set DIPTYCH_XLA_CPU_DEVICES={} before its first XLA program), and "
                "dp::capture_step with a GradientReduction between processes",
                mesh.num_devices(), num_launched_processes(), client.num_devices(), mesh.num_devices());
  DIPTYCH_CHECK(mesh.num_devices() <= static_cast<int64_t>(client.num_devices()),
                "[xla] a mesh got {} devices and the PJRT plugin has {}; use a smaller mesh, or, with the CPU plugin, "
                "set DIPTYCH_XLA_CPU_DEVICES={} before the first XLA program of the process",
                mesh.num_devices(), client.num_devices(), mesh.num_devices());
}

ShardedBuffer::ShardedBuffer(xla::Mesh mesh, xla::Sharding sharding, std::vector<std::shared_ptr<PjrtBuffer>> shards)
    : mesh_(std::move(mesh)), sharding_(std::move(sharding)), shards_(std::move(shards)) {
  DIPTYCH_ASSERT(static_cast<int64_t>(shards_.size()) == mesh_.num_devices(), "{} shards for {} devices",
                 shards_.size(), mesh_.num_devices());
}

std::shared_ptr<ShardedBuffer> ShardedBuffer::from_tensor(const std::shared_ptr<const PjrtClient>& client,
                                                          const at::Tensor& tensor, const xla::Mesh& mesh,
                                                          const xla::Sharding& sharding) {
  return split_tensor(client, tensor, mesh, sharding, &PjrtBuffer::from_tensor);
}

std::shared_ptr<ShardedBuffer> ShardedBuffer::copy_from(const std::shared_ptr<const PjrtClient>& client,
                                                        const at::Tensor& tensor, const xla::Mesh& mesh,
                                                        const xla::Sharding& sharding) {
  return split_tensor(client, tensor, mesh, sharding, &PjrtBuffer::copy_from);
}

// Devices whose shards are the same part of the tensor have the same values; one of them is copied.
void ShardedBuffer::copy_to(const at::Tensor& tensor) const {
  DIPTYCH_CHECK(tensor.scalar_type() == dtype() && tensor.sizes() == at::IntArrayRef(sizes()),
                "[xla] copying a sharded buffer of {} got a tensor of {}; pass one of the buffer's sizes and dtype",
                hlo_type(dtype(), sizes()), hlo_type(tensor.scalar_type(), tensor.sizes()));
  wait();
  std::vector<std::vector<int64_t>> copied;
  for (size_t device = 0; device < shards_.size(); ++device) {
    auto starts = xla::shard_starts(mesh_, sharding_, tensor.sizes(), static_cast<int64_t>(device));
    if (std::find(copied.begin(), copied.end(), starts) != copied.end()) continue;
    const at::Tensor view = shard_view(tensor, mesh_, sharding_, static_cast<int64_t>(device));
    const at::Tensor dense = view.is_contiguous() ? view : at::empty(view.sizes(), view.options());
    shards_[device]->copy_to(dense);
    if (!dense.is_same(view)) view.copy_(dense);
    copied.push_back(std::move(starts));
  }
}

bool ShardedBuffer::is_ready() const {
  return std::all_of(shards_.begin(), shards_.end(), [](const auto& shard) { return shard->is_ready(); });
}

void ShardedBuffer::wait() const {
  for (const auto& shard : shards_) shard->wait();
}

bool ShardedBuffer::is_donated() const {
  return std::any_of(shards_.begin(), shards_.end(), [](const auto& shard) { return shard->is_donated(); });
}

std::vector<int64_t> ShardedBuffer::sizes() const {
  std::vector<int64_t> sizes = shards_.front()->sizes();
  const auto parts = xla::shard_sizes(mesh_, sharding_, std::vector<int64_t>(sizes.size(), mesh_.num_devices()));
  for (size_t dim = 0; dim < sizes.size(); ++dim) sizes[dim] *= mesh_.num_devices() / parts[dim];
  return sizes;
}

}  // namespace diptych::detail
