#include "diptych/graph/library_forms.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_map>

#include "diptych/base/check.h"
#include "diptych/graph/in_tensors.h"
#include "diptych/graph/on_copies.h"

namespace diptych::detail {
namespace {

constexpr std::string_view kSeparator = "__";  // between the namespace and the name of the library's operator

c10::OperatorName form_name(const LibraryForm& kind, const c10::OperatorName& name) {
  std::string text = name.name;
  text.replace(text.find("::"), 2, kSeparator);
  return {fmt::format("{}::{}", kind.name_space, text), name.overload_name};
}

c10::FunctionSchema form_schema(const LibraryForm& kind, const c10::FunctionSchema& schema) {
  std::vector<c10::Argument> arguments;
  for (const auto& given : schema.arguments()) {
    arguments.emplace_back(given.name(), given.type(), given.real_type(), given.N(), given.default_value(),
                           given.kwarg_only());
  }
  auto name = form_name(kind, schema.operator_name());
  return {std::move(name.name), std::move(name.overload_name), std::move(arguments), kind.returns(schema)};
}

// The operators by the names of their forms. An operator may be gone, if its library was unloaded.
struct Forms {
  std::mutex mutex;
  std::unordered_map<c10::OperatorName, c10::OperatorName> originals;
};

Forms& forms() {
  static auto* all = new Forms();
  return *all;
}

// What a call depends on besides its arguments' sizes holds for the form, too; other tags speak of what it writes to.
std::vector<at::Tag> form_tags(const LibraryForm& kind, const c10::OperatorHandle& op) {
  std::vector<at::Tag> tags = kind.own_tags;
  for (const auto tag :
       {at::Tag::nondeterministic_seeded, at::Tag::data_dependent_output, at::Tag::dynamic_output_shape}) {
    if (op.hasTag(tag) && std::find(tags.begin(), tags.end(), tag) == tags.end()) tags.push_back(tag);
  }
  return tags;
}

// Registers a form for as long as the process lives.
c10::OperatorHandle make_form(const LibraryForm& kind, const c10::OperatorHandle& op) {
  auto& dispatcher = c10::Dispatcher::singleton();
  auto schema = form_schema(kind, op.schema());
  const c10::OperatorName name = schema.operator_name();
  static auto* registered = new std::vector<c10::RegistrationHandleRAII>();
  registered->push_back(dispatcher.registerDef(std::move(schema), "diptych", form_tags(kind, op)));
  registered->push_back(dispatcher.registerImpl(name, c10::DispatchKey::CompositeImplicitAutograd, kind.kernel,
                                                std::nullopt, nullptr, "diptych"));
  return dispatcher.findSchemaOrThrow(name.name.c_str(), name.overload_name.c_str());
}

std::optional<c10::OperatorName> name_of_original(const c10::OperatorName& form) {
  const std::lock_guard<std::mutex> lock(forms().mutex);
  const auto found = forms().originals.find(form);
  return found == forms().originals.end() ? std::nullopt : std::optional(found->second);
}

// A namespace may have the separator in it, too.
std::optional<c10::OperatorHandle> find_form(const LibraryForm& kind, const c10::OperatorName& name) {
  const std::string prefix = fmt::format("{}::", kind.name_space);
  if (!name.name.starts_with(prefix)) return std::nullopt;
  const std::string inner = name.name.substr(prefix.size());
  for (size_t at = inner.find(kSeparator); at != std::string::npos; at = inner.find(kSeparator, at + 1)) {
    c10::OperatorName original{inner, name.overload_name};
    original.name.replace(at, kSeparator.size(), "::");
    auto found = find_library_form(original);
    if (!found) found = c10::Dispatcher::singleton().findSchema(original);
    if (found) return form_of(kind, *found);
  }
  return std::nullopt;
}

}  // namespace

std::optional<c10::OperatorHandle> form_of(const LibraryForm& kind, const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  if (schema.is_vararg() || schema.is_varret() || !kind.exists(op)) return std::nullopt;
  const c10::OperatorName name = form_name(kind, op.operator_name());
  const std::lock_guard<std::mutex> lock(forms().mutex);
  if (forms().originals.try_emplace(name, op.operator_name()).second) return make_form(kind, op);
  return c10::Dispatcher::singleton().findSchema(name);
}

c10::OperatorHandle original_of(const c10::OperatorHandle& form) {
  const auto name = name_of_original(form.operator_name());
  DIPTYCH_ASSERT(name, "{} is no form of an operator", c10::toString(form.operator_name()));
  const auto found = c10::Dispatcher::singleton().findSchema(*name);
  DIPTYCH_CHECK(found && found->schema().arguments().size() == form.schema().arguments().size(),
                "[run] the graph calls {}, which its library has {} since; load the library again, and capture the "
                "function again",
                c10::toString(*name), found ? "changed" : "removed");
  return *found;
}

std::optional<c10::OperatorHandle> find_library_form(const c10::OperatorName& name) {
  for (const LibraryForm* kind : {&on_copies_form(), &in_tensors_form()}) {
    if (auto found = find_form(*kind, name)) return found;
  }
  return std::nullopt;
}

bool is_library_form(const c10::OperatorName& name) { return name_of_original(name).has_value(); }

c10::OperatorName name_for_user(const c10::OperatorName& name) {
  const auto original = name_of_original(name);
  return original ? name_for_user(*original) : name;
}

bool holds_object(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::ClassType || type->kind() == c10::TypeKind::AnyType) return true;
  const auto contained = type->containedTypes();
  return std::any_of(contained.begin(), contained.end(), holds_object);
}

}  // namespace diptych::detail
