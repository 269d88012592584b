#include "diptych/tree/spec.h"

#include "diptych/base/check.h"

namespace diptych {

using namespace detail;
namespace {

using Kind = TreeEntry::Kind;

bool is_structure(const TreeEntry& entry, Structure kind) {
  return entry.kind == Kind::kStructure && entry.detail == static_cast<uint8_t>(kind);
}

bool is_key(const TreeEntry& entry) { return entry.kind == Kind::kIntegerKey || entry.kind == Kind::kStringKey; }

bool has_text(const TreeEntry& entry) {
  return entry.kind == Kind::kStringKey ||
         (entry.kind == Kind::kConstant && entry.detail == static_cast<uint8_t>(ConstantKind::kString));
}

std::string plural(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string structure_text(Structure kind, uint64_t number) {
  switch (kind) {
    case Structure::kTuple:
      return fmt::format("a tuple of {}", number);
    case Structure::kStruct:
      return fmt::format("a struct with {}", plural(number, "field"));
    case Structure::kSequence:
      return fmt::format("a vector of {}", number);
    case Structure::kMap:
      return fmt::format("a map with {}", plural(number, "key"));
    case Structure::kOptional:
      return number != 0 ? "an optional with a value" : "an optional without a value";
    case Structure::kPointer:
      return number != 0 ? "a pointer to an object" : "a null pointer";
    case Structure::kVariant:
      return fmt::format("a variant that holds alternative {}", number);
    case Structure::kParameters:
      return fmt::format("a module with {} of its own", plural(number, "parameter"));
    case Structure::kBuffers:
      return fmt::format("a module with {} of its own", plural(number, "buffer"));
    case Structure::kChildren:
      return fmt::format("a module with {}", plural(number, "submodule"));
  }
  DIPTYCH_ASSERT(false, "unknown structure {}", static_cast<int>(kind));
}

std::string_view constant_noun(ConstantKind kind) {
  switch (kind) {
    case ConstantKind::kInteger:
    case ConstantKind::kUnsigned:
      return "the integer ";
    case ConstantKind::kFloat:
      return "the float ";
    case ConstantKind::kComplex:
      return "the complex number ";
    case ConstantKind::kString:
      return "the string ";
    case ConstantKind::kDtype:
      return "the dtype ";
    case ConstantKind::kDevice:
      return "the device ";
    default:
      return "";
  }
}

/// The elements of `keys` that `others` lacks, as "'a', 'b'".
std::string keys_missing_from(const std::vector<std::string>& others, const std::vector<std::string>& keys) {
  std::string text;
  for (const auto& key : keys) {
    if (std::find(others.begin(), others.end(), key) != others.end()) continue;
    text += fmt::format("{}'{}'", text.empty() ? "" : ", ", key);
  }
  return text;
}

}  // namespace

std::vector<std::string> TreeSpec::tensor_paths() const {
  std::vector<std::string> paths;
  paths.reserve(num_tensors());
  for (size_t i = 0; i < num_tensors(); ++i) paths.push_back(tensor_path(i));
  return paths;
}

bool TreeSpec::is_module_tensor(size_t index) const {
  return entries_[tensor_entries_[index]].kind == Kind::kModuleTensor;
}

bool TreeSpec::operator==(const TreeSpec& other) const {
  if (hash_ != other.hash_ || entries_.size() != other.entries_.size()) return false;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!same_entry(i, other)) return false;
  }
  return true;
}

bool TreeSpec::same_entry(size_t index, const TreeSpec& other) const {
  const TreeEntry& mine = entries_[index];
  const TreeEntry& theirs = other.entries_[index];
  if (mine.kind != theirs.kind || mine.detail != theirs.detail) return false;
  if (has_text(mine)) return texts_[mine.bits] == other.texts_[theirs.bits];
  if (mine.kind != Kind::kIdentity) return mine == theirs;
  // Two live objects at one address are the same object; a dead object never equals a live one that now has its
  // address.
  return mine.bits == theirs.bits && (is_alive(mine) == other.is_alive(theirs));
}

std::string TreeSpec::str() const {
  size_t width = 0;
  for (const auto& path : paths_) width = std::max(width, path.size());
  std::string text;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].kind == Kind::kStructure || is_key(entries_[i]) || entries_[i].kind == Kind::kIdentity) continue;
    const std::string what = entries_[i].kind == Kind::kConstant ? constant_text(i) : "tensor";
    text += fmt::format("{:<{}}  {}\n", paths_[i], width, what);
  }
  return text;
}

std::string TreeSpec::constant_text(size_t index) const {
  const TreeEntry& entry = entries_[index];
  Constant constant{static_cast<ConstantKind>(entry.detail), entry.bits, entry.more_bits, {}};
  if (has_text(entry)) constant.text = texts_[entry.bits];
  return constant.str();
}

std::string TreeSpec::describe(size_t index) const {
  const TreeEntry& entry = entries_[index];
  switch (entry.kind) {
    case Kind::kTensor:
      return "a tensor";
    case Kind::kModuleTensor:
      return "a module's tensor";
    case Kind::kIdentity:
      return is_alive(entry) ? "a module" : "a module that has since been destroyed";
    case Kind::kStructure:
      return structure_text(static_cast<Structure>(entry.detail), entry.bits);
    case Kind::kIntegerKey:
      return fmt::format("the key '{}'", static_cast<int64_t>(entry.bits));
    case Kind::kStringKey:
      return fmt::format("the key '{}'", texts_[entry.bits]);
    case Kind::kConstant:
      return fmt::format("{}{}", constant_noun(static_cast<ConstantKind>(entry.detail)), constant_text(index));
  }
  DIPTYCH_ASSERT(false, "unknown entry kind {}", static_cast<int>(entry.kind));
}

