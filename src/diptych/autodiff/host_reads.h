// What a user's backward reads in the language of a binding.
#pragma once
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace diptych::detail {

/// Note [What a backward reads]: guards read what a function reads when it is called. A Function that a user has
/// written in Python has a backward, too, which in eager runs long after the call and reads variables as they are then,
/// as do hooks that the function puts on gradients; the backward graph stands for what they were. So what these lead to
/// is read at each call, and again as the graph is about to run. If it is not what it was, the backward is refused.
class HostReads {
 public:
  virtual ~HostReads() = default;
  /// Of whom the backward is, for messages.
  virtual std::string name() const = 0;
  /// Equal for equal states. Threads: any.
  virtual uint64_t hash() const = 0;
};

/// With the hash at the time of a call.
using HostState = std::vector<std::pair<std::shared_ptr<const HostReads>, uint64_t>>;

/// A binding's; gives null for a node whose backward and hooks read nothing.
inline std::shared_ptr<const HostReads> (*host_reads_of)(torch::autograd::Node& node) = nullptr;

}  // namespace diptych::detail
