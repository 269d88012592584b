#include "diptych/graph/on_copies.h"

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/ops/clone.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "diptych/base/error.h"

namespace diptych::detail {
namespace {

constexpr std::string_view kNamespace = "on_copies::";
constexpr std::string_view kSeparator = "__";  // between the namespace and the name of the library's operator

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool is_list(const c10::TypePtr& type) { return type->kind() == c10::TypeKind::ListType; }

// Whether a type is a tensor that may be absent, or a list of tensors.
bool can_be_copied(const c10::TypePtr& type) {
  if (is_list(type)) return type->expectRef<c10::ListType>().getElementType()->kind() == c10::TypeKind::TensorType;
  return type->isSubtypeOf(*c10::OptionalType::ofTensor()) && type->kind() != c10::TypeKind::NoneType;
}

bool holds_object(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::ClassType || type->kind() == c10::TypeKind::AnyType) return true;
  const auto contained = type->containedTypes();
  return std::any_of(contained.begin(), contained.end(), holds_object);
}

bool has_form(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  if (!schema.is_mutable() || schema.is_vararg() || schema.is_varret() || op.hasTag(at::Tag::inplace_view))
    return false;
  const auto fits = [](const c10::Argument& argument) {
    if (holds_object(argument.type())) return false;
    return argument.alias_info() == nullptr || (is_written(argument) && can_be_copied(argument.type()));
  };
  return std::all_of(schema.arguments().begin(), schema.arguments().end(), fits) &&
         std::all_of(schema.returns().begin(), schema.returns().end(), fits);
}

c10::OperatorName form_name(const c10::OperatorName& name) {
  std::string text = name.name;
  text.replace(text.find("::"), 2, kSeparator);
  return {std::string(kNamespace) + text, name.overload_name};
}

c10::FunctionSchema form_schema(const c10::FunctionSchema& schema) {
  std::vector<c10::Argument> arguments, returns;
  for (const auto& given : schema.arguments()) {
    arguments.emplace_back(given.name(), given.type(), given.real_type(), given.N(), given.default_value(),
                           given.kwarg_only());
  }
  for (const auto& result : schema.returns()) {
    if (!is_written_argument(result)) returns.push_back(result);
  }
  for (const auto& given : schema.arguments()) {
    if (!is_written(given)) continue;
    const bool list = is_list(given.type());
    returns.emplace_back("", list ? given.type() : c10::TypePtr(c10::TensorType::get()));
  }
  auto name = form_name(schema.operator_name());
  return {std::move(name.name), std::move(name.overload_name), std::move(arguments), std::move(returns)};
}

// The library's operators by the names of their forms. An operator may be gone, if its library was unloaded.
struct Forms {
  std::mutex mutex;
  std::unordered_map<c10::OperatorName, c10::OperatorName> originals;
};

Forms& forms() {
  static auto* all = new Forms();
  return *all;
}

c10::OperatorHandle original_of(const c10::OperatorHandle& form) {
  c10::OperatorName name("", "");
  {
    const std::lock_guard<std::mutex> lock(forms().mutex);
    name = forms().originals.at(form.operator_name());
  }
  const auto found = c10::Dispatcher::singleton().findSchema(name);
  DIPTYCH_CHECK(found && found->schema().arguments().size() == form.schema().arguments().size(),
                "[run] the graph calls {}, which its library has {} since; load the library again, and capture the "
                "function again",
                c10::toString(name), found ? "changed" : "removed");
  return *found;
}

c10::IValue copy_of(const c10::IValue& written) {
  if (written.isTensor()) return written.toTensor().defined() ? at::clone(written.toTensor()) : at::Tensor();
  if (!written.isTensorList()) return written;
  c10::List<at::Tensor> copies;
  for (const at::Tensor& tensor : written.toTensorVector()) copies.push_back(at::clone(tensor));
  return copies;
}

bool is_on_meta(const c10::IValue& written) {
  if (written.isTensor()) return written.toTensor().is_meta();
  const auto list = written.isTensorList() ? written.toTensorVector() : std::vector<at::Tensor>();
  return std::any_of(list.begin(), list.end(), [](const at::Tensor& tensor) { return tensor.is_meta(); });
}

// The kernel of all forms.
void run_on_copies(const c10::OperatorHandle& form, c10::Stack* stack) {
  const c10::OperatorHandle op = original_of(form);
  const auto& arguments = op.schema().arguments();
  const auto& returns = op.schema().returns();
  const auto begin = stack->end() - static_cast<std::ptrdiff_t>(arguments.size());
  c10::Stack given(begin, stack->end()), copies;
  stack->erase(begin, stack->end());
  for (size_t i = 0; i < given.size(); ++i) {
    if (!is_written(arguments[i])) continue;
    given[i] = copy_of(given[i]);
    copies.push_back(given[i].isNone() ? c10::IValue(at::Tensor()) : given[i]);
  }
  // Without results of its own there is nothing that a kernel for shapes could tell, and there may be none.
  const bool only_writes = std::all_of(returns.begin(), returns.end(), is_written_argument);
  if (!only_writes || std::none_of(copies.begin(), copies.end(), is_on_meta)) op.callBoxed(&given);
  for (size_t i = 0; !only_writes && i < returns.size(); ++i) {
    if (!is_written_argument(returns[i])) stack->push_back(given[i]);
  }
  stack->insert(stack->end(), copies.begin(), copies.end());
}

// What a call depends on besides its arguments' sizes holds for the form, too; other tags speak of what it writes to.
std::vector<at::Tag> form_tags(const c10::OperatorHandle& op) {
  std::vector<at::Tag> tags;
  for (const auto tag :
       {at::Tag::nondeterministic_seeded, at::Tag::data_dependent_output, at::Tag::dynamic_output_shape}) {
    if (op.hasTag(tag)) tags.push_back(tag);
  }
  return tags;
}

// Registers a form for as long as the process lives.
c10::OperatorHandle make_form(const c10::OperatorHandle& op) {
  auto& dispatcher = c10::Dispatcher::singleton();
  auto schema = form_schema(op.schema());
  const c10::OperatorName name = schema.operator_name();
  static auto* registered = new std::vector<c10::RegistrationHandleRAII>();
  registered->push_back(dispatcher.registerDef(std::move(schema), "diptych", form_tags(op)));
  registered->push_back(dispatcher.registerImpl(name, c10::DispatchKey::CompositeImplicitAutograd,
                                                c10::KernelFunction::makeFromBoxedFunction<&run_on_copies>(),
                                                std::nullopt, nullptr, "diptych"));
  return dispatcher.findSchemaOrThrow(name.name.c_str(), name.overload_name.c_str());
}

}  // namespace

std::optional<c10::OperatorHandle> on_copies(const c10::OperatorHandle& op) {
  if (!has_form(op)) return std::nullopt;
  const c10::OperatorName name = form_name(op.operator_name());
  const std::lock_guard<std::mutex> lock(forms().mutex);
  if (forms().originals.try_emplace(name, op.operator_name()).second) return make_form(op);
  return c10::Dispatcher::singleton().findSchema(name);
}

// A namespace may have the separator in it, too.
std::optional<c10::OperatorHandle> find_on_copies(const c10::OperatorName& name) {
  if (!name.name.starts_with(kNamespace)) return std::nullopt;
  const std::string inner = name.name.substr(kNamespace.size());
  for (size_t at = inner.find(kSeparator); at != std::string::npos; at = inner.find(kSeparator, at + 1)) {
    std::string original = inner;
    original.replace(at, kSeparator.size(), "::");
    const auto found = c10::Dispatcher::singleton().findSchema({original, name.overload_name});
    if (found) return on_copies(*found);
  }
  return std::nullopt;
}

}  // namespace diptych::detail
