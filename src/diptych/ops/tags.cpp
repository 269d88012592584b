#include "diptych/ops/tags.h"
#include "diptych/graph/subgraphs.h"

#include <ATen/core/enum_tag.h>

#include <string_view>
#include <unordered_map>

namespace diptych::detail {
namespace {

constexpr uint32_t bit(Tag tag) { return static_cast<uint32_t>(tag); }
constexpr uint32_t operator|(Tag left, Tag right) { return bit(left) | bit(right); }
constexpr uint32_t operator|(uint32_t left, Tag right) { return left | bit(right); }

struct TagRow {
  std::string_view name;  // without an overload it stands for all overloads
  uint32_t tags;
};

// Facts that neither the schema nor LibTorch's tags state. LibTorch tags no gradient of a pointwise function.
constexpr TagRow kTagRows[] = {
    {"aten::binary_cross_entropy_backward", bit(Tag::kPointwise)},
    {"diptych::checked", bit(Tag::kPointwise)},
    {"aten::copy", Tag::kPointwise | Tag::kCopy},
    {"aten::elu_backward", bit(Tag::kPointwise)},
    {"aten::gelu_backward", bit(Tag::kPointwise)},
    {"aten::hardshrink_backward", bit(Tag::kPointwise)},
    {"aten::hardsigmoid_backward", bit(Tag::kPointwise)},
    {"aten::hardswish", bit(Tag::kPointwise)},
    {"aten::hardswish_backward", bit(Tag::kPointwise)},
    {"aten::hardtanh_backward", bit(Tag::kPointwise)},
    {"aten::leaky_relu_backward", bit(Tag::kPointwise)},
    {"aten::log_sigmoid_backward", bit(Tag::kPointwise)},
    {"aten::log_sigmoid_forward", bit(Tag::kPointwise)},
    {"aten::_prelu_kernel", bit(Tag::kPointwise)},
    {"aten::_prelu_kernel_backward", bit(Tag::kPointwise)},
    {"aten::mish_backward", bit(Tag::kPointwise)},
    {"aten::mse_loss_backward", bit(Tag::kPointwise)},
    {"aten::huber_loss_backward", bit(Tag::kPointwise)},
    {"aten::smooth_l1_loss_backward", bit(Tag::kPointwise)},
    {"aten::softplus_backward", bit(Tag::kPointwise)},
    {"aten::softshrink_backward", bit(Tag::kPointwise)},
    {"aten::complex", bit(Tag::kPointwise)},
    {"aten::polar", bit(Tag::kPointwise)},
    {"aten::fill", bit(Tag::kPointwise)},
    {"aten::zero", bit(Tag::kPointwise)},

    {"aten::_log_softmax", bit(Tag::kReduction)},
    {"aten::_log_softmax_backward_data", bit(Tag::kReduction)},
    {"aten::_softmax", bit(Tag::kReduction)},
    {"aten::_softmax_backward_data", bit(Tag::kReduction)},
    {"aten::_safe_softmax", bit(Tag::kReduction)},
    {"aten::_masked_softmax", bit(Tag::kReduction)},
    {"aten::_masked_softmax_backward", bit(Tag::kReduction)},
    {"aten::native_layer_norm", bit(Tag::kReduction)},
    {"aten::native_layer_norm_backward", bit(Tag::kReduction)},
    {"aten::native_group_norm", bit(Tag::kReduction)},
    {"aten::native_group_norm_backward", Tag::kReduction | Tag::kStrideSensitive},  // reads memory as contiguous
    {"aten::native_batch_norm", bit(Tag::kReduction)},
    {"aten::native_batch_norm_backward", bit(Tag::kReduction)},
    {"aten::batch_norm_backward", bit(Tag::kReduction)},
    {"aten::_native_batch_norm_legit", bit(Tag::kReduction)},
    {"aten::_native_batch_norm_legit_no_training", bit(Tag::kReduction)},
    {"aten::_native_batch_norm_legit_functional", bit(Tag::kReduction)},
    {"aten::_batch_norm_with_update", bit(Tag::kReduction)},
    {"aten::_batch_norm_with_update_functional", bit(Tag::kReduction)},
    {"aten::_batch_norm_no_update", bit(Tag::kReduction)},
    {"aten::_fused_rms_norm", bit(Tag::kReduction)},
    {"aten::_fused_rms_norm_backward", bit(Tag::kReduction)},
    {"aten::nll_loss_forward", bit(Tag::kReduction)},
    {"aten::nll_loss2d_forward", bit(Tag::kReduction)},
    {"aten::mse_loss", bit(Tag::kReduction)},
    {"aten::smooth_l1_loss", bit(Tag::kReduction)},
    {"aten::huber_loss", bit(Tag::kReduction)},
    {"aten::binary_cross_entropy", bit(Tag::kReduction)},
    {"aten::median", bit(Tag::kReduction)},
    {"aten::nanmedian", bit(Tag::kReduction)},
    {"aten::mode", bit(Tag::kReduction)},
    {"aten::kthvalue", bit(Tag::kReduction)},

    {"aten::mm", Tag::kComputeHeavy | Tag::kMatrixProduct},
    {"aten::bmm", bit(Tag::kComputeHeavy)},
    {"aten::mv", bit(Tag::kComputeHeavy)},
    {"aten::dot", bit(Tag::kComputeHeavy)},
    {"aten::vdot", bit(Tag::kComputeHeavy)},
    {"aten::addmm", bit(Tag::kComputeHeavy)},
    {"aten::_addmm_activation", bit(Tag::kComputeHeavy)},
    {"aten::addmv", bit(Tag::kComputeHeavy)},
    {"aten::addbmm", bit(Tag::kComputeHeavy)},
    {"aten::baddbmm", bit(Tag::kComputeHeavy)},
    {"aten::linear", bit(Tag::kComputeHeavy)},
    {"aten::linear_backward", bit(Tag::kComputeHeavy)},
    {"aten::matmul", bit(Tag::kComputeHeavy)},
    {"aten::matmul_backward", bit(Tag::kComputeHeavy)},
    {"aten::_trilinear", bit(Tag::kComputeHeavy)},
    {"aten::convolution", bit(Tag::kComputeHeavy)},
    {"aten::convolution_backward", bit(Tag::kComputeHeavy)},
    {"aten::convolution_overrideable", bit(Tag::kComputeHeavy)},
    {"aten::convolution_backward_overrideable", bit(Tag::kComputeHeavy)},
    {"aten::_convolution", bit(Tag::kComputeHeavy)},
    {"aten::mkldnn_convolution", bit(Tag::kComputeHeavy)},
    {"aten::cudnn_convolution", bit(Tag::kComputeHeavy)},
    {"aten::scaled_dot_product_attention", bit(Tag::kComputeHeavy)},
    {"aten::_scaled_dot_product_attention_math", bit(Tag::kComputeHeavy)},
    {"aten::_scaled_dot_product_flash_attention", bit(Tag::kComputeHeavy)},
    {"aten::_scaled_dot_product_flash_attention_backward", bit(Tag::kComputeHeavy)},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", bit(Tag::kComputeHeavy)},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", bit(Tag::kComputeHeavy)},
    {"aten::_scaled_dot_product_efficient_attention", bit(Tag::kComputeHeavy)},
    {"aten::_scaled_dot_product_efficient_attention_backward", bit(Tag::kComputeHeavy)},
    {"aten::_scaled_dot_product_cudnn_attention", bit(Tag::kComputeHeavy)},
    {"aten::_scaled_dot_product_cudnn_attention_backward", bit(Tag::kComputeHeavy)},
    {"aten::_flash_attention_forward", bit(Tag::kComputeHeavy)},
    {"aten::_flash_attention_backward", bit(Tag::kComputeHeavy)},
    {"aten::_efficient_attention_forward", bit(Tag::kComputeHeavy)},
    {"aten::_efficient_attention_backward", bit(Tag::kComputeHeavy)},
    {"aten::lstm", bit(Tag::kComputeHeavy)},
    {"aten::gru", bit(Tag::kComputeHeavy)},
    {"aten::mkldnn_rnn_layer", bit(Tag::kComputeHeavy)},
    {"aten::mkldnn_rnn_layer_backward", bit(Tag::kComputeHeavy)},
    {"aten::_cdist_forward", bit(Tag::kComputeHeavy)},
    {"aten::_cdist_backward", Tag::kComputeHeavy | Tag::kStrideSensitive},
    {"aten::_linalg_det", bit(Tag::kComputeHeavy)},
    {"aten::_linalg_slogdet", bit(Tag::kComputeHeavy)},
    {"aten::_linalg_solve_ex", bit(Tag::kComputeHeavy)},
    {"aten::_linalg_eigh", bit(Tag::kComputeHeavy)},
    {"aten::_linalg_svd", bit(Tag::kComputeHeavy)},
    {"aten::linalg_cholesky_ex", bit(Tag::kComputeHeavy)},
    {"aten::linalg_eig", bit(Tag::kComputeHeavy)},
    {"aten::linalg_inv_ex", bit(Tag::kComputeHeavy)},
    {"aten::linalg_lstsq", bit(Tag::kComputeHeavy)},
    {"aten::linalg_lu", bit(Tag::kComputeHeavy)},
    {"aten::linalg_lu_factor_ex", bit(Tag::kComputeHeavy)},
    {"aten::linalg_lu_solve", bit(Tag::kComputeHeavy)},
    {"aten::linalg_matrix_exp", bit(Tag::kComputeHeavy)},
    {"aten::linalg_qr", bit(Tag::kComputeHeavy)},
    {"aten::linalg_solve_triangular", bit(Tag::kComputeHeavy)},
    {"aten::cholesky_solve", bit(Tag::kComputeHeavy)},
    {"aten::cholesky_inverse", bit(Tag::kComputeHeavy)},
    {"aten::triangular_solve", bit(Tag::kComputeHeavy)},
    {"aten::_fft_c2c", bit(Tag::kComputeHeavy)},
    {"aten::_fft_c2r", bit(Tag::kComputeHeavy)},
    {"aten::_fft_r2c", bit(Tag::kComputeHeavy)},
    {"aten::_ctc_loss", bit(Tag::kComputeHeavy)},
    {"aten::_ctc_loss_backward", Tag::kComputeHeavy | Tag::kStrideSensitive},
    {"aten::sort", bit(Tag::kComputeHeavy)},
    {"aten::topk", bit(Tag::kComputeHeavy)},

