// Tensors of the host whose newest values are on devices.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "diptych/xla/hlo/lower_graph.h"
#include "diptych/xla/pjrt/sharded_buffer.h"

namespace diptych::detail {

/// How a tensor gets to the devices for one parameter of a program, and how it lies there.
struct DevicePort {
  const HloSlot& slot;
  std::function<std::shared_ptr<ShardedBuffer>(const at::Tensor& tensor)> send;
};

/// Keeps a buffer for each tensor that a step changes. Where the host may have changed a tensor that the devices hold
/// no newer value of, it is sent again: after each sync(), since not every write counts in a tensor's version. Threads:
/// one at a time.
class DeviceTensors {
 public:
  /// A tensor, and 0; or a parameter, and 1 + the number of one of the states that its optimizer keeps.
  using Key = std::pair<const c10::TensorImpl*, size_t>;
  struct Entry {
    std::string name;
    at::Tensor owner;  ///< the tensor of the key
    at::Tensor host;   ///< where the values belong; undefined for a state that the optimizer does not have yet
    int64_t version = -1;
    HloSlot slot;  ///< how it lies on the devices
    std::shared_ptr<ShardedBuffer> buffer;
    bool is_ahead = false;  ///< whether the devices have a newer value than the host
  };

  /// Returns the buffer of a tensor, sent by `port` where it is needed; an undefined `host` is zeros like `owner`.
  /// Errors: UserError for a tensor that the host has changed while the devices hold a newer value, or whose value was
  /// lost when a step failed.
  std::shared_ptr<ShardedBuffer> buffer_of(size_t part, const std::string& name, const at::Tensor& owner,
                                           const at::Tensor& host, const DevicePort& port);
  /// Notes the value that a step has computed.
  void set(const Key& key, std::shared_ptr<ShardedBuffer> buffer);
  bool is_ahead(const Key& key) const;
  bool is_any_ahead() const;
  /// Copies all newer values to the host. `place` makes the tensor of an entry that has none.
  /// Errors: UserError if a step has failed; values that were copied before stay copied.
  void sync(const std::function<at::Tensor(const Key& key, const Entry& entry)>& place);
  const std::map<Key, Entry>& entries() const { return entries_; }

 private:
  std::map<Key, Entry> entries_;
};

}  // namespace diptych::detail
