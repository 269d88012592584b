#include "diptych/trace/operator_plan.h"

#include <array>
#include <mutex>
#include <string_view>

#include "diptych/ops/tags.h"
#include "diptych/trace/meta_kernel.h"

namespace diptych::detail {
namespace {

// Operators that swap or resize storage: functionalization would accept some of them and lose the effect on callers.
constexpr std::array<std::string_view, 7> kRefused{
    "aten::set_",          "aten::resize_",         "aten::resize_as_",
    "aten::set_data",      "aten::_resize_output_", "aten::resize_as_sparse_",
    "aten::sparse_resize_"};

constexpr std::array<std::string_view, 4> kInverseViews{"aten::select_scatter", "aten::slice_scatter",
                                                        "aten::diagonal_scatter", "aten::as_strided_scatter"};

// Operators that mutate an argument without saying so in their schema, and the one that says so.
struct Replacement {
  std::string_view hidden;
  const char* declared;
  HiddenMutation when;
};
constexpr std::array<Replacement, 1> kReplacements{{{"aten::native_batch_norm",
                                                     "aten::_native_batch_norm_legit",
                                                     {/*mutated_argument=*/3, /*condition_argument=*/5}}}};

bool contains(const auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Whether a call on meta tensors reaches a kernel. ATen's fallback for the rest, which only throws, counts as a
// computed kernel, so registrations are asked for.
bool has_meta_kernel(const c10::OperatorHandle& op) {
  for (const auto key :
       {c10::DispatchKey::Meta, c10::DispatchKey::CompositeExplicitAutograd,
        c10::DispatchKey::CompositeExplicitAutogradNonFunctional, c10::DispatchKey::CompositeImplicitAutograd}) {
    if (op.hasKernelForDispatchKey(key)) return true;
  }
  return false;
}

// A library's kernel for every device may read memory, and goes when the library does.
void read_meta_kernels(const c10::OperatorHandle& op, OperatorPlan& plan) {
  const c10::KernelFunction* const found = find_meta_kernel(op, /*with_composites=*/plan.is_native);
  plan.has_meta_kernel = has_meta_kernel(op);
  plan.has_python_meta_kernel = plan.has_meta_kernel && found == nullptr;
  plan.meta_kernel = plan.is_native ? found : nullptr;
}

bool is_list_of_tensors(const c10::TypePtr& type) {
  if (type->kind() != c10::TypeKind::ListType) return false;
  const auto& element = type->expectRef<c10::ListType>().getElementType();
  return element->isSubtypeOf(*c10::OptionalType::ofTensor());
}

void read_arguments(const c10::FunctionSchema& schema, OperatorPlan& plan) {
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto& argument = schema.arguments()[i];
    const auto& type = argument.type();
    plan.takes_tensor.push_back(type->isSubtypeOf(*c10::OptionalType::ofTensor()) &&
                                type->kind() != c10::TypeKind::NoneType);
    plan.takes_list.push_back(is_list_of_tensors(type));
    // The real type keeps what the schema type shows as int.
    const auto& real = argument.real_type();
    const bool is_device =
        real->kind() == c10::TypeKind::DeviceObjType ||
        (real->kind() == c10::TypeKind::OptionalType &&
         real->expectRef<c10::OptionalType>().getElementType()->kind() == c10::TypeKind::DeviceObjType);
    if (is_device) plan.device_argument = static_cast<int>(i);
  }
}

// An operator that changes shapes in place writes to no element.
std::vector<bool> written_arguments(const c10::OperatorHandle& op) {
  std::vector<bool> writes;
  if (!op.schema().is_mutable() || op.hasTag(at::Tag::inplace_view)) return writes;
  for (const auto& argument : op.schema().arguments()) {
    writes.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
  }
  return writes;
}

// Functionalization has kernels for most of LibTorch's own operators; of all others it takes those whose results are
// new tensors.
bool has_aliases_unknown_to_functionalization(const c10::OperatorHandle& op) {
  return !op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::Functionalize) && op.schema().hasAnyAliasInfo();
}

OperatorPlan make_plan(const c10::OperatorHandle& op) {
  static const Op kCopy = Op::find("aten.copy");
  static const Op kBernoulli = Op::find("aten.bernoulli.p");
  static const Op kViewAsReal = Op::find("aten.view_as_real");
  static const Op kToCopy = Op::find("aten._to_copy");
  static const Op kZeroTensor = Op::find("aten._efficientzerotensor");
  static const Op kUnfold = Op::find("aten.unfold");
  static const Op kAsStrided = Op::find("aten.as_strided");
  static const Op kExpand = Op::find("aten.expand");
  static const Op kViewAsComplex = Op::find("aten.view_as_complex");
  static const Op kViewAsDtype = Op::find("aten.view.dtype");
  static const Op kFill = Op::find("aten.fill_.Scalar");
  static const Op kFillByTensor = Op::find("aten.fill_.Tensor");
  static const Op kZero = Op::find("aten.zero_");
  static const Op kLift = Op::find("aten.lift_fresh");
  OperatorPlan plan;
  const auto& schema = op.schema();
  const std::string_view name = op.operator_name().name;
  read_arguments(schema, plan);
  plan.mutates = schema.is_mutable();
  plan.writes = written_arguments(op);
  const auto& arguments = schema.arguments();
  const auto takes_out = std::count_if(arguments.begin(), arguments.end(), [](const auto& a) { return a.is_out(); });
  plan.num_out = static_cast<size_t>(takes_out) == schema.returns().size() ? schema.returns().size() : 0;
  plan.reads_values = has_tag(Op(op), Tag::kDataDependent);
  plan.may_select_by_mask = !plan.reads_values && op.hasTag(at::Tag::dynamic_output_shape);
  plan.draws_random = has_tag(Op(op), Tag::kRandom);
  plan.is_bernoulli = Op(op) == kBernoulli;
  plan.refused = contains(kRefused, name);
  plan.has_hidden_aliases = has_aliases_unknown_to_functionalization(op);
  plan.is_native = has_tag(Op(op), Tag::kNative);
  read_meta_kernels(op, plan);
  plan.is_composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  plan.is_copy = Op(op) == kCopy;
  plan.is_cast = Op(op) == kToCopy;
  plan.is_zero_tensor = Op(op) == kZeroTensor;
  plan.is_view_as_real = Op(op) == kViewAsReal;
  plan.is_inverse_view = contains(kInverseViews, name);
  plan.is_view = has_tag(Op(op), Tag::kView);
  plan.reads_otherwise =
      has_tag(Op(op), Tag::kLazyView) || plan.is_view_as_real || Op(op) == kViewAsComplex || Op(op) == kViewAsDtype;
  plan.is_unfold = Op(op) == kUnfold;
  plan.is_as_strided = Op(op) == kAsStrided;
  plan.is_expand = Op(op) == kExpand;
  plan.fills = Op(op) == kFill || Op(op) == kFillByTensor || Op(op) == kZero;
  plan.is_lift = Op(op) == kLift;
  plan.stops_gradient = has_tag(Op(op), Tag::kStopsGradient);
  plan.quick_shape = find_quick_shape(op);
  plan.shape = find_shape_function(op);
  for (const auto& row : kReplacements) {
    if (row.hidden == name && op.operator_name().overload_name.empty()) {
      plan.replacement = c10::Dispatcher::singleton().findSchemaOrThrow(row.declared, "");
      plan.hidden_mutation = row.when;
    }
  }
  return plan;
}

const OperatorPlan* shared_plan(const c10::OperatorHandle& op) {
  static auto* mutex = new std::mutex();
  static auto* plans = new std::unordered_map<c10::OperatorName, std::unique_ptr<OperatorPlan>>();
  const std::lock_guard<std::mutex> lock(*mutex);
  auto& plan = (*plans)[op.operator_name()];
  if (!plan) plan = std::make_unique<OperatorPlan>(make_plan(op));
  return plan.get();
}

}  // namespace

const OperatorPlan& plan_for(const c10::OperatorHandle& op) {
  // The schema's address names the operator for as long as it is registered.
  thread_local std::unordered_map<const c10::FunctionSchema*, const OperatorPlan*> known;
  auto& plan = known[&op.schema()];
  if (plan == nullptr) plan = shared_plan(op);
  return *plan;
}

}  // namespace diptych::detail