    {"aten::empty_like", bit(Tag::kFactory)},
    {"aten::full_like", bit(Tag::kFactory)},
    {"aten::ones_like", bit(Tag::kFactory)},
    {"aten::zeros", bit(Tag::kZeros)},
    {"aten::zeros_like", Tag::kFactory | Tag::kZeros},
    {"aten::rand_like", Tag::kFactory | Tag::kDrawsOnly},
    {"aten::randn_like", Tag::kFactory | Tag::kDrawsOnly},
    {"aten::randint_like", Tag::kFactory | Tag::kDrawsOnly},
    {"aten::new_empty", bit(Tag::kFactory)},
    {"aten::new_empty_strided", bit(Tag::kFactory)},
    {"aten::new_full", bit(Tag::kFactory)},
    {"aten::new_ones", bit(Tag::kFactory)},
    {"aten::new_zeros", Tag::kFactory | Tag::kZeros},

    {"aten::bernoulli.p", bit(Tag::kDrawsOnly)},
    {"aten::cauchy", bit(Tag::kDrawsOnly)},
    {"aten::exponential", bit(Tag::kDrawsOnly)},
    {"aten::geometric", bit(Tag::kDrawsOnly)},
    {"aten::log_normal", bit(Tag::kDrawsOnly)},
    {"aten::normal_functional", bit(Tag::kDrawsOnly)},
    {"aten::random", bit(Tag::kDrawsOnly)},
    {"aten::uniform", bit(Tag::kDrawsOnly)},

