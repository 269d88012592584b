#include "diptych/trace/operator_plan.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "diptych/ops/hidden_kernels.h"
#include "diptych/ops/tags.h"
#include "diptych/trace/functionalize.h"
#include "diptych/trace/recording_kernels.h"

namespace diptych::detail {
namespace {

// Whether a call on meta tensors reaches a kernel. This asks for registrations: the fallback that ATen has for all
// other operators, which only throws, counts as a computed kernel.
bool has_meta_kernel(const c10::OperatorHandle& op) {
  for (const auto key :
       {c10::DispatchKey::Meta, c10::DispatchKey::CompositeExplicitAutograd,
        c10::DispatchKey::CompositeExplicitAutogradNonFunctional, c10::DispatchKey::CompositeImplicitAutograd}) {
    if (op.hasKernelForDispatchKey(key)) return true;
  }
  return false;
}

// A library's kernel for all devices may read memory, and is gone once the library is unloaded.
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
    // The schema type shows a device as int; the real type does not.
    const auto& real = argument.real_type();
    const bool is_device =
        real->kind() == c10::TypeKind::DeviceObjType ||
        (real->kind() == c10::TypeKind::OptionalType &&
         real->expectRef<c10::OptionalType>().getElementType()->kind() == c10::TypeKind::DeviceObjType);
    if (is_device) plan.device_argument = static_cast<int>(i);
    if (argument.name() == "dtype" && real->kind() == c10::TypeKind::OptionalType) {
      plan.dtype_argument = static_cast<int>(i);
    }
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

// Functionalization has kernels for most of LibTorch's own operators; of the others it takes only those that return new
// tensors, and here those that write to their arguments and are no collectives.
bool has_aliases_unknown_to_functionalization(const c10::OperatorHandle& op) {
  const bool is_known = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) ||
                        op.hasKernelForDispatchKey(c10::DispatchKey::Functionalize) || !op.schema().hasAnyAliasInfo();
  if (is_known) return false;
  return has_tag(Op(op), Tag::kNative) || has_tag(Op(op), Tag::kCollective) || !functionalize_on_copies(op);
}

// What such an operator does to the tensors of other processes is in no graph, and what it returns is a handle to wait
// on.
bool takes_process_group(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), [](const c10::Argument& argument) {
    return argument.type()->kind() == c10::TypeKind::ClassType &&
           argument.type()->str().ends_with(".c10d.ProcessGroup");
  });
}

// Reads the tables of ops/.
void read_tables(const Op& op, OperatorPlan& plan) {
  plan.draws_random = has_tag(op, Tag::kRandom);
  plan.changes_storage = has_tag(op, Tag::kChangesStorage);
  plan.is_native = has_tag(op, Tag::kNative);
  plan.selects_backend = op.handle().hasKernelForDispatchKey(kSelectKey);
  plan.is_view = has_tag(op, Tag::kView);
  plan.is_inverse_view = has_tag(op, Tag::kInverseView);
  plan.reinterprets = has_tag(op, Tag::kReinterprets);
  plan.stops_gradient = has_tag(op, Tag::kStopsGradient);
  plan.is_pointwise = has_tag(op, Tag::kPointwise);
  plan.fills = has_tag(op, Tag::kFills);
  plan.write_back = write_back(op);
  plan.trait = trace_trait(op);
  plan.hidden_mutation = hidden_mutation(op);
}

OperatorPlan make_plan(const c10::OperatorHandle& op) {
  OperatorPlan plan;
  const auto& schema = op.schema();
  const auto& arguments = schema.arguments();
  read_tables(Op(op), plan);
  read_arguments(schema, plan);
  plan.mutates = schema.is_mutable();
  plan.writes = written_arguments(op);
  const auto takes_out = std::count_if(arguments.begin(), arguments.end(), [](const auto& a) { return a.is_out(); });
  plan.num_out = static_cast<size_t>(takes_out) == schema.returns().size() ? schema.returns().size() : 0;
  plan.reads_values = has_tag(Op(op), Tag::kDataDependent);
  plan.may_select_by_mask = !plan.reads_values && op.hasTag(at::Tag::dynamic_output_shape);
  plan.has_hidden_aliases = has_aliases_unknown_to_functionalization(op);
  plan.takes_process_group = takes_process_group(schema);
  plan.is_composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  read_meta_kernels(op, plan);
  plan.quick_shape = find_quick_shape(op);
  plan.shape = find_shape_function(op);
  plan.check = find_operand_check(Op(op));
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
  if (plan == nullptr) {
    plan = shared_plan(op);
    register_new_recording_kernels();  // of this operator, if it is new, and of a form that its plan has made
  }
  return *plan;
}

// Kernels at kSelectKey ask the thread's keys anew if the operator takes tensors, and must not come back from there.
void redispatch_below(const c10::OperatorHandle& op, const OperatorPlan& plan, c10::DispatchKeySet keys,
                      torch::jit::Stack* stack) {
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kFakeKey);
  if (!plan.selects_backend) return op.redispatchBoxed(below, stack);
  const BelowTraceGuard guard{c10::DispatchKeySet(kFakeKey)};
  op.redispatchBoxed(below.add(kSelectKey), stack);
}

}  // namespace diptych::detail
