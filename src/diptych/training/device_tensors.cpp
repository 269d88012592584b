#include "diptych/training/device_tensors.h"

#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "diptych/base/check.h"

namespace diptych::detail {
namespace {

// Of a tensor that the host may write to in ways that its version does not tell, as through Python's Tensor.data.
constexpr int64_t kAnyVersion = -2;

int64_t version_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<int64_t>(tensor.unsafeGetTensorImpl()->version_counter().current_version())
                          : -1;
}

// A tensor of the host that lies otherwise than the devices' takes the values by way of a copy.
void copy_back(const DeviceTensors::Entry& entry) {
  const at::Tensor lying = entry.host.detach().permute(entry.slot.order);
  const at::Tensor dense = lying.contiguous();
  entry.buffer->copy_to(dense.view(entry.slot.passed));
  if (!dense.is_alias_of(lying)) lying.copy_(dense);
}

}  // namespace

std::shared_ptr<ShardedBuffer> DeviceTensors::buffer_of(size_t part, const std::string& name, const at::Tensor& owner,
                                                        const at::Tensor& host, const DevicePort& port) {
  Entry& entry = entries_[{owner.unsafeGetTensorImpl(), part}];
  const bool is_same = entry.buffer != nullptr && entry.host.is_same(host) && entry.version == version_of(host);
  DIPTYCH_CHECK(is_same || !entry.is_ahead,
                "[step] '{}' was changed on the host after a step that has left a newer value on the device; call "
                "sync() before you change it",
                name);
  DIPTYCH_CHECK(!entry.is_ahead || !entry.buffer->is_donated(),
                "[step] the value of '{}' was lost when a step failed; make a new step from a checkpoint", name);
  if (is_same && !entry.buffer->is_donated()) return entry.buffer;
  entry.buffer = port.send(host.defined() ? host : at::zeros_like(owner));
  entry.name = name;
  entry.slot = port.slot;
  entry.owner = owner;
  entry.host = host;
  entry.version = version_of(host);
  return entry.buffer;
}

void DeviceTensors::set(const Key& key, std::shared_ptr<ShardedBuffer> buffer) {
  Entry& entry = entries_.at(key);
  entry.buffer = std::move(buffer);
  entry.is_ahead = true;
}

bool DeviceTensors::is_ahead(const Key& key) const {
  const auto found = entries_.find(key);
  return found != entries_.end() && found->second.is_ahead;
}

bool DeviceTensors::is_any_ahead() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const auto& item) { return item.second.is_ahead; });
}

void DeviceTensors::sync(const std::function<at::Tensor(const Key& key, const Entry& entry)>& place) {
  for (auto& [key, entry] : entries_) {
    if (!entry.is_ahead) continue;
    if (!entry.host.defined()) entry.host = place(key, entry);
    copy_back(entry);
    // The copy goes past autograd, which has to know that the values are others.
    entry.host.unsafeGetTensorImpl()->bump_version();
    entry.version = kAnyVersion;
    entry.is_ahead = false;
  }
  // What nobody else holds, such as a batch that the function has changed, will not be asked for again. An entry holds
  // such a tensor twice, as its owner and as the place of its values.
  constexpr size_t kOwn = 2;
  std::erase_if(entries_,
                [](const auto& item) { return item.first.second == 0 && item.second.owner.use_count() == kOwn; });
}

}  // namespace diptych::detail