std::vector<std::string> TreeSpec::keys_near(size_t index) const {
  while (is_key(entries_[index])) --index;
  std::vector<std::string> keys;
  for (size_t i = index + 1; i <= index + entries_[index].bits; ++i) {
    keys.push_back(entries_[i].kind == Kind::kStringKey ? texts_[entries_[i].bits]
                                                        : std::to_string(static_cast<int64_t>(entries_[i].bits)));
  }
  return keys;
}

std::string TreeSpec::key_difference(size_t index, const TreeSpec& got) const {
  const auto expected_keys = keys_near(index);
  const auto got_keys = got.keys_near(index);
  const std::string missing = keys_missing_from(got_keys, expected_keys);
  const std::string added = keys_missing_from(expected_keys, got_keys);
  std::string text = "expected the same keys";
  if (!missing.empty()) text += ", got none of " + missing;
  if (!added.empty()) text += (missing.empty() ? ", got " : " and got ") + added + " besides";
  return text;
}

std::string TreeSpec::entry_difference(size_t index, const TreeSpec& got) const {
  const TreeEntry& mine = entries_[index];
  const TreeEntry& theirs = got.entries_[index];
  const bool both_keys = is_key(mine) && is_key(theirs);
  const bool both_maps = is_structure(mine, Structure::kMap) && is_structure(theirs, Structure::kMap);
  if (both_keys || both_maps) return key_difference(index, got);
  if (mine.kind == Kind::kIdentity && theirs.kind == Kind::kIdentity) {
    return "expected the module of the earlier call, got another one";
  }
  const bool same_sort = mine.kind == theirs.kind && mine.detail == theirs.detail;
  if (same_sort && mine.kind == Kind::kConstant) {
    return fmt::format("expected {}, got {}", constant_text(index), got.constant_text(index));
  }
  if (same_sort && (is_structure(mine, Structure::kTuple) || is_structure(mine, Structure::kSequence))) {
    return fmt::format("expected {}, got {}", describe(index), theirs.bits);
  }
  return fmt::format("expected {}, got {}", describe(index), got.describe(index));
}

std::optional<std::string> first_difference(const TreeSpec& expected, const TreeSpec& got) {
  const size_t common = std::min(expected.entries_.size(), got.entries_.size());
  for (size_t i = 0; i < common; ++i) {
    if (expected.same_entry(i, got)) continue;
    const std::string& path = got.paths_[i];
    return fmt::format("{}: {}", path.empty() ? "the value" : path, expected.entry_difference(i, got));
  }
  // The entries of one value are never a prefix of those of another, but one call may have more arguments than another.
  if (got.entries_.size() > common) return fmt::format("{}: expected no such argument", got.paths_[common]);
  if (expected.entries_.size() > common) return fmt::format("{}: this argument is missing", expected.paths_[common]);
  return std::nullopt;
}

void detail::TreeRecorder::add(const Path& path, TreeEntry entry) {
  spec_.entries_.push_back(entry);
  spec_.paths_.push_back(path.str());
}

void detail::TreeRecorder::tensor(const Path& path, const at::Tensor& tensor) {
  hasher_.tensor(path, tensor);
  spec_.tensor_entries_.push_back(spec_.entries_.size());
  tensors_.push_back(tensor);
  add(path, {Kind::kTensor, 0, 0, 0});
}

void detail::TreeRecorder::module_tensor(const Path& path, const at::Tensor& tensor) {
  hasher_.module_tensor(path, tensor);
  spec_.tensor_entries_.push_back(spec_.entries_.size());
  tensors_.push_back(tensor);
  add(path, {Kind::kModuleTensor, 0, 0, 0});
}

void detail::TreeRecorder::structure(const Path& path, Structure kind, int64_t number) {
  hasher_.structure(path, kind, number);
  add(path, {Kind::kStructure, static_cast<uint8_t>(kind), static_cast<uint64_t>(number), 0});
}

void detail::TreeRecorder::key(const Path& path, int64_t key) {
  hasher_.key(path, key);
  add(path, {Kind::kIntegerKey, 0, static_cast<uint64_t>(key), 0});
}

void detail::TreeRecorder::key(const Path& path, std::string_view key) {
  hasher_.key(path, key);
  spec_.texts_.emplace_back(key);
  add(path, {Kind::kStringKey, 0, spec_.texts_.size() - 1, 0});
}

void detail::TreeRecorder::subclass(const Path& path, std::string_view what) {
  if (spec_.subclass_.empty()) spec_.subclass_ = fmt::format("'{}' is a {}", path.str(), what);
}

void detail::TreeRecorder::add_identity(const Path& path, const void* object, std::weak_ptr<const void> owner) {
  const bool is_shared = !owner.expired();
  if (is_shared) spec_.owners_.push_back(std::move(owner));
  add(path, {Kind::kIdentity, 0, reinterpret_cast<uintptr_t>(object), is_shared ? spec_.owners_.size() : 0});
}

void detail::TreeRecorder::add_constant(const Path& path, const Constant& constant) {
  TreeEntry entry{Kind::kConstant, static_cast<uint8_t>(constant.kind), constant.bits, constant.more_bits};
  if (constant.kind == ConstantKind::kString) {
    entry.bits = spec_.texts_.size();
    spec_.texts_.emplace_back(constant.text);
  }
  add(path, entry);
}

TreeSpec detail::TreeRecorder::take_spec() {
  spec_.hash_ = hasher_.hash();
  return std::move(spec_);
}

}  // namespace diptych
