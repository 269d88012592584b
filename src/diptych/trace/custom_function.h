// Autograd nodes whose backward a user has written.
#pragma once
#include <torch/csrc/autograd/function.h>

#include <string_view>
#include <typeinfo>

namespace diptych::detail {

/// Whether a node is a torch.autograd.Function of Python. This reads the mangled name of the type, because Node::name()
/// would make a string for each node of a graph.
inline bool is_python_function(const torch::autograd::Node& node) {
  return std::string_view(typeid(node).name()).find("PyNode") != std::string_view::npos;
}

/// Whether a node is a torch.autograd.Function of Python or a torch::autograd::Function of C++.
inline bool is_custom_function(const torch::autograd::Node& node) {
  return is_python_function(node) || std::string_view(typeid(node).name()).find("CppNode") != std::string_view::npos;
}

}  // namespace diptych::detail