    {"aten::_local_scalar_dense", bit(Tag::kDataDependent)},
    {"aten::is_nonzero", bit(Tag::kDataDependent)},
    {"aten::_pack_padded_sequence", bit(Tag::kDataDependent)},
    {"aten::_pad_packed_sequence", bit(Tag::kDataDependent)},
    {"aten::ctc_loss.Tensor", bit(Tag::kDataDependent)},
    {"aten::gru.data", bit(Tag::kDataDependent)},
    {"aten::lstm.data", bit(Tag::kDataDependent)},
    {"aten::rnn_relu.data", bit(Tag::kDataDependent)},
    {"aten::rnn_tanh.data", bit(Tag::kDataDependent)},
    {"aten::is_set_to", bit(Tag::kDataDependent)},
    {"aten::nonzero_numpy", bit(Tag::kDataDependent)},
    {"aten::tensor_split.tensor_indices_or_sections", bit(Tag::kDataDependent)},

    {"aten::view", Tag::kStrideSensitive | Tag::kShapeView},
    {"aten::_unsafe_view", Tag::kStrideSensitive | Tag::kSharesStorage | Tag::kShapeView},
    {"aten::_reshape_alias", Tag::kStrideSensitive | Tag::kShapeView},
    {"aten::as_strided", bit(Tag::kStrideSensitive)},
    {"aten::as_strided_copy", bit(Tag::kStrideSensitive)},
    {"aten::as_strided_scatter", Tag::kStrideSensitive | Tag::kGather | Tag::kInverseView},
    {"aten::view_as_complex", Tag::kStrideSensitive | Tag::kReinterprets},
    {"aten::view_copy", bit(Tag::kStrideSensitive)},
    // Formulas of autograd lay a gradient out for these, which needs no operator where it lies so when it is traced.
    {"aten::_weight_norm_interface_backward", bit(Tag::kStrideSensitive)},
    {"aten::_pdist_backward", bit(Tag::kStrideSensitive)},
    {"aten::_embedding_bag_backward", bit(Tag::kStrideSensitive)},
    {"aten::_embedding_bag_dense_backward", bit(Tag::kStrideSensitive)},
    {"aten::_embedding_bag_per_sample_weights_backward", bit(Tag::kStrideSensitive)},
    {"aten::_segment_reduce_backward", bit(Tag::kStrideSensitive)},
    {"aten::mkldnn_rnn_layer_backward", bit(Tag::kStrideSensitive)},
    {"aten::view_as_complex_copy", bit(Tag::kStrideSensitive)},

