// What the derivatives of scans share.
#pragma once
#include "diptych/hops/gradient_body.h"
#include "diptych/hops/scan/scan_operator.h"

namespace diptych::detail {

/// Returns the derivative of hop.scan, for any hop with its groups, `length`, `reverse` and body.
std::unique_ptr<Derivative> scan_derivative(const Hop& scan, const std::vector<bool>& requires_grad, bool create_graph);

/// Returns what a backward loop starts with: gradients of the last carries, zeros where none is given, and zeros for
/// sums.
std::vector<at::Tensor> first_gradients(const GradientBody& body, const Body& forward, size_t num_loop_inputs,
                                        const std::vector<at::Tensor>& tangents);

/// Returns the results of a backward loop as one gradient per operand of the forward.
std::vector<at::Tensor> spread_gradients(const GradientBody& body, const std::vector<at::Tensor>& results,
                                         const ScanLayout& layout);

}  // namespace diptych::detail
