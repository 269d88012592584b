// What a user's backward reads in the language of a binding.
#pragma once
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace diptych::detail {

/// Note [What a backward reads]: guards check what a function reads when it is called. A Function that a user has
/// written in Python has a backward, too, which in eager runs long after the call and reads variables as they are then;
/// so do hooks that the function puts on gradients. The backward graph holds what the variables were at the call.
/// Therefore the variables that a backward or a hook can reach are read at each call, and again when the graph is about
/// to run. If they have changed, the backward is refused.
class HostReads {
 public:
  virtual ~HostReads() = default;
  /// Returns whose backward it is, for messages.
  virtual std::string name() const = 0;
  /// Returns a hash that is equal for equal states. Threads: any.
  virtual uint64_t hash() const = 0;
};

/// What backwards read, each with its hash at the time of a call.
using HostState = std::vector<std::pair<std::shared_ptr<const HostReads>, uint64_t>>;

/// Set by a binding; returns null for a node whose backward and hooks read nothing.
inline std::shared_ptr<const HostReads> (*host_reads_of)(torch::autograd::Node& node) = nullptr;

}  // namespace diptych::detail
