// The structure of a value without its tensors: what two calls must agree on to share a graph, and the path of each
// tensor. Recording one allocates; comparing a value with one, or hashing a value, does not.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diptych/tree/constant.h"
#include "diptych/tree/tree.h"

namespace diptych {

namespace detail {
class TreeRecorder;
class TreeMatcherBase;
}  // namespace detail

/// One event of a visit, in comparable form. Two values have the same structure if their visits have the same entries.
struct TreeEntry {
  enum class Kind : uint8_t { kStructure, kIntegerKey, kStringKey, kTensor, kModuleTensor, kIdentity, kConstant };
  Kind kind = Kind::kTensor;
  uint8_t detail = 0;      ///< the Structure or the ConstantKind
  uint64_t bits = 0;       ///< the number, integer key or address; for a string, its index in the spec's texts
  uint64_t more_bits = 0;  ///< a constant's second word; for an identity, 1 + its index in the spec's owners, or 0

  bool operator==(const TreeEntry&) const = default;
};

/// The structure of one value, or of the arguments of one call. Immutable; compared and hashed by content.
class TreeSpec {
 public:
  size_t num_tensors() const { return tensor_entries_.size(); }
  /// The path of tensor `index`, in the order in which flatten() returns them.
  const std::string& tensor_path(size_t index) const { return paths_[tensor_entries_[index]]; }
  std::vector<std::string> tensor_paths() const;
  /// Whether tensor `index` belongs to a module.
  bool is_module_tensor(size_t index) const;
  uint64_t hash() const { return hash_; }
  /// Names the first tensor whose class redefines what operators do: "'x' is a Mine"; empty if there is none. Not
  /// compared.
  const std::string& subclass() const { return subclass_; }
  /// Whether both describe the same structure; paths are not compared, since names of arguments do not matter.
  bool operator==(const TreeSpec& other) const;
  /// One line per tensor and constant: "params.w  tensor".
  std::string str() const;

 private:
  friend class detail::TreeRecorder;
  friend class detail::TreeMatcherBase;
  friend std::optional<std::string> first_difference(const TreeSpec& expected, const TreeSpec& got);

  bool same_entry(size_t index, const TreeSpec& other) const;
  /// Whether the object of an identity entry still exists, so that its address means that object and not a later one.
  bool is_alive(const TreeEntry& entry) const {
    return entry.more_bits == 0 || !owners_[entry.more_bits - 1].expired();
  }
  std::string describe(size_t index) const;
  std::string constant_text(size_t index) const;
  std::string entry_difference(size_t index, const TreeSpec& got) const;
  std::string key_difference(size_t index, const TreeSpec& got) const;
  std::vector<std::string> keys_near(size_t index) const;

  std::vector<TreeEntry> entries_;
  std::vector<std::string> paths_;  ///< one per entry
  std::vector<std::string> texts_;
  std::vector<std::weak_ptr<const void>> owners_;
  std::vector<size_t> tensor_entries_;
  std::string subclass_;
  uint64_t hash_ = 0;
};

/// Returns where and how two structures first differ, `got` being wrong: "batch.tokens: expected a vector of 3, got 4";
/// nullopt if they are equal.
std::optional<std::string> first_difference(const TreeSpec& expected, const TreeSpec& got);

namespace detail {
/// Mixes one event into a running hash.
inline uint64_t mix(uint64_t hash, uint64_t kind, uint64_t bits, uint64_t more_bits = 0) {
  hash = (hash ^ (kind + 0x9e3779b97f4a7c15ULL + (bits ^ std::rotl(more_bits, 32)))) * 0xff51afd7ed558ccdULL;
  return hash ^ (hash >> 32);
}
inline uint64_t text_hash(std::string_view text) { return std::hash<std::string_view>()(text); }

/// A visitor that hashes structure and constants as TreeSpec::hash() does, without allocating.
class TreeHasher : public LeafVisitor {
 public:
  void tensor(const Path&, const at::Tensor&) { mix(TreeEntry::Kind::kTensor, 0, 0); }
  void module_tensor(const Path&, const at::Tensor&) { mix(TreeEntry::Kind::kModuleTensor, 0, 0); }
  void structure(const Path&, Structure kind, int64_t number) {
    mix(TreeEntry::Kind::kStructure, static_cast<uint8_t>(kind), static_cast<uint64_t>(number));
  }
  void key(const Path&, int64_t key) { mix(TreeEntry::Kind::kIntegerKey, 0, static_cast<uint64_t>(key)); }
  void key(const Path&, std::string_view key) { mix(TreeEntry::Kind::kStringKey, 0, detail::text_hash(key)); }
  template <class MakeOwner>
  void identity(const Path&, const void* object, MakeOwner&&) {
    mix(TreeEntry::Kind::kIdentity, 0, reinterpret_cast<uintptr_t>(object));
  }
  template <class X>
  void constant(const Path&, const X& value) {
    const Constant constant = Constant::of(value);
    const bool is_text = constant.kind == ConstantKind::kString;
    mix(TreeEntry::Kind::kConstant, static_cast<uint8_t>(constant.kind),
        is_text ? detail::text_hash(constant.text) : constant.bits, constant.more_bits);
  }
  uint64_t hash() const { return hash_; }

