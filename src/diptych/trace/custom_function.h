// Nodes whose backward a user has written.
#pragma once
#include <torch/csrc/autograd/function.h>

#include <string_view>
#include <typeinfo>

namespace diptych::detail {

/// A torch.autograd.Function of Python's. By the mangled name: Node::name() would spell out that of each node in a
/// graph.
inline bool is_python_function(const torch::autograd::Node& node) {
  return std::string_view(typeid(node).name()).find("PyNode") != std::string_view::npos;
}

/// One of Python's, or a torch::autograd::Function of C++'s.
inline bool is_custom_function(const torch::autograd::Node& node) {
  return is_python_function(node) || std::string_view(typeid(node).name()).find("CppNode") != std::string_view::npos;
}

}  // namespace diptych::detail