    {"aten::cat", bit(Tag::kGather)},
    {"aten::stack", bit(Tag::kGather)},
    {"aten::index", bit(Tag::kGather)},
    {"aten::index_select", bit(Tag::kGather)},
    {"aten::gather", bit(Tag::kGather)},
    {"aten::take", bit(Tag::kGather)},
    {"aten::embedding", bit(Tag::kGather)},
    {"aten::flip", bit(Tag::kGather)},
    {"aten::roll", bit(Tag::kGather)},
    {"aten::repeat", bit(Tag::kGather)},
    {"aten::tril", bit(Tag::kGather)},
    {"aten::triu", bit(Tag::kGather)},
    {"aten::constant_pad_nd", bit(Tag::kGather)},
    {"aten::slice_scatter", Tag::kGather | Tag::kInverseView},
    {"aten::select_scatter", Tag::kGather | Tag::kInverseView},
    {"aten::diagonal_scatter", Tag::kGather | Tag::kInverseView},
    {"aten::diag_embed", bit(Tag::kGather)},
    {"aten::unfold_copy", bit(Tag::kGather)},
    {"aten::pixel_shuffle", bit(Tag::kGather)},
    {"aten::pixel_unshuffle", bit(Tag::kGather)},
    {"aten::im2col", bit(Tag::kGather)},

    {"aten::alias_copy", bit(Tag::kCopy)},
    {"aten::clone", bit(Tag::kCopy)},
    {"aten::contiguous", bit(Tag::kCopy)},
    {"aten::detach_copy", bit(Tag::kCopy)},
    {"aten::expand_copy", bit(Tag::kCopy)},
    {"aten::view_copy", bit(Tag::kCopy)},
    {"aten::_to_copy", Tag::kPointwise | Tag::kCopy},