 private:
  void mix(TreeEntry::Kind kind, uint8_t subkind, uint64_t bits, uint64_t more_bits = 0) {
    hash_ = detail::mix(hash_, static_cast<uint64_t>(kind) << 8 | subkind, bits, more_bits);
  }
  uint64_t hash_ = 0;
};

/// A visitor that collects the tensors of the values that it visits and records their structure.
class TreeRecorder : public LeafVisitor {
 public:
  void tensor(const Path& path, const at::Tensor& tensor);
  void module_tensor(const Path& path, const at::Tensor& tensor);
  void structure(const Path& path, Structure kind, int64_t number);
  void key(const Path& path, int64_t key);
  void key(const Path& path, std::string_view key);
  void subclass(const Path& path, std::string_view what);
  template <class MakeOwner>
  void identity(const Path& path, const void* object, MakeOwner&& make_owner) {
    hasher_.identity(path, object, make_owner);
    add_identity(path, object, make_owner());
  }
  template <class X>
  void constant(const Path& path, const X& value) {
    hasher_.constant(path, value);
    add_constant(path, Constant::of(value));
  }

  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  std::vector<at::Tensor> take_tensors() { return std::move(tensors_); }
  /// The structure of what has been visited. Call once, at the end.
  TreeSpec take_spec();

 private:
  void add(const Path& path, TreeEntry entry);
  void add_identity(const Path& path, const void* object, std::weak_ptr<const void> owner);
  void add_constant(const Path& path, const Constant& constant);

  TreeHasher hasher_;
  TreeSpec spec_;
  std::vector<at::Tensor> tensors_;
};

/// The part of TreeMatcher that does not depend on where tensors go.
class TreeMatcherBase : public LeafVisitor {
 public:
  void structure(const Path&, Structure kind, int64_t number) {
    take({TreeEntry::Kind::kStructure, static_cast<uint8_t>(kind), static_cast<uint64_t>(number), 0});
  }
  void key(const Path&, int64_t key) { take({TreeEntry::Kind::kIntegerKey, 0, static_cast<uint64_t>(key), 0}); }
  void key(const Path&, std::string_view key) { take_text(TreeEntry::Kind::kStringKey, 0, key); }
  template <class MakeOwner>
  void identity(const Path&, const void* object, MakeOwner&&) {
    if (next_ != end_ && next_->kind == TreeEntry::Kind::kIdentity &&
        next_->bits == reinterpret_cast<uintptr_t>(object) && spec_.is_alive(*next_)) {
      ++next_;
    } else {
      fail();
    }
  }
  template <class X>
  void constant(const Path&, const X& value) {
    const Constant constant = Constant::of(value);
    const auto kind = static_cast<uint8_t>(constant.kind);
    if (constant.kind == ConstantKind::kString) {
      take_text(TreeEntry::Kind::kConstant, kind, constant.text);
    } else {
      take({TreeEntry::Kind::kConstant, kind, constant.bits, constant.more_bits});
    }
  }
  /// A tensor of such a class never matches, since it is never captured.
  void subclass(const Path&, std::string_view) { fail(); }
  /// Whether the visit matched the spec from its first to its last entry. Call it when the visit is over.
  bool matched() const { return next_ == end_ && next_ != nullptr; }

 protected:
  explicit TreeMatcherBase(const TreeSpec& spec)
      : spec_(spec), next_(spec.entries_.data()), end_(next_ + spec.entries_.size()) {
    static constexpr TreeEntry kNoEntries[1] = {};
    if (spec.entries_.empty()) next_ = end_ = kNoEntries;
  }
  void take(const TreeEntry& entry) {
    if (next_ != end_ && *next_ == entry) [[likely]] {
      ++next_;
    } else {
      fail();
    }
  }
  bool take_tensor(TreeEntry::Kind kind) {
    take({kind, 0, 0, 0});
    return next_ != nullptr;
  }

 private:
  void fail() { next_ = end_ = nullptr; }
  void take_text(TreeEntry::Kind kind, uint8_t subkind, std::string_view text) {
    if (next_ != end_ && next_->kind == kind && next_->detail == subkind && spec_.texts_[next_->bits] == text) {
      ++next_;
    } else {
      fail();
    }
  }

  const TreeSpec& spec_;
  const TreeEntry* next_;
  const TreeEntry* end_;
};

/// A visitor that compares what it visits with a spec and calls `collect(const at::Tensor&)` for each tensor on the
/// way; after a difference it collects no more. This is the hot path of a compiled function's cache.
template <class Collect>
class TreeMatcher : public TreeMatcherBase {
 public:
  TreeMatcher(const TreeSpec& spec, Collect collect) : TreeMatcherBase(spec), collect_(std::move(collect)) {}
  void tensor(const Path&, const at::Tensor& tensor) {
    if (take_tensor(TreeEntry::Kind::kTensor)) collect_(tensor);
  }
  void module_tensor(const Path&, const at::Tensor& tensor) {
    if (take_tensor(TreeEntry::Kind::kModuleTensor)) collect_(tensor);
  }

 private:
  Collect collect_;
};
}  // namespace detail

}  // namespace diptych
