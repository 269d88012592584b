// dp::jacrev, dp::jacfwd and dp::hessian: whole matrices of derivatives.
#pragma once
#include "diptych/transforms/jvp.h"
#include "diptych/transforms/vjp.h"
#include "diptych/transforms/vmap.h"

namespace diptych {
namespace detail {

/// Returns the tensors e_1 ... e_n of the sizes of `like`, stacked: [n, ...] of zeros with a one each, n its elements.
at::Tensor basis_like(const at::Tensor& like);
/// Returns J as [result..., argument...] from rows [elements of result, argument...], or from columns
/// [elements of argument, result...].
at::Tensor from_rows(const at::Tensor& rows, const at::Tensor& result);
at::Tensor from_columns(const at::Tensor& columns, const at::Tensor& argument);

template <class F>
struct JacobianByRows {
  F function;
  template <class... Rest>
  at::Tensor operator()(const at::Tensor& x, const Rest&... rest) const {
    const auto of_first = [&](const at::Tensor& first) -> at::Tensor { return function(first, rest...); };
    const auto recorded = vjp(of_first, x);
    const auto row = [&](const at::Tensor& tangent) { return std::get<0>(recorded.second(tangent)); };
    return from_rows(vmap(row)(basis_like(recorded.first)), recorded.first);
  }
};

template <class F>
struct JacobianByColumns {
  F function;
  template <class... Rest>
  at::Tensor operator()(const at::Tensor& x, const Rest&... rest) const {
    const auto of_first = [&](const at::Tensor& first) -> at::Tensor { return function(first, rest...); };
    const auto column = [&](const at::Tensor& tangent) {
      return jvp(of_first, std::tuple(x), std::tuple(tangent)).second;
    };
    return from_columns(vmap(column)(basis_like(x)), x);
  }
};

}  // namespace detail

/// Returns the function of the same arguments that returns the Jacobian of `function` with respect to its first, both
/// tensors: [result..., argument...]. Rows are computed as one batch, by reverse mode: for results smaller than the
/// argument. Composes like vmap(). Errors: as vjp(). Source: jax.jacrev; torch.func.jacrev.
template <class F>
auto jacrev(F&& function) {
  return detail::JacobianByRows<std::decay_t<F>>{std::forward<F>(function)};
}

/// The same by forward mode, whose columns are computed as one batch: for arguments smaller than the result.
/// Errors: as jvp(). Source: jax.jacfwd; torch.func.jacfwd.
template <class F>
auto jacfwd(F&& function) {
  return detail::JacobianByColumns<std::decay_t<F>>{std::forward<F>(function)};
}

/// Returns the function of the same arguments that returns the second derivatives of a function of a tensor that
/// returns a tensor: [result..., argument..., argument...], by forward mode over reverse mode.
/// Source: jax.hessian; torch.func.hessian.
template <class F>
auto hessian(F&& function) {
  return jacfwd(jacrev(std::forward<F>(function)));
}

}  // namespace diptych