    {"aten::diagonal", bit(Tag::kShapeView)},
    {"aten::expand", bit(Tag::kShapeView)},
    {"aten::permute", bit(Tag::kShapeView)},
    {"aten::select", bit(Tag::kShapeView)},
    {"aten::slice", bit(Tag::kShapeView)},
    {"aten::squeeze", bit(Tag::kShapeView)},
    {"aten::t", bit(Tag::kShapeView)},
    {"aten::transpose", bit(Tag::kShapeView)},
    {"aten::unfold", bit(Tag::kShapeView)},
    {"aten::unsqueeze", bit(Tag::kShapeView)},

    {"aten::_conj", Tag::kLazyView | Tag::kConjugates | Tag::kReinterprets},
    {"aten::_neg_view", Tag::kLazyView | Tag::kNegates | Tag::kReinterprets},
    {"aten::view.dtype", bit(Tag::kReinterprets)},
    {"aten::view_as_real", bit(Tag::kReinterprets)},

    {"aten::add.Tensor", bit(Tag::kAddition)},
    {"aten::fill_", bit(Tag::kFills)},
    {"aten::zero_", bit(Tag::kFills)},

    // Kernels that read several elements for each one that they write, and do not look for operands that overlap it.
    {"aten::addbmm_", bit(Tag::kMixesElements)},
    {"aten::addmm_", bit(Tag::kMixesElements)},
    {"aten::addmv_", bit(Tag::kMixesElements)},
    {"aten::addr_", bit(Tag::kMixesElements)},
    {"aten::baddbmm_", bit(Tag::kMixesElements)},
    {"aten::masked_scatter_", bit(Tag::kMixesElements)},

    // Functionalization would take some of these and lose what callers see of them.
    {"aten::_resize_output_", bit(Tag::kChangesStorage)},
    {"aten::resize_", bit(Tag::kChangesStorage)},
    {"aten::resize_as_", bit(Tag::kChangesStorage)},
    {"aten::resize_as_sparse_", bit(Tag::kChangesStorage)},
    {"aten::set_", bit(Tag::kChangesStorage)},
    {"aten::set_data", bit(Tag::kChangesStorage)},
    {"aten::sparse_resize_", bit(Tag::kChangesStorage)},

    {"aten::alias", Tag::kIdentityView | Tag::kShapeView},
    {"aten::detach", Tag::kIdentityView | Tag::kShapeView | Tag::kStopsGradient},
    {"aten::lift_fresh", Tag::kIdentityView | Tag::kShapeView},

    {"_c10d_functional::all_gather_into_tensor", bit(Tag::kCollective)},
    {"_c10d_functional::all_gather_into_tensor_coalesced", bit(Tag::kCollective)},
    {"_c10d_functional::all_reduce", bit(Tag::kCollective)},
    {"_c10d_functional::all_reduce_coalesced", bit(Tag::kCollective)},
    {"_c10d_functional::all_to_all_single", bit(Tag::kCollective)},
    {"_c10d_functional::batch_p2p_ops", bit(Tag::kCollective)},
    {"_c10d_functional::broadcast", bit(Tag::kCollective)},
    {"_c10d_functional::irecv", bit(Tag::kCollective)},
    {"_c10d_functional::isend", bit(Tag::kCollective)},
    {"_c10d_functional::reduce_scatter_tensor", bit(Tag::kCollective)},
    {"_c10d_functional::reduce_scatter_tensor_coalesced", bit(Tag::kCollective)},
    // It returns the tensor that it waits for.
    {"_c10d_functional::wait_tensor", Tag::kCollective | Tag::kSharesStorage},
    {"_c10d_functional::wait_tensors", bit(Tag::kCollective)},  // of torch 2.15
};

// Tags that LibTorch, or a row for all overloads, gives to an operator to which they do not apply.
constexpr TagRow kNotTags[] = {
    {"aten::equal", bit(Tag::kPointwise)},         // returns one bool
    {"aten::mm.dtype", bit(Tag::kMatrixProduct)},  // its third operand is the dtype of the result
    {"aten::index", bit(Tag::kDataDependent)},     // only with a mask, which its shape rule refuses
    {"aten::_conj_copy", bit(Tag::kGather)},       // tagged view_copy, yet it computes
    {"aten::_neg_view_copy", bit(Tag::kGather)},
    {"aten::randint_like.Tensor", Tag::kFactory | Tag::kDrawsOnly},  // reads its bound from a tensor
    {"aten::randint_like.Tensor_generator", Tag::kFactory | Tag::kDrawsOnly},
    {"aten::_fused_sdp_choice", bit(Tag::kRandom)},                            // chooses a kernel, draws nothing
    {"aten::_scaled_dot_product_flash_attention_for_cpu", bit(Tag::kRandom)},  // its kernel has no dropout
};

uint32_t row_tags(const TagRow* begin, const TagRow* end, std::string_view name) {
  uint32_t found = 0;
  for (const TagRow* row = begin; row != end; ++row) {
    if (row->name == name) found |= row->tags;
  }
  return found;
}

uint32_t torch_tags(const c10::OperatorHandle& handle) {
  uint32_t found = 0;
  for (const auto tag : handle.getTags()) {
    switch (tag) {
      case at::Tag::pointwise:
        found |= bit(Tag::kPointwise);
        break;
      case at::Tag::reduction:
        found |= bit(Tag::kReduction);
        break;
      case at::Tag::nondeterministic_seeded:
        found |= bit(Tag::kRandom);
        break;
      case at::Tag::data_dependent_output:
      case at::Tag::dynamic_output_shape:
        found |= bit(Tag::kDataDependent);
        break;
      case at::Tag::view_copy:  // of any view: permute_copy may have the layout of its operand, and other elements
        found |= bit(Tag::kGather);
        break;
      default:
        break;
    }
  }
  return found;
}

bool is_tensor_type(const c10::TypePtr& type) {
  return type->isSubtypeOf(*c10::OptionalType::create(c10::TensorType::get()));
}

bool holds_tensors(const c10::TypePtr& type) {
  if (is_tensor_type(type)) return true;
  const auto list = type->cast<c10::ListType>();
  return list != nullptr && is_tensor_type(list->getElementType());
}

uint32_t schema_tags(const c10::FunctionSchema& schema) {
  uint32_t found = 0;
  if (schema.is_mutable()) found |= bit(Tag::kMutating);
  if (schema.getNamespace() == "aten") found |= bit(Tag::kNative);
  // What a library's kernel reads for an element that it writes is unknown.
  if (schema.is_mutable() && schema.getNamespace() != "aten") found |= bit(Tag::kMixesElements);
  bool makes_tensor = false;
  for (const auto& returned : schema.returns()) {
    makes_tensor = makes_tensor || holds_tensors(returned.type());
    if (returned.alias_info() == nullptr || returned.alias_info()->isWrite()) continue;
    found |= Tag::kView | Tag::kSharesStorage;
    if (returned.type()->kind() == c10::TypeKind::ListType) found |= bit(Tag::kMultiOutputView);
  }
  bool takes_tensor = false;
  for (const auto& argument : schema.arguments()) takes_tensor = takes_tensor || holds_tensors(argument.type());
  if (makes_tensor && !takes_tensor) found |= bit(Tag::kFactory);
  return found;
}

uint32_t compute_tags(const c10::OperatorHandle& handle) {
  const std::string_view name = handle.operator_name().name;
  const std::string with_overload = c10::toString(handle.operator_name());
  const auto rows = [&](const auto& table) {
    const uint32_t found = row_tags(std::begin(table), std::end(table), name);
    return with_overload == name ? found : found | row_tags(std::begin(table), std::end(table), with_overload);
  };
  return (schema_tags(handle.schema()) | torch_tags(handle) | rows(kTagRows)) & ~rows(kNotTags);
}

// Keyed by operator; per thread, so that the tracer's hot path takes no lock.
template <class T>
using OperatorCache = std::unordered_map<c10::OperatorHandle, T>;

std::optional<size_t> argument_index(const c10::FunctionSchema& schema, std::string_view name) {
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    if (schema.arguments()[i].name() == name) return i;
  }
  return std::nullopt;
}

const c10::IValue* constant_argument(const Node& node, std::string_view name) {
  const auto index = argument_index(node.op.schema(), name);
  return index && *index < node.operands.size() ? std::get_if<c10::IValue>(&node.operands[*index]) : nullptr;
}

// Dropout outside training and attention without dropout draw nothing; native_dropout in training draws even with a
// probability of 0.
bool operands_rule_out_a_draw(const Node& node) {
  const auto* probability = constant_argument(node, "dropout_p");
  if (probability != nullptr && probability->isDouble() && probability->toDouble() == 0) return true;
  for (const std::string_view name : {"train", "training"}) {
    const auto* training = constant_argument(node, name);
    if (training != nullptr && training->isBool() && !training->toBool()) return true;
  }
  return false;
}

bool same_arguments(const c10::FunctionSchema& functional, const c10::FunctionSchema& inplace) {
  const auto& wanted = functional.arguments();
  const auto& got = inplace.arguments();
  if (wanted.size() != got.size() || wanted.empty()) return false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].name() != got[i].name() || *wanted[i].type() != *got[i].type()) return false;
    const bool written = got[i].alias_info() != nullptr && got[i].alias_info()->isWrite();
    if (written != (i == 0) || wanted[i].alias_info() != nullptr) return false;
  }
  return wanted[0].type()->kind() == c10::TypeKind::TensorType && functional.returns().size() == 1 &&
         inplace.returns().size() == 1 && functional.returns()[0].type()->kind() == c10::TypeKind::TensorType;
}

std::optional<Op> find_inplace_variant(const Op& op) {
  // The in-place forms of these change the tensor's shape or storage, not only its elements.
  static constexpr std::string_view kReshaping[] = {"aten::resize",
                                                    "aten::_resize_output",
                                                    "aten::resize_as",
                                                    "aten::resize_as_sparse",
                                                    "aten::set",
                                                    "aten::sparse_resize",
                                                    "aten::sparse_resize_and_clear",
                                                    "aten::copy_sparse_to_sparse"};
  const auto& name = op.handle().operator_name();
  if (has_tag(op, Tag::kView) || has_tag(op, Tag::kMutating)) return std::nullopt;
  if (std::find(std::begin(kReshaping), std::end(kReshaping), name.name) != std::end(kReshaping)) return std::nullopt;
  const auto found = c10::Dispatcher::singleton().findSchema({name.name + "_", name.overload_name});
  if (!found || found->hasTag(at::Tag::inplace_view) || !same_arguments(op.schema(), found->schema())) {
    return std::nullopt;
  }
  return Op(*found);
}

}  // namespace

uint32_t tags(const Op& op) {
  if (op.is_hop()) return 0;
  thread_local OperatorCache<uint32_t> cache;
  const auto [entry, is_new] = cache.try_emplace(op.handle(), 0);
  if (is_new) entry->second = compute_tags(op.handle());
  return entry->second;
}

bool leaves_values_unset(const Op& op) {
  if (op.is_hop()) return false;
  const std::string& name = op.handle().operator_name().name;
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

bool draws_random(const Node& node) {
  if (node.op.is_hop()) return any_subgraph_node(node, draws_random);
  return has_tag(node.op, Tag::kRandom) && !operands_rule_out_a_draw(node);
}

bool has_effect(const Node& node) {
  if (node.provenance.is_superseded) return false;
  // An operator without results is called for its effect: an assertion, a print, an update.
  if (node.op.is_hop()) return node.outputs.empty() || any_subgraph_node(node, has_effect);
  return has_tag(node.op, Tag::kMutating) || has_tag(node.op, Tag::kCollective) || node.op.schema().returns().empty() ||
         draws_random(node);
}

bool computes_alike_in_place(const Op& op, at::ScalarType dtype) {
  // Of halves aten.mul_.Scalar rounds the number first, and aten.mul.Scalar does not.
  return !at::isReducedFloatingType(dtype) || op.name() != "aten.mul.Scalar";
}

std::optional<Op> inplace_variant(const Op& op) {
  if (op.is_hop()) return std::nullopt;
  thread_local OperatorCache<std::optional<Op>> cache;
  const auto [entry, is_new] = cache.try_emplace(op.handle());
  if (is_new) entry->second = find_inplace_variant(op);
  return entry->second;
}

}  // namespace diptych::detail
